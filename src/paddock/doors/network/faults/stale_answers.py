"""Earlier answers to reads, for a fault that gives one of them again.

They are held in memory, within bounds.
"""

from __future__ import annotations

import msgspec

from paddock.doors.network.exchange import Headers, HttpExchange, HttpRequest, values_of, without
from paddock.doors.network.layers.base import ExchangeLayer

MAX_ANSWERS = 200
MAX_ANSWER_BYTES = 256 << 10
MAX_BYTES = 16 << 20
_READS = frozenset({"GET", "HEAD"})
# What else makes two requests for one URL different ones.
_TELLING = (b"accept", b"authorization", b"cookie", b"range", b"x-api-key")
_WHOLE = frozenset({200, 203, 404, 410})  # a "not found" of yesterday is a stale answer as well

Key = tuple[str, str, str, tuple[bytes, ...]]


class EarlierAnswer(msgspec.Struct, frozen=True):
    """An answer as the client got it."""

    status: int
    headers: Headers
    body: bytes


class StaleAnswers:
    """The last whole answer to each read."""

    def __init__(self) -> None:
        self._kept: dict[Key, EarlierAnswer] = {}
        self._size = 0

    def earlier(self, request: HttpRequest, place: str) -> EarlierAnswer | None:
        """Return the answer that the same request at `place` (host and port) got before, if that is
        known."""
        key = _key(request, place)
        return None if key is None else self._kept.get(key)

    def learning(self, exchange: HttpExchange, place: str) -> HttpExchange:
        """Return an exchange whose answer is kept. Requests that do not read pass as they are."""
        key = _key(exchange.request, place)
        return exchange if key is None else _Learning(exchange, self, key)

    def keep(self, key: Key, answer: EarlierAnswer) -> None:
        """Keep an answer in place of the one that was there; the oldest make room."""
        self._forget(key)
        self._kept[key] = answer
        self._size += len(answer.body)
        while len(self._kept) > MAX_ANSWERS or self._size > MAX_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        gone = self._kept.pop(key, None)
        self._size -= 0 if gone is None else len(gone.body)


async def replay(exchange: HttpExchange, answer: EarlierAnswer) -> None:
    """Give an earlier answer again."""
    length = (b"content-length", b"%d" % len(answer.body))
    is_head = exchange.request.method == "HEAD"
    headers = answer.headers if is_head else [*without(answer.headers, b"content-length"), length]
    await exchange.begin(answer.status, headers)
    if not is_head:
        await exchange.send(answer.body)
    await exchange.finish()


class _Learning(ExchangeLayer):
    def __init__(self, inner: HttpExchange, answers: StaleAnswers, key: Key) -> None:
        super().__init__(inner)
        self._answers = answers
        self._key = key
        self._head: tuple[int, Headers] | None = None
        self._body = bytearray()

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        if status in _WHOLE:
            self._head = status, list(headers)
        await self._inner.begin(status, headers, reason)

    async def send(self, data: bytes) -> None:
        if self._head is not None:
            self._body += data
            if len(self._body) > MAX_ANSWER_BYTES:
                self._head = None
                self._body.clear()
        await self._inner.send(data)

    async def finish(self, trailers: Headers | None = None) -> None:
        await self._inner.finish(trailers)
        if self._head is not None:
            self._answers.keep(self._key, EarlierAnswer(*self._head, bytes(self._body)))


def _key(request: HttpRequest, place: str) -> Key | None:
    if request.method not in _READS:
        return None
    fields = (value for name in _TELLING for value in (name, *values_of(request.headers, name)))
    return request.method, place, request.target, tuple(fields)
