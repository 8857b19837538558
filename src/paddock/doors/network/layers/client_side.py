"""The layer next to the client."""

from __future__ import annotations

from collections.abc import Awaitable

from paddock.doors.network.client_disconnect import ClientDisconnected
from paddock.doors.network.exchange import Headers, HttpExchange
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.doors.network.transport.stream import ConnLost


class ClientSide(ExchangeLayer):
    """Knows whether the client was told anything, and when it is lost.

    A lost connection is ConnLost, be it that of the client or that of a server. Whoever answers
    uses both, so a client that is lost is ClientDisconnected from here on.
    """

    def __init__(self, inner: HttpExchange) -> None:
        super().__init__(inner)
        self.is_answered = False  # nothing else can be told to the client

    async def proceed(self) -> None:
        await _passed(self._inner.proceed())

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        self.is_answered = True
        await _passed(self._inner.begin(status, headers, reason))

    async def send(self, data: bytes) -> None:
        await _passed(self._inner.send(data))

    async def finish(self, trailers: Headers | None = None) -> None:
        await _passed(self._inner.finish(trailers))

    def abort(self) -> None:
        self.is_answered = True
        self._inner.abort()


async def _passed(call: Awaitable[None]) -> None:
    try:
        await call
    except ConnLost as error:
        raise ClientDisconnected(str(error)) from None
