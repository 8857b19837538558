"""The host's end of a guest's boot: waits for its word, and says why there is none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

from paddock.fence.container.network import NamespaceSockets
from paddock.fence.container.plan import NOTHING_TO_RUN
from paddock.fence.guest import agreed
from paddock.model.errors import HostCannot
from paddock.model.values import dataclass

BOOT_TIMEOUT_S = 30.0
_MAX_FDS = 1 + len(agreed.SOCKETS)


@dataclass(frozen=True, slots=True)
class Handed:
    """What a guest hands over when it has booted."""

    listener: int
    sockets: NamespaceSockets

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.listener)
        self.sockets.close()


async def booted(boot: socket.socket, errors: int) -> Handed:
    """Waits for the guest's word that all is in force; what it hands over comes with it."""
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
        raise _boot_failure(errors)
    return Handed(fds[0], NamespaceSockets(dict(zip(numbers, fds[1:], strict=True))))


def _boot_failure(errors: int) -> HostCannot:
    with contextlib.suppress(BlockingIOError):
        text = os.read(errors, 4096).decode("utf-8", "replace")
        text = text.replace(NOTHING_TO_RUN, "").strip()
        if text:
            return HostCannot(f"the sandbox did not start: {text[-1500:]}", hint=_hint(text))
    return HostCannot("the sandbox did not start and left no word why", hint="run: paddock doctor")


def _hint(text: str) -> str:
    if "user namespace" in text or "uid map" in text:
        return "this host restricts user namespaces; run: paddock doctor"
    return "run: paddock doctor"
