"""A fault on purpose: programs are killed, as the kernel would when memory is short."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from paddock.doors.machine.guest import Guest
from paddock.doors.machine.processes import send_signal
from paddock.model.errors import PaddockError

_AGAIN_S, _TRIES = 0.02, 100


class KillFault:
    """Kills programs of one sandbox. Its `watch` makes the `spoil` of a crossing, which is told
    what a fault says before the action is carried out."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._at_work: set[asyncio.Future[None]] = set()

    def watch(self, after_s: list[float]) -> Callable[[Mapping[str, Any]], None]:
        """Return a function that puts into `after_s` after how many seconds a fault kills, if it
        does."""

        def spoil(fault: Mapping[str, Any]) -> None:
            if "kill" in fault:
                after_s.append(0.0 if fault["kill"] is True else float(fault["kill"]))

        return spoil

    def kill(self, pids: Callable[[], list[int]], after_s: list[float]) -> None:
        """Kill what the guest has started, later, if `after_s` says so."""
        if after_s:
            self._work(self._kill(pids, after_s[0]))

    def kill_held(self, host_pid: int, after_s: list[float]) -> None:
        """Kill a process that the kernel holds now, as this host knows it, later, if `after_s` says
        so."""
        if after_s:
            with contextlib.suppress(ProcessLookupError):
                self._work(self._kill_held(os.pidfd_open(host_pid), after_s[0]))

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        working = asyncio.ensure_future(work)
        self._at_work.add(working)
        working.add_done_callback(self._at_work.discard)

    async def _kill_held(self, process: int, after_s: float) -> None:
        try:
            await asyncio.sleep(max(after_s, _AGAIN_S))  # it has still to become the program
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)

    async def _kill(self, pids: Callable[[], list[int]], after_s: float) -> None:
        await asyncio.sleep(after_s)
        for _ in range(_TRIES):  # at once may be before it has begun
            with contextlib.suppress(PaddockError, OSError):
                if any([await send_signal(self._guest, pid, signal.SIGKILL) for pid in pids()]):
                    return
            await asyncio.sleep(_AGAIN_S)
