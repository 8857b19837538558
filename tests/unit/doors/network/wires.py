"""Raw bytes to the server's side of HTTP/1 and back, over loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from paddock.doors.network.exchange import (
    BadMessage,
    Body,
    Headers,
    HttpExchange,
    HttpRequest,
    Response,
)
from paddock.doors.network.http1 import server as http1
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost

LIMIT_S = 30.0


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection over loopback: unlike a socket pair, it can be reset."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


@dataclass
class Seen:
    """A request as a handler saw it, with its whole body."""

    request: HttpRequest
    body: bytes
    trailers: Headers


async def whole(body: Body) -> bytes:
    parts = []
    while data := await body.read():
        parts.append(data)
    return b"".join(parts)


class Recorder:
    """A handler that remembers, and answers with what it saw."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    async def __call__(self, exchange: HttpExchange) -> None:
        body = await whole(exchange.request.body)
        self.seen.append(Seen(exchange.request, body, exchange.request.body.trailers))
        text = b"got %d" % len(body)
        await exchange.begin(200, [(b"Content-Length", b"%d" % len(text))])
        await exchange.send(text)
        await exchange.finish()


Handler = Callable[[Any], Awaitable[None]]


def answered(raw: bytes | list[bytes], handler: Handler, **options: Any) -> bytes:
    """All that comes back for these bytes, the last of them followed by the end of the stream."""

    async def run() -> bytes:
        near, far = tcp_pair()
        conn = Conn(near)
        serving = asyncio.create_task(http1.serve(Conn(far), handler, scheme="http", **options))
        async with asyncio.timeout(LIMIT_S):
            for part in raw if isinstance(raw, list) else [raw]:
                try:
                    await conn.write(part)
                except ConnLost:
                    break
                await asyncio.sleep(0)
            conn.write_eof()
            parts = []
            try:
                while data := await conn.read():
                    parts.append(data)
            except ConnLost:
                parts.append(b"<reset>")
            await serving
        conn.close()
        return b"".join(parts)

    return asyncio.run(run())


def seen(raw: bytes | list[bytes], **options: Any) -> list[Seen]:
    recorder = Recorder()
    answered(raw, recorder, **options)
    return recorder.seen


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer[9:12])


@dataclass
class Got:
    """What a client of ours made of a server's bytes."""

    response: Response | None
    body: bytes
    is_reusable: bool
    error: Exception | None
    sent: bytes


def asked(raw: bytes, request: HttpRequest | None = None, headers: Headers | None = None) -> Got:
    """A request to a server that answers with these bytes and ends the connection."""

    async def run() -> Got:
        near, far = tcp_pair()
        upstream, server = Http1Client(Conn(near)), Conn(far)
        asking = request or HttpRequest("GET", "http", "example.com", "/", [], "1.1")
        async with asyncio.timeout(LIMIT_S):
            await server.write(raw)
            server.write_eof()
            response, body, error = None, b"", None
            try:
                response = await upstream.send(asking, headers or [])
                body = await whole(response.body)
            except (BadMessage, ConnLost) as problem:
                error = problem
            is_reusable = upstream.is_reusable
            upstream.close()
            sent = b""
            try:
                while data := await server.read():
                    sent += data
            except ConnLost:
                pass
        server.close()
        return Got(response, body, is_reusable, error, sent)

    return asyncio.run(run())
