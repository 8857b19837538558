"""One request over HTTP/1 and the way to answer it. How requests are read is in `server`.

How an answer is given is a small machine. Each state says what may be written next, and the table
`_NEXT` owns every change of it:

    WAITING ──► CONTINUED ──► COUNTED, CHUNKED, UNTIL_CLOSE or BODYLESS ──► FINISHED
       └──────────────────────►  │
       └──────────────────────► SWITCHED ──► TAKEN

The head decides how the body is framed: by a length, in chunks, by the end of the connection (for a
client of HTTP/1.0), or not at all. After a head that changes the protocol the connection is the
handler's. Every state may be CUT: then the client sees that the answer is not whole, and there is
no next request. What else a handler does out of order is an error of ours: RuntimeError.

Apart from the state an exchange knows whether the connection may be used for another request
(`_keeps`), what is left of an announced length (`_left`), and a head that waits for the first part
of its body to go out in one write (`_held`).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from http import HTTPStatus

from paddock.doors.network.exchange import (
    SWITCHING_PROTOCOLS,
    BadMessage,
    Body,
    BodyWrapper,
    Headers,
    HttpRequest,
    has_body,
)
from paddock.doors.network.http1.bodies import Chunked, Counted, as_chunk, last_chunk
from paddock.doors.network.http1.messages import head_bytes, is_length
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ByteStream, ConnLost

_DRAINED_BYTES = 256 << 10  # of a body that the handler did not want, before the next request
_DRAINED_S = 10.0
_HELD_BYTES = 64 << 10  # a head waits for the first part of a body that is at most so long
_FRAMING = frozenset((b"connection", b"content-length", b"keep-alive", b"transfer-encoding"))
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class AnswerState(enum.Enum):
    """The states of an answer."""

    WAITING = "nothing was sent"
    CONTINUED = "the client was told to send its body"
    COUNTED = "a body of the announced length follows"
    CHUNKED = "a body in chunks follows"
    UNTIL_CLOSE = "a body follows that ends with the connection"
    BODYLESS = "there is a head, and no body follows"
    SWITCHED = "the protocol changes"
    FINISHED = "the answer is whole"
    CUT = "the answer was ended before its end"
    TAKEN = "the connection is the handler's"


_S = AnswerState
_HEADS = frozenset({_S.COUNTED, _S.CHUNKED, _S.UNTIL_CLOSE, _S.BODYLESS, _S.SWITCHED})
_NEXT: dict[AnswerState, frozenset[AnswerState]] = {
    _S.WAITING: _HEADS | {_S.CONTINUED, _S.CUT},
    _S.CONTINUED: _HEADS | {_S.CUT},
    _S.COUNTED: frozenset({_S.FINISHED, _S.CUT}),
    _S.CHUNKED: frozenset({_S.FINISHED, _S.CUT}),
    _S.UNTIL_CLOSE: frozenset({_S.FINISHED, _S.CUT}),
    _S.BODYLESS: frozenset({_S.FINISHED, _S.CUT}),
    _S.SWITCHED: frozenset({_S.TAKEN, _S.FINISHED, _S.CUT}),
    _S.FINISHED: frozenset({_S.CUT}),
    _S.CUT: frozenset({_S.CUT}),
    _S.TAKEN: frozenset({_S.CUT}),
}


class Http1Exchange:
    """One request and the way to answer it."""

    __slots__ = ("_body", "_conn", "_held", "_keeps", "_left", "_state", "request")

    def __init__(
        self, conn: ByteStream, request: HttpRequest, body: Counted | Chunked | None, *, keeps: bool
    ) -> None:
        self.request = request
        self._conn = conn
        self._body = body
        self._keeps = keeps
        self._held = b""
        self._left = 0
        self._state = AnswerState.WAITING
        if request.expects_continue and body is not None:
            request.body = _AwaitedBody(self, body)

    def _move(self, state: AnswerState) -> None:
        if state in _NEXT[self._state]:
            self._state = state
        elif self._state is AnswerState.CUT:
            raise ConnLost("the answer was cut off")
        else:
            raise RuntimeError(f"no answer can go on so: {self._state.value}, {state.value}")

    async def proceed(self) -> None:
        if self.request.expects_continue and self._state is AnswerState.WAITING:
            self._move(AnswerState.CONTINUED)
            await self._conn.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        fields, length = _without_framing(headers)
        framing = self._framing(status, length)
        if framing is AnswerState.UNTIL_CLOSE:
            self._keeps = False
        if self.request.expects_continue and self._state is AnswerState.WAITING:
            self._keeps = False  # whether its body comes is not known
        fields += self._framing_fields(status, framing, length)
        line = b"HTTP/1.1 %d %b" % (status, reason or REASONS.get(status, b"Unknown"))
        head = head_bytes(line, fields)
        self._move(framing)
        if framing is AnswerState.COUNTED and length is not None:
            self._left = length
        is_short = framing is AnswerState.COUNTED and self._left <= _HELD_BYTES
        if is_short or framing is AnswerState.BODYLESS:
            self._held = head  # it goes out with the body, in one write
        else:
            await self._conn.write(head)

    def _framing(self, status: int, length: int | None) -> AnswerState:
        """Return how the body of such an answer is told from what follows it."""
        is_tunnel = self.request.method == "CONNECT" and 200 <= status < 300
        if status == SWITCHING_PROTOCOLS or is_tunnel:
            return AnswerState.SWITCHED
        if status < 200:
            raise RuntimeError("an interim answer is not an answer")
        if not has_body(self.request.method, status):
            return AnswerState.BODYLESS
        if length is not None:
            return AnswerState.COUNTED
        if self.request.version == "1.1":
            return AnswerState.CHUNKED
        return AnswerState.UNTIL_CLOSE

    def _framing_fields(self, status: int, framing: AnswerState, length: int | None) -> Headers:
        if framing is AnswerState.SWITCHED:
            return [(b"Connection", b"Upgrade")] if status == SWITCHING_PROTOCOLS else []
        fields: Headers = []
        if status == 204:  # no length is announced, RFC 9110, 8.6
            length = None
        elif status == 205:
            length = 0
        if framing is AnswerState.CHUNKED:
            fields.append((b"Transfer-Encoding", b"chunked"))
        if length is not None:
            fields.append((b"Content-Length", b"%d" % length))
        if not self._keeps:
            fields.append((b"Connection", b"close"))
        elif self.request.version == "1.0":
            fields.append((b"Connection", b"keep-alive"))
        return fields

    async def send(self, data: bytes) -> None:
        match self._state:
            case AnswerState.BODYLESS | AnswerState.SWITCHED:
                return
            case AnswerState.COUNTED:
                if len(data) > self._left:
                    raise BadMessage(502, "an answer that is longer than announced")
                self._left -= len(data)
            case AnswerState.CHUNKED:
                data = as_chunk(data) if data else b""  # an empty chunk would be the last one
            case AnswerState.UNTIL_CLOSE:
                pass
            case AnswerState.CUT:
                raise ConnLost("the answer was cut off")
            case _:
                raise RuntimeError(f"no body can be sent: {self._state.value}")
        if not data:
            return
        if self._held:
            data, self._held = self._held + data, b""
        await self._conn.write(data)

    async def finish(self, trailers: Headers | None = None) -> None:
        if self._state is AnswerState.COUNTED and self._left:
            raise BadMessage(502, "an answer that is shorter than announced")
        is_chunked = self._state is AnswerState.CHUNKED
        self._move(AnswerState.FINISHED)
        if is_chunked:
            await self._conn.write(last_chunk(trailers or []))
        else:
            await self._flush()

    async def _flush(self) -> None:
        """Send a head that waits for the first part of its body."""
        if self._held:
            held, self._held = self._held, b""
            await self._conn.write(held)

    def abort(self) -> None:
        self._cut()
        self._conn.abort()

    async def cut(self) -> None:
        self._cut()
        await self._flush()
        await self._conn.linger()  # a reset could overtake what was sent

    async def break_off(self) -> None:
        self._cut()
        await self._flush()
        await self._conn.reset()

    def _cut(self) -> None:
        self._keeps = False
        self._move(AnswerState.CUT)

    def is_gone(self) -> bool:
        return self._conn.is_gone

    def take_over(self) -> Conn:
        self._move(AnswerState.TAKEN)
        assert isinstance(self._conn, Conn)
        return self._conn

    async def fail(self, error: BadMessage) -> bool:
        """Answer in place of a handler that could not. There is no next request."""
        match self._state:
            case AnswerState.TAKEN:
                pass  # the handler's to close
            case AnswerState.WAITING | AnswerState.CONTINUED:
                await refuse(self._conn, error)
            case _:
                self._conn.abort()
        return False

    async def settle(self) -> bool:
        """Return, after the handler, whether the connection is ready for the next request."""
        if self._state is AnswerState.TAKEN:
            return False
        if self._state not in (AnswerState.FINISHED, AnswerState.CUT):
            return await self.fail(BadMessage(502, "the request was not answered"))
        if self._keeps and await self._drain():
            return True
        if not self._conn.is_closed:
            await self._conn.linger()
        return False

    async def _drain(self) -> bool:
        """Take what is left of the request's body, if that is little."""
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


class _AwaitedBody(BodyWrapper):
    """The body of a client that waits to be told to send it: whoever reads it, tells."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Http1Exchange, body: Body) -> None:
        super().__init__(body)
        self._exchange = exchange

    async def read(self) -> bytes:
        await self._exchange.proceed()
        return await self._body.read()


def _without_framing(headers: Headers) -> tuple[Headers, int | None]:
    """Return headers without those that are the driver's, and the length that they announce."""
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


async def refuse(conn: ByteStream, error: BadMessage) -> None:
    """Tell the client what is wrong, and end the connection."""
    status = error.status if error.status in REASONS else 502
    text = f"{error}\n".encode()
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", b"%d" % len(text)),
        (b"Connection", b"close"),
    ]
    await conn.write(head_bytes(b"HTTP/1.1 %d %b" % (status, REASONS[status]), headers) + text)
    await conn.linger()
