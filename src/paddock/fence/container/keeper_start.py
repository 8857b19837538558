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
from typing import NamedTuple

from paddock.fence.container.keeper_protocol import FIRST
from paddock.fence.guest import wire
from paddock.model.errors import HostCannot

_SOURCE = __file__.rsplit("/", 4)[0]
# It goes without tidying its own memory up: whoever reads our output waits for the end of its too.
_PROGRAM = (
    "import os, sys; sys.path.insert(0, sys.argv[2]);"
    "from paddock.fence.container.keeper import main; main(int(sys.argv[1])); os._exit(0)"
)


class StartedKeeper(NamedTuple):
    """A keeper that gets up, and our end of its socket."""

    sock: socket.socket
    process: subprocess.Popen[bytes]


_early: dict[str, StartedKeeper] = {}  # keepers that nobody has asked for yet, by home


@contextmanager
def early_keeper() -> Iterator[None]:
    """Within this a keeper gets up, for the first who asks for one. It goes when nobody has."""
    keeper = start_keeper()
    try:
        from paddock.state.home import Home  # only now: meanwhile the keeper loads too

        root = os.fspath(Home.find().root.absolute())
        send_home(keeper, root)
    except BaseException:
        _dismiss(keeper)
        raise
    _early[root] = keeper
    try:
        yield
    finally:
        left = _early.pop(root, None)
        if left is not None:
            _dismiss(left)


def keeper_for(root: str) -> StartedKeeper:
    """Return a keeper for this home: the one that gets up already, or a new one."""
    keeper = _early.pop(root, None)
    if keeper is None:
        keeper = start_keeper()
        send_home(keeper, root)
    return keeper


def start_keeper() -> StartedKeeper:
    """Start a keeper that does not know its home yet."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), _SOURCE],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        )
    ours.setblocking(False)
    return StartedKeeper(ours, process)


def send_home(keeper: StartedKeeper, root: str) -> None:
    """Tell a keeper where the home is. A new socket has room for it."""
    data: bytes = wire.pack({"number": FIRST, "home": root})  # type: ignore[no-untyped-call]
    try:
        keeper.sock.send(data)
    except OSError as error:
        raise HostCannot(f"the keeper is gone: {error.strerror}") from None


def _dismiss(keeper: StartedKeeper) -> None:
    keeper.sock.close()
    keeper.process.wait()


def _after_fork_in_child() -> None:
    """Close the sockets of the parent's keepers: our copies would keep them from seeing its end."""
    for keeper in _early.values():
        keeper.sock.close()
    _early.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
