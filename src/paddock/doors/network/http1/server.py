"""The server's side of HTTP/1: the requests of a connection, one after the other."""

from __future__ import annotations

import asyncio

import msgspec

from paddock.doors.network.exchange import (
    BadMessage,
    Faulted,
    Handler,
    HttpRequest,
    ignore_fault,
)
from paddock.doors.network.http1.bodies import Chunked, Counted
from paddock.doors.network.http1.exchange import Http1Exchange, refuse
from paddock.doors.network.http1.messages import (
    LastHead,
    RequestLine,
    checked_authority,
    read_head,
    same_authority,
    tokens,
)
from paddock.doors.network.transport.stream import ByteStream, ConnLost

_TURN_REQUESTS = 16


class Forms(msgspec.Struct, frozen=True):
    """The forms of requests that a client may use here, besides paths of the host that it is
    connected to."""

    scheme: str
    allow_absolute: bool = False
    allow_connect: bool = False


async def serve(
    conn: ByteStream,
    handler: Handler,
    *,
    scheme: str,
    allow_absolute: bool = False,
    allow_connect: bool = False,
    faulted: Faulted = ignore_fault,
) -> None:
    """Answer requests until the connection ends, and close it unless it was taken over. `faulted`
    is told of bytes that were no request, and of a handler that failed."""
    forms, last = Forms(scheme, allow_absolute, allow_connect), LastHead()
    count = 0
    try:
        while await _serve_one(conn, handler, forms, faulted, last):
            count += 1
            if count % _TURN_REQUESTS == 0:
                await asyncio.sleep(0)  # many requests at once do not keep others from their turn
    except ConnLost:
        conn.close()
    except BaseException:
        conn.abort()
        raise


async def _serve_one(
    conn: ByteStream, handler: Handler, forms: Forms, faulted: Faulted, last: LastHead
) -> bool:
    """Serve one request, and return whether there can be another."""
    try:
        block = await read_head(conn)
        if block is None:
            conn.close()
            return False
        exchange = read_request(conn, block, forms, last)
    except BadMessage as error:
        faulted(error)
        await refuse(conn, error)
        return False
    try:
        await handler(exchange)
    except BadMessage as error:
        faulted(error)
        return await exchange.fail(error)
    except ConnLost as error:
        return await exchange.fail(BadMessage(502, str(error)))
    except Exception as error:
        faulted(error)
        return await exchange.fail(BadMessage(502, "the request could not be handled"))
    return await exchange.settle()


def read_request(conn: ByteStream, block: bytes, forms: Forms, last: LastHead) -> Http1Exchange:
    """Return the exchange that a head begins. Raises BadMessage."""
    head = parse_head(block, forms, last)
    body: Counted | Chunked | None = None
    if head.length != 0:
        body = Chunked(conn) if head.length is None else Counted(conn, head.length)
        head.request.body = body
    return Http1Exchange(conn, head.request, body, keeps=head.keeps_alive)


class RequestHead(msgspec.Struct, frozen=True):
    """A request without its body, the announced length of that, and whether another may follow."""

    request: HttpRequest
    length: int | None  # None for chunks
    keeps_alive: bool


def parse_head(block: bytes, forms: Forms, last: LastHead) -> RequestHead:
    """Return the request that a head announces. Raises BadMessage."""
    line, fields = last.parse(block)
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
    request = HttpRequest(
        line.method,
        forms.scheme,
        authority,
        line.target,
        fields.headers,
        line.version,
        expects_continue=expects,
        upgrade=upgrade,
    )
    return RequestHead(request, length, fields.keeps_alive(line.version))


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
    """Return the protocol that the client wants to change to. HTTP/2 is never agreed on this
    way."""
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
