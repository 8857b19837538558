"""A fault on purpose: programs are killed, as the kernel would when memory is short."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from paddock.doors.machine.processes import send_signal
from paddock.model.errors import PaddockError

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box

_AGAIN_S, _TRIES = 0.02, 100


class Killer:
    """Of one sandbox. Used as `spoil` of a crossing, it keeps what the fault says."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._at_work: set[asyncio.Future[None]] = set()

    def watch(self, words: list[float]) -> Callable[[Mapping[str, Any]], None]:
        """What puts into `words` after how many seconds a fault kills, if it does."""

        def spoil(fault: Mapping[str, Any]) -> None:
            if "kill" in fault:
                words.append(0.0 if fault["kill"] is True else float(fault["kill"]))

        return spoil

    def kill(self, pids: Callable[[], list[int]], after_s: list[float]) -> None:
        """Kills what the guest has started, later, if that is wanted."""
        if after_s:
            self._work(self._kill(pids, after_s[0]))

    def kill_held(self, host_pid: int, after_s: list[float]) -> None:
        """Kills a process that stands still now, as this host knows it, later, if that is
        wanted."""
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
                if any([await send_signal(self._box, pid, signal.SIGKILL) for pid in pids()]):
                    return
            await asyncio.sleep(_AGAIN_S)
