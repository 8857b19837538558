"""Peers for the tests of HTTP/2: a relay made of both sides, and a client that speaks in frames."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import h2.config
import h2.connection
import h2.events
from hyperframe.frame import Frame

from paddock.doors.network.exchange import Handler, Headers, HttpExchange
from paddock.doors.network.http2 import server as http2
from paddock.doors.network.http2.client import Http2Client
from paddock.doors.network.transport.conn import Conn

WAIT_S = 20.0
GET: Headers = [
    (b":method", b"GET"),
    (b":scheme", b"http"),
    (b":authority", b"svc.example"),
    (b":path", b"/"),
]


@contextlib.asynccontextmanager
async def listening(
    accept: Callable[[socket.socket], Coroutine[Any, Any, None]],
) -> AsyncIterator[int]:
    """A port of loopback; each connection is handed to `accept`, in a task of its own."""
    loop = asyncio.get_running_loop()
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    tasks: list[asyncio.Task[None]] = []
    socks: list[socket.socket] = [server]  # a task that is cancelled before it began closes none

    async def run() -> None:
        while True:
            sock, _ = await loop.sock_accept(server)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            socks.append(sock)
            tasks.append(asyncio.create_task(accept(sock)))

    tasks.append(asyncio.create_task(run()))
    try:
        yield server.getsockname()[1]
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for sock in socks:
            sock.close()
    faults = [r for r in results if isinstance(r, Exception)]
    assert not faults, faults


@contextlib.asynccontextmanager
async def serving(handler: Handler, **more: Any) -> AsyncIterator[int]:
    """The server side on a port, with this handler."""
    idle_s = more.pop("idle_s", 10 * WAIT_S)  # what ends sooner did not end by itself

    async def accept(sock: socket.socket) -> None:
        await http2.serve(Conn(sock, idle_s=idle_s), handler, scheme="http", **more)

    async with listening(accept) as port:
        yield port


async def dialled(port: int, idle_s: float = WAIT_S) -> Conn:
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Conn(sock, idle_s=idle_s)


@contextlib.asynccontextmanager
async def upstream_to(port: int, idle_s: float = WAIT_S) -> AsyncIterator[Http2Client]:
    upstream = Http2Client(await dialled(port, idle_s))
    await upstream.open()
    try:
        yield upstream
    finally:
        upstream.close()
        await asyncio.sleep(0)


async def until(is_true: Callable[[], bool]) -> None:
    """Waits for something that only the state of the other side shows."""
    async with asyncio.timeout(WAIT_S):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def carrying(upstream: Http2Client) -> Handler:
    """Passes requests on to a server, and its answers back."""

    async def carry(exchange: HttpExchange) -> None:
        request = exchange.request
        response = await upstream.send(request, request.headers)
        try:
            await exchange.begin(response.status, response.headers)
            while data := await response.body.read():
                await exchange.send(data)
            await exchange.finish(response.body.trailers)
        except BaseException:
            response.body.cancel()  # type: ignore[attr-defined]
            raise

    return carry


@contextlib.asynccontextmanager
async def relay_to(port: int) -> AsyncIterator[int]:
    async with upstream_to(port) as upstream, serving(carrying(upstream)) as relay:
        yield relay


class RawClient:
    """Speaks HTTP/2 in frames, and breaks its rules when asked to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = h2.connection.H2Connection(config)
        self.events: list[Any] = []
        self.is_closed = False

    @classmethod
    async def dial(cls, port: int, *, is_greeting: bool = True) -> RawClient:
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        if is_greeting:
            client.h2.initiate_connection()
            await client.flush()
        return client

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def send_frame(self, *frames: Frame) -> None:
        await self.send_bytes(b"".join(frame.serialize() for frame in frames))

    async def send_bytes(self, data: bytes) -> None:
        await self.flush()
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def ask(self, headers: Headers, *, is_end: bool = True) -> int:
        stream_id: int = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, headers, end_stream=is_end)
        await self.flush()
        return stream_id

    async def until(self, kind: type | tuple[type, ...], stream_id: int | None = None) -> Any:
        """The next event of this kind; windows are opened for what comes before."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for event in self.events:
                    if isinstance(event, kind) and stream_id in (
                        None,
                        getattr(event, "stream_id", None),
                    ):
                        self.events.remove(event)
                        return event
                await self._receive()

    async def answer(self, stream_id: int) -> tuple[int, bytes]:
        """Status and body of an answer that ends."""
        head = await self.until(h2.events.ResponseReceived, stream_id)
        await self.until(h2.events.StreamEnded, stream_id)
        parts = [
            event.data
            for event in self.events
            if isinstance(event, h2.events.DataReceived) and event.stream_id == stream_id
        ]
        return int(dict(head.headers)[b":status"]), b"".join(parts)

    async def gone(self) -> Any:
        """Waits for the connection's end; the GOAWAY that came before it, if any."""
        async with asyncio.timeout(WAIT_S):
            while not self.is_closed:
                with contextlib.suppress(ConnectionError):
                    await self._receive()
        ends = [e for e in self.events if isinstance(e, h2.events.ConnectionTerminated)]
        return ends[0] if ends else None

    async def _receive(self) -> None:
        try:
            data = await self.reader.read(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            raise ConnectionError("closed by the server")
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self.events.append(event)
        with contextlib.suppress(ConnectionError):
            await self.flush()

    def close(self) -> None:
        self.writer.close()
