"""Connections to the real servers: dialled, kept open for the next request, and given up."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.http2.client import Http2Client
from paddock.doors.network.tls.server_trust import client_context, why_not
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.dial import Dialer
from paddock.doors.network.transport.stream import ConnLost
from paddock.fence.offload import offload
from paddock.model.errors import InvalidInput

IDLE_S = 600.0  # a model may think for minutes before it says anything
IDLE_CONNECTION_S = 30.0
_SURE_S = 2.0
MAX_IDLE_OF_ENDPOINT = 16
MAX_IDLE = 128
HttpClient = Http1Client | Http2Client


class UpstreamUnreachable(Exception):
    """The real server could not be reached; the message says why."""

    def __init__(self, why: str, status: int = 502) -> None:
        super().__init__(why)
        self.status = status


class ServerEndpoint(NamedTuple):
    """The destination of a connection, and the protocol on it."""

    scheme: str
    host: str
    port: int
    is_h2: bool = False  # whether the client speaks it; the server may still not


class ServerConnection(msgspec.Struct):
    """One connection to a server, as it is lent out."""

    endpoint: ServerEndpoint
    client: HttpClient
    conn: Conn
    address: str
    generation: int = 0  # of the terms that it was dialled under
    is_new: bool = True
    idle_since: float = 0.0

    @property
    def is_h2(self) -> bool:
        return isinstance(self.client, Http2Client)

    def close(self) -> None:
        self.client.close()


class ConnectionPool:
    """The connections of one sandbox to servers."""

    def __init__(self, dialer: Dialer, *, ca: str | None = None, idle_s: float = IDLE_S) -> None:
        self.dialer = dialer
        self.ca = ca
        self._idle_s = idle_s
        self._idle: dict[ServerEndpoint, list[ServerConnection]] = {}
        self._shared: dict[ServerEndpoint, ServerConnection] = {}
        self._opening: dict[ServerEndpoint, asyncio.Lock] = {}
        self._without_h2: set[ServerEndpoint] = set()  # servers that have no HTTP/2
        self._generation = 0

    async def take(
        self, endpoint: ServerEndpoint, *, is_fresh: bool = False, is_sure: bool = False
    ) -> ServerConnection:
        """Return a connection that a request can be sent on. For a request that must not be sent
        twice `is_sure` is set: a server closes connections that were idle for long. Raises
        UpstreamUnreachable or DialError."""
        if endpoint.is_h2 and endpoint in self._without_h2:
            endpoint = endpoint._replace(is_h2=False)
        if endpoint.is_h2:
            return await self._take_shared(endpoint, is_fresh=is_fresh)
        idle = self._idle.get(endpoint)
        limit_s = _SURE_S if is_sure else IDLE_CONNECTION_S
        while idle and not is_fresh:
            server = idle.pop()
            if server.client.is_reusable and time.monotonic() - server.idle_since < limit_s:
                server.is_new = False
                return server
            server.close()
        return await self._open(endpoint)

    def give_back(self, server: ServerConnection) -> None:
        """Keep a connection after the end of an answer, or close it where it cannot be used
        again."""
        if isinstance(server.client, Http2Client):
            return  # it is shared
        idle = self._idle.setdefault(server.endpoint, [])
        total = sum(map(len, self._idle.values()))
        is_room = len(idle) < MAX_IDLE_OF_ENDPOINT and total < MAX_IDLE
        # Whether more came than was asked for is seen when it is taken.
        is_current = server.generation == self._generation
        if not server.client.is_free or not is_room or not is_current:
            server.close()
            return
        server.idle_since = time.monotonic()
        idle.append(server)

    def renew(self, is_meant: Callable[[str, int], bool]) -> None:
        """Apply other terms: connections to these hosts that are kept are closed, and those in use
        are not kept."""
        self._generation += 1
        self._without_h2.clear()
        self.drop(is_meant)

    def drop(self, is_meant: Callable[[str, int], bool] = lambda host, port: True) -> None:
        """Close the connections to these hosts that are kept."""
        for endpoint in list(self._idle):
            if is_meant(endpoint.host, endpoint.port):
                for server in self._idle.pop(endpoint):
                    server.close()
        for endpoint in list(self._shared):
            if is_meant(endpoint.host, endpoint.port):
                self._shared.pop(endpoint).close()

    async def dial(self, host: str, port: int) -> tuple[Conn, str]:
        """Return a plain connection, and the address that it really leads to. Raises DialError."""
        sock = await self.dialer.connect(host, port)
        try:
            address = str(sock.getpeername()[0])
            return Conn(sock, idle_s=self._idle_s), address
        except BaseException:
            sock.close()
            raise

    async def _take_shared(self, endpoint: ServerEndpoint, *, is_fresh: bool) -> ServerConnection:
        async with self._opening.setdefault(endpoint, asyncio.Lock()):
            server = self._shared.get(endpoint)
            is_current = server is not None and server.generation == self._generation
            if server is not None and is_current and server.client.is_reusable and not is_fresh:
                server.is_new = False
                return server
            server = await self._open(endpoint)
            if not server.is_h2:
                self._without_h2.add(
                    endpoint
                )  # it speaks HTTP/1 only: the next need not wait their turn
                server.endpoint = endpoint._replace(is_h2=False)
            if isinstance(server.client, Http2Client):
                old = self._shared.get(endpoint)
                if old is not None and isinstance(old.client, Http2Client):
                    old.client.retire()  # streams on it go on to their end
                self._shared[endpoint] = server
            return server

    async def _open(self, endpoint: ServerEndpoint) -> ServerConnection:
        generation = self._generation
        conn, address = await self.dial(endpoint.host, endpoint.port)
        try:
            if endpoint.scheme == "https":
                await self._secure(conn, endpoint)
                is_h2 = conn.alpn == "h2"
            else:
                is_h2 = endpoint.is_h2
            client = await _opened_h2(conn) if is_h2 else Http1Client(conn)
        except BaseException:
            conn.close()
            raise
        return ServerConnection(endpoint, client, conn, address, generation)

    async def _secure(self, conn: Conn, endpoint: ServerEndpoint) -> None:
        alpn = ("h2", "http/1.1") if endpoint.is_h2 else ("http/1.1",)
        try:
            context = await offload(client_context, self.ca, alpn)  # the first reads all roots
            await conn.start_tls(context, server_side=False, server_hostname=endpoint.host)
        except ssl.SSLError as error:
            raise UpstreamUnreachable(f"TLS to {endpoint.host} failed: {why_not(error)}") from None
        except ConnLost as error:
            raise UpstreamUnreachable(f"TLS to {endpoint.host} failed: {error}") from None
        except InvalidInput as error:  # the file of authorities is gone
            raise UpstreamUnreachable(f"TLS to {endpoint.host} failed: {error.message}") from None

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.drop()


async def _opened_h2(conn: Conn) -> Http2Client:
    client = Http2Client(conn)
    await client.open()
    return client
