"""The host's end of a guest's boot: waits for its report, and explains why there is none."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import stat
from collections.abc import Sequence

import msgspec

from paddock.fence import bubblewrap
from paddock.fence.container.network.namespace import NamespaceSockets
from paddock.fence.container.plan import NOTHING_TO_RUN
from paddock.fence.guest import agreed
from paddock.model.errors import HostCannot

BOOT_TIMEOUT_S = 30.0
_MAX_FDS = 1 + len(agreed.SOCKETS)


class Handed(msgspec.Struct, frozen=True):
    """The descriptors that a guest hands over when it has booted."""

    listener: int
    sockets: NamespaceSockets

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.listener)
        self.sockets.close()


async def booted(boot: socket.socket, errors: int, sources: Sequence[str]) -> Handed:
    """Waits for the guest's word that all is in force; what it hands over comes with it.

    `sources` are the paths on the host of the plan's trees, by number, for whoever reads an error.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(boot.fileno(), readable.set)
    try:
        await asyncio.wait_for(readable.wait(), BOOT_TIMEOUT_S)
    except TimeoutError:
        raise HostCannot(f"the sandbox did not boot within {BOOT_TIMEOUT_S:.0f} s") from None
    finally:
        loop.remove_reader(boot.fileno())
    try:
        data, fds, _, _ = socket.recv_fds(boot, 64, _MAX_FDS, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:  # it ended before it had read all that was sent to it
        data, fds = b"", []
    numbers = data.removeprefix(agreed.READY)
    if not data.startswith(agreed.READY) or len(fds) != 1 + len(numbers):
        for fd in fds:
            os.close(fd)
        raise _boot_failure(errors, sources)
    return Handed(fds[0], NamespaceSockets(dict(zip(numbers, fds[1:], strict=True))))


def _boot_failure(errors: int, sources: Sequence[str]) -> HostCannot:
    with contextlib.suppress(BlockingIOError):
        text = os.read(errors, 4096).decode("utf-8", "replace")
        text = text.replace(NOTHING_TO_RUN, "").strip()
        if text:
            text = _with_host_paths(text, sources)
            return HostCannot(f"the sandbox did not start: {text[-1500:]}", hint=_hint(text))
    return HostCannot("the sandbox did not start and left no word why", hint="run: paddock doctor")


def _with_host_paths(text: str, sources: Sequence[str]) -> str:
    """Return the text with bubblewrap and each staged tree named by the path that the caller
    knows."""
    text = text.replace(f"/proc/self/fd/{agreed.PROGRAM_FD}:", f"{bubblewrap.find()}:")

    def name(match: re.Match[str]) -> str:
        number = int(match[1])
        return sources[number] if number < len(sources) and sources[number] else match[0]

    return re.sub(rf"(?:/oldroot)?{re.escape(agreed.STAGE)}/(\d+)", name, text)


def _hint(text: str) -> str:
    if "user namespace" in text or "uid map" in text:
        return "this host restricts user namespaces; run: paddock doctor"
    if os.strerror(errno.EACCES) in text:
        if bubblewrap.find() in text:
            return f"chmod 755 {bubblewrap.find()}, or: sysctl -w vm.memfd_noexec=1"
        closed = next(filter(None, map(_closed_part, re.findall(r"/[^\s:\"']+", text))), None)
        if closed is not None:
            return f"{closed} is closed to the sandbox's uid: chmod o+rx {closed}"
    return "run: paddock doctor"


def _closed_part(path: str) -> str | None:
    """Return the first directory on the way to a path that only some users may enter, or the
    path."""
    parts = path.split("/")
    for count in range(2, len(parts) + 1):
        part = "/".join(parts[:count])
        try:
            mode = os.stat(part).st_mode
        except OSError:
            return None
        wanted = 0o5 if stat.S_ISDIR(mode) else 0o4
        if mode & wanted != wanted:
            return part
    return None
