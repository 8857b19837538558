"""Bodies of HTTP/1 messages: counted, in chunks, or up to the end of the connection. Each takes
what is its own, when it is asked, and nothing of what follows.
"""

from __future__ import annotations

import asyncio

from httptools import HttpParserError, HttpRequestParser

from paddock.doors.network.exchange import BadMessage, Headers
from paddock.doors.network.http1.messages import head_bytes
from paddock.doors.network.transport.conn import BULK_BYTES
from paddock.doors.network.transport.stream import ByteStream, ConnLost

_MAX_TRAILERS = 100
_TRAILER_BYTES = 16 << 10
_EXTENSION_BYTES = 1 << 10  # that a chunk may carry besides its data, on average
_MANY_FEEDS = 256
_CHUNKED_HEAD = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
# Fields that say how to read, route or trust the message are too late in a trailer.
_NOT_IN_TRAILERS = frozenset(
    b"authorization cache-control connection content-encoding content-length content-range"
    b" content-type cookie expect host keep-alive max-forwards set-cookie te trailer"
    b" transfer-encoding upgrade www-authenticate".split()
)


class Counted:
    """As many bytes as were announced. They do not pass a parser: they are counted."""

    __slots__ = ("_conn", "_left", "length")

    def __init__(self, conn: ByteStream, length: int) -> None:
        self._conn = conn
        self._left = length
        self.length: int | None = length

    @property
    def is_done(self) -> bool:
        return self._left == 0

    @property
    def trailers(self) -> Headers:
        return []

    async def read(self) -> bytes:
        if not self._left:
            return b""
        data = await self._conn.read(min(self._left, BULK_BYTES))
        if not data:
            raise ConnLost(f"it ended {self._left} bytes before the end of the body")
        self._left -= len(data)
        return data


class Chunked:
    """Chunks, taken apart by a parser of their own that has only seen a head of ours."""

    __slots__ = (
        "_blame",
        "_chunks",
        "_conn",
        "_last",
        "_overhead",
        "_parser",
        "_parts",
        "is_done",
        "length",
        "trailers",
    )

    def __init__(self, conn: ByteStream, *, blame: int = 400) -> None:
        self._conn = conn
        self._blame = blame  # the status that says whose fault bad chunks are
        self._parser: HttpRequestParser | None = None
        self._parts: list[bytes] = []
        self._last = b""  # the bytes before the next ones, as far as they can be part of an end
        self._chunks = self._overhead = 0
        self.is_done = False
        self.length: int | None = None
        self.trailers: Headers = []

    async def read(self) -> bytes:
        while not self.is_done:
            data = await self._conn.read(BULK_BYTES)
            if not data:
                raise ConnLost("it ended in the middle of a body")
            if self._feed(data) > _MANY_FEEDS:
                await asyncio.sleep(0)  # a body made to be slow: others have a turn
            if self._parts:
                part = b"".join(self._parts)
                self._parts.clear()
                return part
        return b""

    def _feed(self, data: bytes) -> int:
        """The parser does not say where a message ended, and would go on with the next. So it gets
        pieces that stop wherever one could end: at each CR LF CR LF."""
        seen = len(self._last)
        data = self._last + data
        view, feeds = memoryview(data), 0
        while seen < len(data) and not self.is_done:
            end = data.find(b"\r\n\r\n", max(seen - 3, 0))
            stop = len(data) if end < 0 else end + 4
            self._parse(view[seen:stop])
            seen, feeds = stop, feeds + 1
        self._last = data[-3:]
        if self.is_done and seen < len(data):
            self._conn.unread(data[seen:])
        return feeds

    def _parse(self, piece: memoryview) -> None:
        try:
            if self._parser is None:
                parser = HttpRequestParser(self)
                parser.feed_data(_CHUNKED_HEAD)
                self._parser = parser
                self.trailers = []
            self._overhead += len(piece)
            self._parser.feed_data(piece)
        except HttpParserError as error:
            raise BadMessage(self._blame, f"bad chunks: {error.__context__ or error}") from None
        if self._overhead > _TRAILER_BYTES + self._chunks * _EXTENSION_BYTES:
            raise BadMessage(self._blame, "chunks with too much besides their data")

    # What the parser calls.

    def on_chunk_header(self) -> None:
        self._chunks += 1

    def on_body(self, part: bytes) -> None:
        self._overhead -= len(part)
        self._parts.append(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.trailers) >= _MAX_TRAILERS:
            raise BadMessage(self._blame, "too many trailers")
        self.trailers.append((name, value.strip(b" \t")))

    def on_message_begin(self) -> None:
        if self.is_done:
            raise BadMessage(self._blame, "bytes after the last chunk")

    def on_message_complete(self) -> None:
        self.is_done = True
        self.trailers = allowed_trailers(self.trailers)


class UntilClose:
    """All that comes until the server ends the connection."""

    __slots__ = ("_conn", "is_done")
    length: int | None = None

    def __init__(self, conn: ByteStream) -> None:
        self._conn = conn
        self.is_done = False

    @property
    def trailers(self) -> Headers:
        return []

    async def read(self) -> bytes:
        if self.is_done:
            return b""
        data = await self._conn.read(BULK_BYTES)
        self.is_done = not data
        return data


def as_chunk(data: bytes) -> bytes:
    return b"".join((b"%x\r\n" % len(data), data, b"\r\n"))


def last_chunk(trailers: Headers) -> bytes:
    return head_bytes(b"0", allowed_trailers(trailers))


def allowed_trailers(trailers: Headers) -> Headers:
    return [
        (name, value)
        for name, value in trailers
        if (key := name.lower()) not in _NOT_IN_TRAILERS and not key.startswith(b"proxy-")
    ]
