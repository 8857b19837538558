"""Leaves an agent the time to take one answer before the next, where several are under way at once:
then it sees them in the order in which the journal has them, and a replay can give them so again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.fence.container.ends import is_open
from paddock.fence.container.stillness import MANY, ONE, settled

_NEAR_S = 0.1  # answers further apart are told apart by any agent, on a busy machine too
_LIMIT_S = 0.01  # an agent that computes all the time is not waited for


class Pacer:
    """One for each sandbox whose run is to be replayed."""

    def __init__(self, init_pid: int, limit_s: float = _LIMIT_S) -> None:
        self._init_pid = init_pid
        self._limit_s = limit_s
        self._under_way = 0
        self._last = 0.0
        self._turn = asyncio.Lock()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Around one request."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def is_open(self, port: int) -> bool:
        """Whether a program inside still has its end of a connection from that port."""
        return is_open(self._init_pid, port)

    async def turn(self) -> None:
        """Before an answer begins, and before its end."""
        async with self._turn:
            if time.monotonic() - self._last < _NEAR_S:
                looks = ONE if self._under_way < 2 else MANY
                await settled(self._init_pid, self._limit_s, looks)
            self._last = time.monotonic()
