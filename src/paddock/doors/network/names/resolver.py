"""Names to addresses by the host's own resolver: on threads, remembered for a moment, bounded.

What comes back is what somebody's name server said. It is not checked here.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from paddock.fence.offload import offload

LOOKUP_S = 5.0
CACHE_S = 30.0
MAX_CACHED = 1024
MAX_ADDRESSES = 16  # of one name; a server can send hundreds
MAX_AT_ONCE = 8  # of one sandbox
MAX_UNDER_WAY = 256  # of one sandbox, with those that wait for their turn
# A thread that waits for a dead name server cannot be stopped. These many, of all sandboxes, leave
# enough of the engine's threads for its other work.
MAX_THREADS = 32

Resolve = Callable[[str], Awaitable[Sequence[str]]]
_threads = threading.BoundedSemaphore(MAX_THREADS)


class Busy(Exception):
    """Too many lookups are under way."""


async def ask_host(name: str) -> list[str]:
    """As any program of the host would find it: its hosts file, its name servers. Raises OSError,
    UnicodeError or Busy."""
    if not _threads.acquire(blocking=False):
        raise Busy
    return await offload(_ask_and_release, name)


class Lookups:
    """The lookups of one sandbox; runs on one loop."""

    def __init__(
        self, resolve: Resolve = ask_host, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._resolve = resolve
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._found: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[tuple[str, ...]]] = {}

    async def addresses_of(self, name: str) -> tuple[str, ...]:
        """Return the addresses of a name. Raises TimeoutError, Busy, or what the resolver
        raises."""
        entry = self._found.get(name)
        if entry is not None and self._clock() < entry[0]:
            return entry[1]
        task = self._under_way.get(name) or self._begin(name)
        async with asyncio.timeout(LOOKUP_S):
            # It goes on when a caller leaves: the thread does so anyway, and others may wait too.
            return await asyncio.shield(task)

    def _begin(self, name: str) -> asyncio.Task[tuple[str, ...]]:
        if len(self._under_way) >= MAX_UNDER_WAY:
            raise Busy
        task = asyncio.get_running_loop().create_task(self._look_up(name))
        self._under_way[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))
        return task

    async def _look_up(self, name: str) -> tuple[str, ...]:
        async with self._slots:
            return tuple((await self._resolve(name))[:MAX_ADDRESSES])

    def _ended(self, name: str, task: asyncio.Task[tuple[str, ...]]) -> None:
        del self._under_way[name]
        if task.cancelled() or task.exception() is not None:
            return  # a failure is not remembered: the next caller asks again
        self._found[name] = (self._clock() + CACHE_S, task.result())
        self._found.move_to_end(name)
        if len(self._found) > MAX_CACHED:
            self._found.popitem(last=False)


def _ask_and_release(name: str) -> list[str]:
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    finally:
        _threads.release()
    return [_written(address) for *_, address in entries]


def _written(address: Sequence[object]) -> str:
    """Some libraries leave the zone out of the text; it must not be lost."""
    text, zone = str(address[0]), address[3] if len(address) > 3 else 0
    return text if not zone or "%" in text else f"{text}%{zone}"
