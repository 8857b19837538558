"""One request over HTTP/1 and the way to answer it. How requests are read is in `server`."""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus

from paddock.doors.network.exchange import BadMessage, Body, BodyWrapper, Headers, Request
from paddock.doors.network.http1.bodies import Chunked, Counted, as_chunk, last_chunk
from paddock.doors.network.http1.messages import head_bytes, is_length
from paddock.doors.network.transport.conn import Conn

_DRAINED_BYTES = 256 << 10  # of a body that the handler did not want, before the next request
_DRAINED_S = 10.0
_HELD_BYTES = 64 << 10  # a head waits for the first part of a body that is at most so long
_FRAMING = frozenset((b"connection", b"content-length", b"keep-alive", b"transfer-encoding"))
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class Http1Exchange:
    """One request and the way to answer it."""

    __slots__ = (
        "_body",
        "_conn",
        "_has_begun",
        "_has_body",
        "_has_proceeded",
        "_held",
        "_is_chunked",
        "_is_over",
        "_is_taken",
        "_keeps",
        "_left",
        "_may_change",
        "request",
    )

    def __init__(
        self, conn: Conn, request: Request, body: Counted | Chunked | None, *, keeps: bool
    ) -> None:
        self.request = request
        self._conn = conn
        self._body = body
        self._keeps = keeps
        self._held = b""
        self._left: int | None = None  # of the announced length of the answer
        self._has_body = True
        self._has_begun = self._has_proceeded = self._is_chunked = False
        self._is_over = self._is_taken = self._may_change = False
        if request.expects_continue and body is not None:
            request.body = _Awaited(self, body)

    async def proceed(self) -> None:
        if not self.request.expects_continue or self._has_proceeded or self._has_begun:
            return
        self._has_proceeded = True
        await self._conn.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        if self._has_begun:
            raise RuntimeError("an answer begins once")
        head = self._head(status, headers, reason)
        self._has_begun = True
        if not self._may_change and (
            not self._has_body or (self._left is not None and self._left <= _HELD_BYTES)
        ):
            self._held = head  # it goes out with the body, in one write
        else:
            await self._conn.write(head)

    async def send(self, data: bytes) -> None:
        if not data or not self._has_body:
            return
        if self._left is not None:
            if len(data) > self._left:
                raise BadMessage(502, "an answer that is longer than announced")
            self._left -= len(data)
        elif self._is_chunked:
            data = as_chunk(data)
        if self._held:
            data, self._held = self._held + data, b""
        await self._conn.write(data)

    async def flush(self) -> None:
        """Sends a head that waits for the first part of its body."""
        if self._held:
            held, self._held = self._held, b""
            await self._conn.write(held)

    async def finish(self, trailers: Headers | None = None) -> None:
        if self._left and self._has_body:
            raise BadMessage(502, "an answer that is shorter than announced")
        if self._is_chunked:
            await self._conn.write(last_chunk(trailers or []))
        elif self._held:
            await self.flush()
        self._is_over = True

    def abort(self) -> None:
        self._keeps = False
        self._is_over = True
        self._conn.abort()

    async def cut(self) -> None:
        self._keeps = False
        self._is_over = True
        await self.flush()
        await self._conn.linger()  # a reset could overtake what was sent

    async def break_off(self) -> None:
        self._keeps = False
        self._is_over = True
        await self.flush()
        await self._conn.reset()

    def is_gone(self) -> bool:
        return self._conn.is_gone

    def take_over(self) -> Conn:
        if not self._may_change:
            raise RuntimeError("the client has not been told that the protocol changes")
        self._is_taken = True
        return self._conn

    async def fail(self, error: BadMessage) -> bool:
        """The answer of a handler that could not give one. There is no next request."""
        if self._is_taken:
            return False  # the handler's to close
        if self._has_begun:
            self._conn.abort()
        else:
            await refuse(self._conn, error)
        return False

    async def settle(self) -> bool:
        """After the handler: whether the connection is ready for the next request."""
        if self._is_taken:
            return False
        if not self._is_over:
            return await self.fail(BadMessage(502, "the request was not answered"))
        if self._keeps and await self._drain():
            return True
        if not self._conn.is_closed:
            await self._conn.linger()
        return False

    async def _drain(self) -> bool:
        """Takes what is left of the body, if that is little."""
        body, taken = self._body, 0
        if body is None or body.is_done:
            return True
        with contextlib.suppress(BadMessage, TimeoutError):
            async with asyncio.timeout(_DRAINED_S):
                while taken <= _DRAINED_BYTES:
                    data = await body.read()
                    if not data:
                        return True
                    taken += len(data)
        return False

    def _head(self, status: int, headers: Headers, reason: bytes) -> bytes:
        kept, length = _without_framing(headers)
        request = self.request
        if request.expects_continue and not self._has_proceeded:
            self._keeps = False  # whether its body comes is not known
        if status == 101 or (request.method == "CONNECT" and 200 <= status < 300):
            self._may_change = True
            self._has_body = False
            if status == 101:
                kept.append((b"Connection", b"Upgrade"))
        else:
            self._frame(status, length, kept)
            if not self._keeps:
                kept.append((b"Connection", b"close"))
            elif request.version == "1.0":
                kept.append((b"Connection", b"keep-alive"))
        return head_bytes(
            b"HTTP/1.1 %d %b" % (status, reason or REASONS.get(status, b"Unknown")), kept
        )

    def _frame(self, status: int, length: int | None, kept: Headers) -> None:
        if status < 200:
            raise RuntimeError("an interim answer is not an answer")
        if status == 204:
            self._has_body = False
            return
        if status == 205:
            length = 0
        if self.request.method == "HEAD" or status in (205, 304):
            self._has_body = False
        elif length is None and self.request.version == "1.1":
            self._is_chunked = True
            kept.append((b"Transfer-Encoding", b"chunked"))
        elif length is None:
            self._keeps = False
        if length is not None:
            self._left = length
            kept.append((b"Content-Length", b"%d" % length))


class _Awaited(BodyWrapper):
    """The body of a client that waits to be told to send it: whoever reads it, tells."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Http1Exchange, body: Body) -> None:
        super().__init__(body)
        self._exchange = exchange

    async def read(self) -> bytes:
        await self._exchange.proceed()
        return await self._body.read()


def _without_framing(headers: Headers) -> tuple[Headers, int | None]:
    """Headers without those that are the driver's, and the length that they announce."""
    kept: Headers = []
    length: int | None = None
    for pair in headers:
        key = pair[0].lower()
        if key not in _FRAMING:
            kept.append(pair)
        elif key == b"content-length":
            announced = pair[1]
            if length is not None or not is_length(announced):
                raise BadMessage(502, "an answer without a valid length")
            length = int(announced)
    return kept, length


async def refuse(conn: Conn, error: BadMessage) -> None:
    """Says what is wrong, and ends the connection."""
    status = error.status if error.status in REASONS else 502
    text = f"{error}\n".encode()
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", b"%d" % len(text)),
        (b"Connection", b"close"),
    ]
    await conn.write(head_bytes(b"HTTP/1.1 %d %b" % (status, REASONS[status]), headers) + text)
    await conn.linger()
