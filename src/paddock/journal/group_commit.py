"""Group commit: one flush to disk serves everybody who waits for one. Knows no records.

A thread of its own, because a flush blocks for milliseconds; it ends when nobody has waited for a
while, and is started again by the next who does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

_IDLE_S = 5.0
# In a crowd a flush that waits for more to come costs each of them less than it delays them.
_CROWD = 8
_GATHER_S = 0.001
_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class GroupCommit:
    """Runs `flush` on a thread for all who wait; it covers all that was written before it."""

    def __init__(self, flush: Callable[[], object]) -> None:
        self._flush = flush
        self._changed = threading.Condition()
        self._waiters: list[_Waiter] = []
        self._has_thread = False

    async def wait(self) -> None:
        """Returns when a flush that began after this call has ended; raises what it raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._changed:
            self._waiters.append((loop, future))
            if not self._has_thread:
                threading.Thread(target=self._work, name="paddock-journal", daemon=True).start()
                self._has_thread = True
            elif len(self._waiters) == 1:
                self._changed.notify()
        await future

    def _work(self) -> None:
        while waiters := self._take():
            error: BaseException | None = None
            try:
                self._flush()
            except BaseException as caught:
                error = caught
            _settle(waiters, error)

    def _take(self) -> list[_Waiter]:
        """Return those who wait now; none when the thread is to end."""
        with self._changed:
            if not self._waiters:
                self._changed.wait(_IDLE_S)
        if len(self._waiters) >= _CROWD:
            time.sleep(_GATHER_S)
        with self._changed:
            taken, self._waiters = self._waiters, []
            self._has_thread = bool(taken)
            return taken


def _settle(waiters: list[_Waiter], error: BaseException | None) -> None:
    for loop in {loop for loop, _ in waiters}:
        futures = [future for home, future in waiters if home is loop]
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(_settle_all, futures, error)


def _settle_all(futures: list[asyncio.Future[None]], error: BaseException | None) -> None:
    for future in futures:
        if future.done():  # cancelled meanwhile
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(None)
