"""The base of all layers around an exchange."""

from __future__ import annotations

from paddock.doors.network.exchange import Headers, HttpExchange, HttpRequest
from paddock.doors.network.transport.conn import Conn


class ExchangeLayer:
    """An exchange around another one, which is nearer to the client.

    Whoever answers calls `begin`, then `send` for each part of the body, then `finish`. A layer
    sees these calls on their way to the client and may change, delay or record them. A subclass
    overrides what it is about, and calls the same method of `_inner`; everything else passes.
    """

    def __init__(self, inner: HttpExchange) -> None:
        self._inner = inner
        self.request: HttpRequest = inner.request

    async def proceed(self) -> None:
        await self._inner.proceed()

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        await self._inner.begin(status, headers, reason)

    async def send(self, data: bytes) -> None:
        await self._inner.send(data)

    async def finish(self, trailers: Headers | None = None) -> None:
        await self._inner.finish(trailers)

    def abort(self) -> None:
        self._inner.abort()

    async def cut(self) -> None:
        await self._inner.cut()

    async def break_off(self) -> None:
        await self._inner.break_off()

    def is_gone(self) -> bool:
        return self._inner.is_gone()

    def take_over(self) -> Conn:
        return self._inner.take_over()
