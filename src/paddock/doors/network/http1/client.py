"""The client's side of HTTP/1: requests to a server on one connection, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from paddock.doors.network.exchange import (
    UNFRAMED,
    BadMessage,
    Body,
    Headers,
    HttpRequest,
    NoBody,
    Response,
)
from paddock.doors.network.http1.bodies import Chunked, Counted, UntilClose, as_chunk, last_chunk
from paddock.doors.network.http1.messages import (
    Fields,
    checked_authority,
    head_bytes,
    parse_response,
    read_head,
    request_line,
    tokens,
)
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnIdle, ConnLost

_JOINED_BYTES = 64 << 10  # a body that is at most so long goes out with its head, in one write
_MAX_INTERIM = 32
_METHODS_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
# Expect is among them: it is settled between the client and the door.
_FRAMING = frozenset(
    (b"connection", b"content-length", b"expect", b"keep-alive", b"transfer-encoding")
)


class StaleConn(ConnLost):
    """A kept connection that the server closed without a byte of an answer. A request that does no
    harm twice can be sent again on a new one."""

    is_stale = True


class Http1Client:
    """One connection to a server."""

    def __init__(self, conn: Conn) -> None:
        self._conn = conn
        self._body: Counted | Chunked | UntilClose | None = None  # of the last answer
        self._sending: asyncio.Task[None] | None = None
        self._is_sent = True  # whether the last request went out whole
        self._failure: Exception | None = None  # of the request's body
        self._answers = 0
        self._keeps = True
        self._may_change = False

    @property
    def is_reusable(self) -> bool:
        """Return whether the last answer was taken to its end, and nothing came after it."""
        return self.is_free and not self._conn.has_input

    @property
    def is_free(self) -> bool:
        """Return whether the last answer was taken to its end."""
        return self._keeps and self._is_sent and (self._body is None or self._body.is_done)

    async def send(self, request: HttpRequest, headers: Headers) -> Response:
        """Send the request with these headers. Its body goes on while the answer is awaited; an
        answer that says no ends it."""
        if not self.is_free:
            raise ConnLost("the connection cannot be used again")
        self._keeps = False  # until there is an answer
        try:
            await self._send_request(request, headers)
            return await self._answer(request)
        except Exception as error:
            self.close()
            raise self._failure or error from None
        except BaseException:
            self.close()
            raise

    def take_over(self) -> Conn:
        """Return the connection itself, after an answer of 101."""
        if not self._may_change:
            raise RuntimeError("the server has not agreed to change the protocol")
        return self._conn

    def close(self) -> None:
        self._keeps = False
        if self._sending is not None:
            self._sending.cancel()
        self._conn.close()

    async def _send_request(self, request: HttpRequest, headers: Headers) -> None:
        body, length = request.body, request.body.length
        head = _head(request, headers)
        is_joined = length is not None and length <= _JOINED_BYTES
        if is_joined and length:
            head += b"".join([part async for part in _held_to(body, length)])
        try:
            await self._conn.write(head)
        except ConnLost as error:
            raise self._lost(error) from None
        if not is_joined:
            # A task without a group: it goes on while the caller has the answer. It ends with the
            # body, or by `close`.
            self._is_sent = False
            self._sending = asyncio.create_task(self._send_body(body, length))

    async def _send_body(self, body: Body, length: int | None) -> None:
        """A body that breaks off takes the connection with it: the server must not take a part for
        the whole."""
        try:
            async for data in _held_to(body, length):
                if not await self._took(data if length else as_chunk(data)):
                    return
            if length is None and not await self._took(last_chunk(body.trailers)):
                return
            self._is_sent = True
        except (BadMessage, ConnLost) as error:
            self._failure = error
            self._conn.abort()

    async def _took(self, data: bytes) -> bool:
        """A server that takes no more may have said why: that is read elsewhere."""
        try:
            await self._conn.write(data)
        except ConnLost:
            return False
        return True

    async def _answer(self, request: HttpRequest) -> Response:
        for _ in range(_MAX_INTERIM):
            status, version, fields = parse_response(await self._read_head())
            if status == 101:
                return self._changed(request, version, fields)
            if status >= 200:
                break
        else:
            raise BadMessage(502, "interim answers without end")
        self._answers += 1
        self._body = _body_of(self._conn, request, status, version, fields)
        self._keeps = fields.keeps_alive(version) and not isinstance(self._body, UntilClose)
        if self._sending is not None and status >= 300:
            self._sending.cancel()
        return Response(status, fields.reason, fields.headers, self._body or NoBody(), version)

    def _changed(self, request: HttpRequest, version: str, fields: Fields) -> Response:
        wanted = (request.upgrade or "").encode("latin-1")
        if not wanted or tokens(fields.all(b"upgrade")) != {wanted}:
            raise BadMessage(502, "a change of the protocol that was not asked for")
        self._may_change = True
        return Response(101, fields.reason, fields.headers, NoBody(), version)

    async def _read_head(self) -> bytes:
        seen = self._conn.bytes_in
        try:
            block = await read_head(self._conn)
        except BadMessage as error:
            raise BadMessage(504 if error.status == 408 else 502, str(error)) from None
        except ConnIdle:
            raise
        except ConnLost as error:
            raise (self._lost(error) if self._conn.bytes_in == seen else error) from None
        if block is None:
            raise self._lost(ConnLost("the server closed the connection without an answer"))
        return block

    def _lost(self, error: ConnLost) -> ConnLost:
        if self._answers and not isinstance(error, ConnIdle):
            return StaleConn(str(error))
        return error


async def _held_to(body: Body, length: int | None) -> AsyncIterator[bytes]:
    """The parts of a body. One that is not as long as announced would shift what follows it."""
    taken = 0
    while data := await body.read():
        taken += len(data)
        if length is not None and taken > length:
            raise BadMessage(400, "a body that is longer than announced")
        yield data
    if length is not None and taken < length:
        raise BadMessage(400, "a body that is shorter than announced")


def _head(request: HttpRequest, headers: Headers) -> bytes:
    kept: Headers = []
    hosts = 0
    for pair in headers:
        key = pair[0].lower()
        if key in _FRAMING or (key == b"upgrade" and request.upgrade is None):
            continue
        hosts += key == b"host"
        if key == b"upgrade":
            kept.append((b"Connection", b"Upgrade"))
        kept.append(pair)
    if not hosts and request.authority is not None:
        host = checked_authority(request.authority.encode("latin-1", "replace"))
        kept.insert(0, (b"Host", host.encode()))
    elif hosts != 1:
        raise BadMessage(400, "not exactly one host")
    length = request.body.length
    if length is None:
        kept.append((b"Transfer-Encoding", b"chunked"))
    elif length or request.method in _METHODS_WITH_BODY:
        kept.append((b"Content-Length", b"%d" % length))
    return head_bytes(request_line(request), kept)


def _body_of(
    conn: Conn, request: HttpRequest, status: int, version: str, fields: Fields
) -> Counted | Chunked | UntilClose | None:
    try:
        length = fields.body_length(version)
    except BadMessage as error:
        raise BadMessage(502, str(error)) from None
    if request.method == "HEAD" or status in UNFRAMED:
        return None
    if length is None:
        return Chunked(conn, blame=502)
    if length or fields.all(b"content-length"):
        return Counted(conn, length)
    return UntilClose(conn)
