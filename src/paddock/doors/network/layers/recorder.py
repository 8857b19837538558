"""The layer that records an answer for the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.doors.network.bodies.capture import MAX_HASHED, BodyCapture
from paddock.doors.network.exchange import Headers, HttpExchange
from paddock.doors.network.http1.exchange import REASONS
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.doors.network.request import hidden_headers, shown_headers

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext


class AnswerRecorder(ExchangeLayer):
    """Captures what the client is told, and which records came before that.

    A replay gives answers when everything has come that came before them, so the journal has two
    positions: the last record before the answer began and, where others were written while it
    streamed, the last record before its end.
    """

    def __init__(self, inner: HttpExchange, context: DoorContext) -> None:
        super().__init__(inner)
        self.begun: int | None = None
        self.ended: int | None = None
        self._context = context
        self._capture = BodyCapture(hashed=MAX_HASHED, room=context.room)
        self._head: tuple[int, Headers, bytes] | None = None
        self._trailers: Headers = []
        self._is_finished = False

    def mark_begin(self) -> None:
        """Note the position at which the client is told the first thing."""
        self.begun = self._context.position

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        self._head = status, headers, reason
        self.mark_begin()
        await self._inner.begin(status, headers, reason)

    async def send(self, data: bytes) -> None:
        self._capture.feed(data)
        if self._capture.is_due:  # a long one is stored before more is read
            await self._capture.spill(self._context.gate().store_bytes)
        await self._inner.send(data)

    async def finish(self, trailers: Headers | None = None) -> None:
        self._trailers = trailers or []
        await self._inner.finish(trailers)
        self._is_finished = True

    async def record(self) -> dict[str, Any]:
        """Store what was captured, and return the record of the answer."""
        gate = self._context.gate()
        await self._capture.store(gate.store, gate.store_bytes)
        record = self._capture.record()
        if self._head is not None:
            record |= self._head_record(*self._head)
        if self.begun is not None:
            record["begun"] = self.begun
        if self._is_finished and self._trailers:
            record["trailers"] = shown_headers(self._trailers)
        if self._is_finished and self.ended is not None:
            record["ended"] = self.ended
        return record

    def _head_record(self, status: int, headers: Headers, reason: bytes) -> dict[str, Any]:
        """Return what the client was told before the body. Values that are not shown are sealed,
        for a replay."""
        record: dict[str, Any] = {"status": status, "headers": shown_headers(headers)}
        if reason and reason != REASONS.get(status):
            record["reason"] = reason.decode("latin-1")
        context = self._context
        if context.sealer is not None and (hidden := hidden_headers(headers)):
            run = context.sealed_for or context.gate().run
            record["sealed"] = context.sealer.seal(hidden, run)
        return record
