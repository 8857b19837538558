"""Leaves an agent the time to take one answer before the next, where several are under way at once.

Then it sees them in the order in which the journal has them, and a replay can give them in that
order again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paddock.doors.network.client_disconnect import ClientDisconnected
from paddock.doors.network.exchange import Headers
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.fence.processes.connections import is_open
from paddock.fence.processes.quiescence import MANY, ONE, wait_until_quiescent

if TYPE_CHECKING:
    from paddock.doors.network.layers.recorder import AnswerRecorder

_NEAR_S = 1.0  # answers further apart are told apart by any agent, on a busy machine too
# While a run is recorded. Programs that end and threads that take turns need a while to take an
# answer. An agent that computes all the time is waited for in vain, and so for a second and a
# fiftieth of its time at most; then it is left the short limit only.
_LIMIT_S, _SHORT_LIMIT_S = 0.25, 0.01
_VAIN_S, _VAIN_SHARE = 1.0, 0.02


class Pacer:
    """Lets the answers of one sandbox begin and end one after the other."""

    def __init__(self, init_pid: int, limit_s: float | None = None) -> None:
        """With `limit_s` an agent is waited for so long before each answer, however often that was
        in vain."""
        self._init_pid = init_pid
        self._limit_s = limit_s
        self._under_way = 0
        self._last = 0.0
        self._began = time.monotonic()
        self._in_vain_s = 0.0
        self._turn = asyncio.Lock()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Count one request as under way."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def is_open(self, port: int) -> bool:
        """Return whether a program inside still has its end of a connection from that port."""
        return is_open(self._init_pid, port)

    async def turn(self) -> None:
        """Wait until the agent has taken the answer before: called before an answer begins, and
        before its end."""
        async with self._turn:
            now = time.monotonic()
            if now - self._last < _NEAR_S:
                looks = ONE if self._under_way < 2 else MANY
                if not await wait_until_quiescent(self._init_pid, self._limit_at(now), looks):
                    self._in_vain_s += time.monotonic() - now
            self._last = time.monotonic()

    def _limit_at(self, now: float) -> float:
        if self._limit_s is not None:
            return self._limit_s
        may_wait_s = _VAIN_S + _VAIN_SHARE * (now - self._began)
        return _LIMIT_S if self._in_vain_s < may_wait_s else _SHORT_LIMIT_S


class PacedAnswer(ExchangeLayer):
    """Waits for its turn before an answer begins, and before its end.

    What the agent was told by other answers while this one streamed came before its end, and a
    replay has to know that.
    """

    def __init__(
        self,
        inner: AnswerRecorder,
        pacer: Pacer,
        position: Callable[[], int],
        *,
        has_body: bool,
    ) -> None:
        super().__init__(inner)
        self._recorder = inner
        self._pacer = pacer
        self._position = position  # the last record of the journal
        self._has_body = has_body

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        if self.is_gone():
            raise ClientDisconnected("it did not wait for its answer")
        await self._pacer.turn()
        await self._inner.begin(status, headers, reason)

    async def finish(self, trailers: Headers | None = None) -> None:
        if self._has_body and self._position() != self._recorder.begun:
            await self._pacer.turn()
            self._recorder.ended = self._position()
        await self._inner.finish(trailers)
