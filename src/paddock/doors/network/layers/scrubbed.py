"""The layer that takes the values of secrets out of an answer."""

from __future__ import annotations

from itertools import chain

from paddock.doors.network.exchange import Headers, HttpExchange, without
from paddock.doors.network.heavy_work import HeavyWork, is_light
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.doors.network.secrets.scrubber import Scrubber

_PIECE = 32 << 10  # bytes that are searched in one job, so that other sandboxes have a turn


class ScrubbedAnswer(ExchangeLayer):
    """Passes an answer on with placeholders where values stood: in its reason, its headers, its
    body and its trailers. The body is not compressed any more when it comes here."""

    def __init__(
        self, inner: HttpExchange, scrubber: Scrubber, work: HeavyWork, *, has_body: bool
    ) -> None:
        super().__init__(inner)
        self._changes_length = has_body and not scrubber.keeps_length
        self._scrubber = scrubber
        self._stream = scrubber.stream()
        self._work = work

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        headers = await self._scrubbed(headers)
        if self._changes_length:
            headers = without(headers, b"content-length")
        await self._inner.begin(status, headers, self._scrubber.scrub(reason))

    async def send(self, data: bytes) -> None:
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
        clean = b"".join([await self._work.search(self._stream.feed, piece) for piece in pieces])
        if clean:
            await self._inner.send(clean)

    async def finish(self, trailers: Headers | None = None) -> None:
        if rest := self._stream.finish():
            await self._inner.send(rest)
        if trailers is not None:
            trailers = await self._scrubbed(trailers)
        await self._inner.finish(trailers)

    async def _scrubbed(self, headers: Headers) -> Headers:
        if is_light(*chain.from_iterable(headers)):
            return self._scrubber.scrub_headers(headers)
        return await self._work.run(self._scrubber.scrub_headers, headers)
