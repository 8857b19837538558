"""The server's side of HTTP/1: the requests of a connection, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from http import HTTPStatus

from paddock.doors.network.conn import Conn, ConnLost
from paddock.doors.network.exchange import BadMessage, Body, Handler, Headers, NoBody, Request
from paddock.doors.network.http1_bodies import Chunked, Counted, allowed_trailers
from paddock.doors.network.http1_messages import (
    RequestLine,
    as_length,
    checked_authority,
    head_bytes,
    parse_request,
    read_head,
    same_authority,
    tokens,
)

_DRAINED_BYTES = 256 << 10  # of a body that the handler did not want, before the next request
_DRAINED_S = 10.0
_HELD_BYTES = 64 << 10  # a head waits for the first part of a body that is at most so long
_TURN_REQUESTS = 16
_FRAMING = frozenset((b"connection", b"content-length", b"keep-alive", b"transfer-encoding"))
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Forms:
    """What a client may ask for here, besides paths of the host that it is connected to."""

    scheme: str
    allow_absolute: bool = False
    allow_connect: bool = False


async def serve(
    conn: Conn,
    handler: Handler,
    *,
    scheme: str,
    allow_absolute: bool = False,
    allow_connect: bool = False,
) -> None:
    """Answers requests until the connection ends, and closes it unless it was taken over."""
    forms = Forms(scheme, allow_absolute, allow_connect)
    count = 0
    try:
        while await _serve_one(conn, handler, forms):
            count += 1
            if count % _TURN_REQUESTS == 0:
                await asyncio.sleep(0)  # many requests at once do not keep others from their turn
    except ConnLost:
        conn.close()
    except BaseException:
        conn.abort()
        raise


async def _serve_one(conn: Conn, handler: Handler, forms: Forms) -> bool:
    """Whether there can be another."""
    try:
        block = await read_head(conn)
        if block is None:
            conn.close()
            return False
        exchange = read_request(conn, block, forms)
    except BadMessage as error:
        await _refuse(conn, error)
        return False
    try:
        await handler(exchange)
    except BadMessage as error:
        return await exchange.fail(error)
    except ConnLost as error:
        return await exchange.fail(BadMessage(502, str(error)))
    except Exception:
        _log.exception("a request could not be handled")
        return await exchange.fail(BadMessage(502, "the request could not be handled"))
    return await exchange.settle()


def read_request(conn: Conn, block: bytes, forms: Forms) -> Http1Exchange:
    """The exchange that a head begins. Raises BadMessage."""
    line, fields = parse_request(block)
    authority = _authority(line, fields.one(b"host"), forms)
    length = fields.body_length(line.version)
    upgrade = None
    if upgrades := fields.all(b"upgrade"):
        upgrade = _upgrade(upgrades, fields.all(b"connection"))
        if upgrade is None:
            fields.drop(b"upgrade", b"http2-settings")
    if length != 0 and (upgrade is not None or line.method == "CONNECT"):
        raise BadMessage(400, "a body where the protocol is to change")
    expects = _expects_continue(fields.all(b"expect"), line.version) and length != 0
    body: Counted | Chunked | None = None
    if length != 0:
        body = Chunked(conn) if length is None else Counted(conn, length)
    request = Request(
        line.method,
        forms.scheme,
        authority,
        line.target,
        fields.headers,
        line.version,
        NoBody() if body is None else body,
        expects,
        upgrade,
    )
    return Http1Exchange(conn, request, body, keeps=fields.keeps_alive(line.version))


def _authority(line: RequestLine, host: bytes | None, forms: Forms) -> str | None:
    named = None if host is None else checked_authority(host)
    if line.version == "1.1" and named is None:
        raise BadMessage(400, "no Host header")
    if line.method == "CONNECT":
        if not forms.allow_connect:
            raise BadMessage(405, "CONNECT is for proxies")
        return line.authority
    if line.authority is None:
        return named
    if not forms.allow_absolute:
        raise BadMessage(400, "an absolute target is for proxies")
    if named is not None and not same_authority(line.authority, named):
        raise BadMessage(400, "a target and a Host header that disagree")
    return line.authority


def _upgrade(upgrades: list[bytes], connection: list[bytes]) -> str | None:
    """What the client wants to change to. HTTP/2 is never agreed on this way."""
    if b"upgrade" not in tokens(connection):
        return None
    wanted = tokens(upgrades) - {b"h2c"}
    return wanted.pop().decode("latin-1") if len(wanted) == 1 else None


def _expects_continue(expects: list[bytes], version: str) -> bool:
    if not expects or version == "1.0":
        return False
    if tokens(expects) != {b"100-continue"}:
        raise BadMessage(417, "an expectation other than 100-continue")
    return True


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
            data = b"%x\r\n%b\r\n" % (len(data), data)
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
            await self._conn.write(head_bytes(b"0", allowed_trailers(trailers or [])))
        elif self._held:
            await self.flush()
        self._is_over = True

    def abort(self) -> None:
        self._keeps = False
        self._is_over = True
        self._conn.abort()

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
            await _refuse(self._conn, error)
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
            b"HTTP/1.1 %d %b" % (status, reason or _REASONS.get(status, b"Unknown")), kept
        )

    def _frame(self, status: int, length: int | None, kept: Headers) -> None:
        if status < 200:
            raise RuntimeError("an interim answer is not an answer")
        if status == 204:
            self._has_body = False
            return
        if status == 205:
            length = 0
        if self.request.method == "HEAD" or status == 304:
            self._has_body = False
        elif length is None and self.request.version == "1.1":
            self._is_chunked = True
            kept.append((b"Transfer-Encoding", b"chunked"))
        elif length is None:
            self._keeps = False
        if length is not None:
            self._left = length
            kept.append((b"Content-Length", b"%d" % length))


class _Awaited:
    """The body of a client that waits to be told to send it: whoever reads it, tells."""

    __slots__ = ("_body", "_exchange")

    def __init__(self, exchange: Http1Exchange, body: Body) -> None:
        self._exchange = exchange
        self._body = body

    @property
    def length(self) -> int | None:
        return self._body.length

    @property
    def trailers(self) -> Headers:
        return self._body.trailers

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
            announced = as_length(pair[1])
            if length is not None and announced != length:
                raise BadMessage(502, "an answer with two lengths")
            length = announced
    return kept, length


async def _refuse(conn: Conn, error: BadMessage) -> None:
    status = error.status if error.status in _REASONS else 502
    text = f"{error}\n".encode()
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", b"%d" % len(text)),
        (b"Connection", b"close"),
    ]
    await conn.write(head_bytes(b"HTTP/1.1 %d %b" % (status, _REASONS[status]), headers) + text)
    await conn.linger()
