"""The start of a keeper, apart from the link to it: a command line that will need one starts it
first of all, and loads its own code while the keeper gets up. Nothing heavy may be imported here.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.fence.guest import wire
from paddock.model.errors import HostCannot

FIRST = 1  # the number of the first ask, which says where the home is
_SOURCE = __file__.rsplit("/", 4)[0]
# It goes without tidying its own memory up: whoever reads our output waits for the end of its too.
_PROGRAM = (
    "import os, sys; sys.path.insert(0, sys.argv[2]);"
    "from paddock.fence.container.keeper import main; main(int(sys.argv[1])); os._exit(0)"
)

Roused = tuple[socket.socket, "subprocess.Popen[bytes]"]
_waiting: dict[str, Roused] = {}  # by home


@contextmanager
def early() -> Iterator[None]:
    """Within this a keeper gets up, for the first who asks for one. It goes when nobody has."""
    one = rouse()
    try:
        from paddock.state.home import Home  # only now: meanwhile the keeper loads too

        root = os.fspath(Home.find().root.absolute())
        _waiting[root] = tell(one, root)
    except BaseException:
        _dismiss(one)
        raise
    try:
        yield
    finally:
        left = _waiting.pop(root, None)
        if left is not None:
            _dismiss(left)


def roused(root: str) -> Roused:
    """One that knows of this home: the one that gets up already, or a new one."""
    return _waiting.pop(root, None) or tell(rouse(), root)


def rouse() -> Roused:
    """A new keeper, and our end of its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), _SOURCE],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        )
    ours.setblocking(False)
    return ours, process


def tell(one: Roused, root: str) -> Roused:
    """Says where the home is. A new socket has room for it."""
    data: bytes = wire.pack({"number": FIRST, "home": root})  # type: ignore[no-untyped-call]
    try:
        one[0].send(data)
    except OSError as error:
        raise HostCannot(f"the keeper is gone: {error.strerror}") from None
    return one


def _dismiss(one: Roused) -> None:
    sock, process = one
    sock.close()
    process.wait()


def _after_fork_in_child() -> None:
    """It is the parent's: our copy of the socket would keep it from seeing its host end."""
    for sock, _ in _waiting.values():
        sock.close()
    _waiting.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
