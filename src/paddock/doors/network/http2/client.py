"""HTTP/2 with a server: many requests at a time on one connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.doors.network.exchange import BODYLESS, BadMessage, Headers, HttpRequest, Response
from paddock.doors.network.http2.heads import (
    length_of,
    read_response,
    write_fields,
    write_request,
)
from paddock.doors.network.http2.streams import (
    CANCEL,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Http2Stream,
)
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost

if TYPE_CHECKING:
    from paddock.doors.network.http2.link import Http2Link

STREAM_WINDOW = 1 << 20  # a distant server sends so much in one round trip
CONNECTION_WINDOW = 16 << 20
_MAX_STREAMS = 100


class NotProcessed(ConnLost):
    """The server did not look at the request: it can be sent again."""

    is_stale = True


class Http2Client:
    """One connection. `close` ends its tasks and its streams."""

    def __init__(self, conn: Conn) -> None:
        self._conn = conn
        self._link: Http2Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._bodyless: set[int] = set()  # streams of HEAD requests
        self._is_leaving = False

    async def open(self) -> None:
        """Begins to speak; does not wait for the server to."""
        from paddock.doors.network.http2.link import Http2Link, Windows

        windows = Windows(STREAM_WINDOW, CONNECTION_WINDOW)
        self._link = Http2Link(self._conn, self, windows, is_client=True)
        self._task = asyncio.create_task(self._link.run())
        await asyncio.sleep(0)  # it has begun when a request comes

    @property
    def has_room(self) -> bool:
        """Return whether another request can be sent now. It cannot while answers that nobody takes
        have used up what the server may send."""
        link = self._link
        return (
            link is not None
            and link.error is None
            and not self._is_leaving
            and len(link.streams) < min(_MAX_STREAMS, link.max_streams)
            and link.window_left >= STREAM_WINDOW
        )

    @property
    def is_reusable(self) -> bool:
        return self.has_room

    @property
    def is_idle(self) -> bool:
        return self._link is None or not self._link.streams

    async def send(self, request: HttpRequest, headers: Headers) -> Response:
        """The answer's head, as soon as it is there. The request's body goes on after that."""
        link = self._link
        if link is None or not self.has_room:
            raise NotProcessed("the connection takes no more requests")
        head = write_request(request, headers)
        stream = link.open_stream()
        try:
            return await self._ask(link, stream, request, head)
        except (ConnLost, BadMessage):
            raise
        except BaseException:
            stream.cancel()
            raise

    def retire(self) -> None:
        """Takes no more requests, and closes after the last answer."""
        self._is_leaving = True
        self._close_when_idle()

    def close(self) -> None:
        self._is_leaving = True
        if self._link is not None:
            self._link.lose(ConnLost("the connection was closed"))
        if self._task is not None:
            self._task.cancel()
        self._conn.close()

    def head_came(self, stream_id: int, headers: Headers, *, is_end: bool) -> None:
        link, stream = self._opened(), self._opened().streams.get(stream_id)
        if stream is None or stream.head is None or stream.head.done():
            return
        try:
            status, fields = read_response(headers)
            is_bodyless = stream_id in self._bodyless or status in BODYLESS
            stream.length = 0 if is_bodyless or is_end else length_of(fields)
            if is_end and not is_bodyless and length_of(fields):
                raise BadMessage(502, "a length was announced, and no body came")
        except BadMessage as error:
            self._bodyless.discard(stream_id)
            link.reset(stream, PROTOCOL_ERROR, error)
            return
        self._bodyless.discard(stream_id)
        stream.head.set_result(Response(status, b"", fields, stream, "2"))

    def stream_ended(self, stream: Http2Stream) -> None:
        if stream.is_sent:
            self._forget(stream)

    def was_reset(self, stream: Http2Stream, code: int, *, by_peer: bool) -> None:
        if stream.is_ended and code == NO_ERROR:
            stream.stop_sending(ConnLost("the server wants no more of the request"))
        elif code == REFUSED_STREAM:
            stream.fail(NotProcessed("the server refused the stream"))
        else:
            stream.fail(ConnLost(f"the server gave the stream up (code {code})"))
        self._forget(stream)

    def peer_leaves(self, last_stream_id: int) -> None:
        self._is_leaving = True
        for stream in list(self._opened().streams.values()):
            if stream.id > last_stream_id:
                stream.fail(NotProcessed("the server is leaving"))
                self._forget(stream)
        self._close_when_idle()

    async def _ask(
        self, link: Http2Link, stream: Http2Stream, request: HttpRequest, head: Headers
    ) -> Response:
        has_body = request.body.length != 0
        if request.method == "HEAD":
            self._bodyless.add(stream.id)
        answer: asyncio.Future[Response] = link.loop.create_future()
        stream.head = answer
        try:
            link.out.send_head(stream, head, is_end=not has_body)
        except ConnLost:
            link.streams.pop(stream.id, None)
            raise
        if has_body:
            stream.task = link.spawn(self._send_body(link, stream, request))
        return await answer

    async def _send_body(self, link: Http2Link, stream: Http2Stream, request: HttpRequest) -> None:
        body, out = request.body, link.out
        try:
            while data := await body.read():
                await out.send(stream, data)
            trailers = write_fields(body.trailers)
            out.send_head(stream, trailers, is_end=True) if trailers else out.send_end(stream)
        except (ConnLost, BadMessage) as error:
            if not stream.is_sent:
                link.reset(stream, CANCEL, error)
        except Exception as error:  # half a request must not look whole
            link.reset(stream, CANCEL, ConnLost(f"the request's body failed: {error!r}"))
        if stream.is_ended or stream.error is not None:
            self._forget(stream)

    def _forget(self, stream: Http2Stream) -> None:
        link = self._opened()
        link.streams.pop(stream.id, None)
        self._bodyless.discard(stream.id)
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._is_leaving and self.is_idle:
            self.close()

    def _opened(self) -> Http2Link:
        assert self._link is not None
        return self._link
