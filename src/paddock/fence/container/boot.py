"""The host's end of a guest's boot: waits for its word, and says why there is none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

from paddock.fence.container.plan import NOTHING_TO_RUN
from paddock.fence.guest import agreed
from paddock.model.errors import HostCannot

BOOT_TIMEOUT_S = 30.0


async def booted(boot: socket.socket, errors: int) -> int:
    """Waits for the guest's word that all is in force; its listener comes with it."""
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
        data, fds, _, _ = socket.recv_fds(boot, 64, 1)
    except ConnectionResetError:  # it ended before it had read all that was sent to it
        data, fds = b"", []
    if data != agreed.READY or not fds:
        raise _boot_failure(errors)
    os.set_inheritable(fds[0], False)
    return fds[0]


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
