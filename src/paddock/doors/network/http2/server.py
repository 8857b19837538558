"""HTTP/2 with a client: each stream is an exchange and has a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from paddock.doors.network.exchange import (
    BadMessage,
    Faulted,
    Handler,
    Headers,
    HttpRequest,
    NoBody,
    has_body,
    ignore_fault,
    without,
)
from paddock.doors.network.http2.heads import length_of, read_request, write_fields, write_response
from paddock.doors.network.http2.streams import (
    INTERNAL_ERROR,
    MAX_STREAMS,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Http2Stream,
)
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost

if TYPE_CHECKING:
    from paddock.doors.network.http2.link import Http2Link

# Every stream may fill its window while its handler waits for an answer from a human, and the
# others must go on: the connection's window is that of all streams.
STREAM_WINDOW = 64 << 10
_MAX_RESETS = 200
_RESETS_S = 10.0
_RESETS_PER_FINISHED = 4
_FREE_RESETS = 1000  # in the life of a connection, before they are compared to what was finished
_LATE_S = 2.0  # for a client to end a request that has its answer


async def serve(
    conn: Conn, handler: Handler, *, scheme: str, faulted: Faulted = ignore_fault
) -> None:
    """Answer requests until the connection ends. `faulted` is told of heads that are refused."""
    from paddock.doors.network.http2.link import Http2Link, Windows

    side = _Server(handler, scheme, faulted)
    windows = Windows(STREAM_WINDOW, STREAM_WINDOW * MAX_STREAMS)
    side.link = Http2Link(conn, side, windows, is_client=False)
    await side.link.run()


class _Server:
    """Turns streams into exchanges."""

    link: Http2Link

    def __init__(self, handler: Handler, scheme: str, faulted: Faulted) -> None:
        self._handler = handler
        self._scheme = scheme
        self._faulted = faulted
        self._running = 0
        self._finished = 0
        self._resets = 0
        self._reset_times: deque[float] = deque(maxlen=_MAX_RESETS)

    def head_came(self, stream_id: int, headers: Headers, *, is_end: bool) -> None:
        if self._running >= 2 * MAX_STREAMS:  # some may have been reset and not ended yet
            self.link.refuse(stream_id, REFUSED_STREAM)
            self._count_reset()
            return
        stream = self.link.add_stream(stream_id)
        try:
            request = self._request(stream, headers, is_end=is_end)
        except BadMessage as error:
            self._refuse(stream, error, is_end=is_end)
            return
        self._begin(stream, _Exchange(self.link, stream, request))

    def stream_ended(self, stream: Http2Stream) -> None:
        """The handler sees that when it reads; of one that has its answer nobody waits for it."""
        if stream.error is not None:
            self.link.streams.pop(stream.id, None)

    def was_reset(self, stream: Http2Stream, code: int, *, by_peer: bool) -> None:
        self.link.streams.pop(stream.id, None)
        stream.fail(ConnLost(f"the client gave the stream up (code {code})"))
        if stream.task is not None:
            stream.task.cancel()
        if not stream.is_sent:  # one that has its answer may drop the rest of its request
            self._count_reset()

    def peer_leaves(self, last_stream_id: int) -> None:
        """A client that says so closes the connection itself, after its answers."""

    def _request(self, stream: Http2Stream, headers: Headers, *, is_end: bool) -> HttpRequest:
        request = read_request(headers, self._scheme)
        stream.length = length_of(request.headers)
        if not is_end:
            request.body = stream
        elif stream.length:
            raise BadMessage(400, "a length was announced, and no body came")
        else:
            request.body = NoBody()
        return request

    def _refuse(self, stream: Http2Stream, error: BadMessage, *, is_end: bool) -> None:
        self._faulted(error)
        with contextlib.suppress(ConnLost):  # the client may have reset it in the same breath
            self.link.out.send_head(stream, [(b":status", b"%d" % error.status)], is_end=True)
        if is_end:
            self.link.streams.pop(stream.id, None)
        else:
            self.link.reset(stream, PROTOCOL_ERROR, error)
        self._count_reset()

    def _count_reset(self) -> None:
        """Streams that are begun and dropped cost us work and the client nothing."""
        from paddock.doors.network.http2.meter import Flood

        now, times = self.link.loop.time(), self._reset_times
        is_rapid = len(times) == _MAX_RESETS and now - times[0] < _RESETS_S
        times.append(now)
        self._resets += 1
        most = _FREE_RESETS + _RESETS_PER_FINISHED * self._finished
        if is_rapid or self._resets > most:
            raise Flood("streams that are begun and dropped")

    def _begin(self, stream: Http2Stream, exchange: _Exchange) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            self._running -= 1
            exchange.settle()

        self._running += 1
        stream.task = self.link.spawn(self._run(exchange))
        # Not in the task: one that is cancelled before its first step runs nothing of itself.
        stream.task.add_done_callback(ended)

    async def _run(self, exchange: _Exchange) -> None:
        try:
            await self._handler(exchange)
        except BadMessage as error:
            self._faulted(error)
            await exchange.refuse(error)
        except ConnLost:
            pass
        except Exception as error:
            self._faulted(error)
        else:
            self._finished += 1


class _Exchange:
    """One stream as an exchange."""

    def __init__(self, link: Http2Link, stream: Http2Stream, request: HttpRequest) -> None:
        self.request = request
        self._link = link
        self._stream = stream
        self._head: Headers | None = None  # begun, and not sent yet
        self._has_begun = False
        self._has_proceeded = False
        self._is_bodyless = False
        self._left: int | None = None  # of the announced length

    async def proceed(self) -> None:
        if self.request.expects_continue and not self._has_proceeded and not self._has_begun:
            self._has_proceeded = True
            self._link.out.send_head(self._stream, [(b":status", b"100")], is_end=False)

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        """The head goes out in the next turn of the loop: an answer that ends at once then ends
        with its head, as gRPC wants it for a call that failed."""
        if self._has_begun:
            raise RuntimeError("the answer has begun already")
        head = write_response(status, headers)
        self._is_bodyless = not has_body(self.request.method, status)
        self._left = None if self._is_bodyless else length_of(head)
        self._has_begun = True
        self._head = head
        if not any(name == b"grpc-status" for name, _ in head):
            self._link.loop.call_soon(self._send_head_later)

    async def send(self, data: bytes) -> None:
        if self._is_bodyless or not data:
            return
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self.abort()
                raise BadMessage(502, "the answer is longer than announced")
        self._send_head()
        await self._link.out.send(self._stream, data)

    async def finish(self, trailers: Headers | None = None) -> None:
        if self._left:
            self.abort()
            raise BadMessage(502, "the answer is shorter than announced")
        out, stream = self._link.out, self._stream
        last = without(write_fields(trailers or []), b"content-length")
        if self._head is not None and not last:
            self._send_head(is_end=True)
        else:
            self._send_head()
            out.send_head(stream, last, is_end=True) if last else out.send_end(stream)
        self.settle()

    def is_gone(self) -> bool:
        return self._stream.error is not None

    def abort(self) -> None:
        self._head = None
        self._link.reset(self._stream, INTERNAL_ERROR, ConnLost("the answer was cut off"))

    async def cut(self) -> None:
        if self._has_begun:
            self._send_head()
        self.abort()

    async def break_off(self) -> None:
        await self.cut()

    def take_over(self) -> Conn:
        raise BadMessage(501, "an HTTP/2 stream is no connection to take over")

    async def refuse(self, error: BadMessage) -> None:
        """Answer in place of a handler that could not."""
        if self._has_begun or self._stream.error is not None:
            return
        try:
            await self.begin(error.status, [])
            await self.finish()
        except ConnLost:
            return

    def settle(self) -> None:
        """Leave nothing open behind."""
        stream = self._stream
        if stream.is_sent and not stream.is_ended:
            self._let_end()
            return
        if not stream.is_sent and stream.error is None:
            self.abort()
        self._link.streams.pop(stream.id, None)

    def _let_end(self) -> None:
        """Drop what comes of a request that goes on after its answer. It is cut only after a while:
        curl takes a reset that comes with the answer for a failure, and whoever asked never learns
        why a request was refused."""
        stream, link = self._stream, self._link
        if stream.error is None:
            stream.fail(ConnLost("the request was answered"))
            link.loop.call_later(_LATE_S, self._cut)

    def _cut(self) -> None:
        stream, link = self._stream, self._link
        if link.error is None and link.streams.get(stream.id) is stream:
            link.reset(stream, NO_ERROR, ConnLost("the request was answered"))

    def _send_head_later(self) -> None:
        try:
            self._send_head()
        except ConnLost:
            self._head = None  # the handler finds out when it sends

    def _send_head(self, *, is_end: bool = False) -> None:
        if not self._has_begun:
            raise RuntimeError("the answer has not begun")
        head, self._head = self._head, None
        if head is not None:
            self._link.out.send_head(self._stream, head, is_end=is_end)
