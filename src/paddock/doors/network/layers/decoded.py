"""The layer that undoes the compression of an answer, so that others can read it."""

from __future__ import annotations

from paddock.doors.network.exchange import BadMessage, Headers, HttpExchange, values_of, without
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.doors.network.secrets.scrubber import ContentDecoder, decoder_for, has_plain_messages


class DecodedAnswer(ExchangeLayer):
    """Passes a body on in pieces of bounded size: a few compressed bytes may be many."""

    def __init__(self, inner: HttpExchange, headers: Headers) -> None:
        """`headers` are those of the server, before any was left out. Raises BadMessage where the
        body cannot be decoded."""
        super().__init__(inner)
        self._decoder = decoder_of(headers)
        self._is_compressed = bool(values_of(headers, b"content-encoding"))

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        headers = without(headers, b"content-encoding")
        if self._is_compressed:
            headers = without(headers, b"content-length")
        await self._inner.begin(status, headers, reason)

    async def send(self, data: bytes) -> None:
        for piece in self._decoder.feed(data):
            await self._inner.send(piece)

    async def finish(self, trailers: Headers | None = None) -> None:
        self._decoder.finish()
        if trailers is not None:
            trailers = without(trailers, b"content-encoding")
        await self._inner.finish(trailers)


def decoder_of(headers: Headers) -> ContentDecoder:
    """Return what undoes the compression of an answer. Raises BadMessage when nothing does."""
    codings = values_of(headers, b"content-encoding")
    coding = b", ".join(codings)  # of several, none is known
    decoder = decoder_for(coding)
    if decoder is None or not has_plain_messages(headers):
        # Its name is not repeated: a server may have put anything there, a value too.
        raise BadMessage(502, "the answer is compressed in a way that cannot be looked into")
    return decoder
