"""Connections to the real servers: dialled, kept for the next request, and given up."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from paddock.doors.network.http1.client import Http1Upstream
from paddock.doors.network.http2.client import Http2Upstream
from paddock.doors.network.tls.server_trust import client_context, why_not
from paddock.doors.network.transport.conn import Conn, ConnLost
from paddock.doors.network.transport.dial import Dialer
from paddock.fence.offload import offload
from paddock.model.errors import InvalidInput

IDLE_S = 600.0  # a model may think for minutes before it says anything
KEPT_S = 30.0
_SURE_S = 2.0
MAX_KEPT_PLACE = 16
MAX_KEPT = 128
Upstream = Http1Upstream | Http2Upstream


class NoUpstream(Exception):
    """The real server could not be reached; the message says why."""

    def __init__(self, why: str, status: int = 502) -> None:
        super().__init__(why)
        self.status = status


class Place(NamedTuple):
    """Where a connection leads, and what is spoken on it."""

    scheme: str
    host: str
    port: int
    is_h2: bool = False  # whether the client speaks it; the server may still not


class Line(msgspec.Struct):
    """One connection to a server, as it is lent out."""

    place: Place
    upstream: Upstream
    conn: Conn
    address: str
    generation: int = 0  # of the terms that it was dialled under
    is_new: bool = True
    kept_at: float = 0.0

    @property
    def is_h2(self) -> bool:
        return isinstance(self.upstream, Http2Upstream)

    def close(self) -> None:
        self.upstream.close()


class Upstreams:
    """The connections of one sandbox to servers."""

    def __init__(self, dialer: Dialer, *, ca: str | None = None, idle_s: float = IDLE_S) -> None:
        self.dialer = dialer
        self.ca = ca
        self._idle_s = idle_s
        self._kept: dict[Place, list[Line]] = {}
        self._shared: dict[Place, Line] = {}
        self._opening: dict[Place, asyncio.Lock] = {}
        self._old: set[Place] = set()  # servers that have no HTTP/2
        self._generation = 0

    async def take(self, place: Place, *, is_fresh: bool = False, is_sure: bool = False) -> Line:
        """A connection that a request can be sent on. One that must not be sent twice wants to be
        sure: a server closes what was idle for long. Raises NoUpstream or DialError."""
        if place.is_h2 and place in self._old:
            place = place._replace(is_h2=False)
        if place.is_h2:
            return await self._take_shared(place, is_fresh=is_fresh)
        kept = self._kept.get(place)
        kept_s = _SURE_S if is_sure else KEPT_S
        while kept and not is_fresh:
            line = kept.pop()
            if line.upstream.is_reusable and time.monotonic() - line.kept_at < kept_s:
                line.is_new = False
                return line
            line.close()
        return await self._open(place)

    def give_back(self, line: Line) -> None:
        """After the answer's end; a connection that cannot be used again is closed."""
        if isinstance(line.upstream, Http2Upstream):
            return  # it is shared
        kept = self._kept.setdefault(line.place, [])
        total = sum(map(len, self._kept.values()))
        is_room = len(kept) < MAX_KEPT_PLACE and total < MAX_KEPT
        # Whether more came than was asked for is seen when it is taken.
        is_current = line.generation == self._generation
        if not line.upstream.is_free or not is_room or not is_current:
            line.close()
            return
        line.kept_at = time.monotonic()
        kept.append(line)

    def renew(self, is_meant: Callable[[str, int], bool]) -> None:
        """The terms have changed: what is kept for these is closed, what is lent is not kept."""
        self._generation += 1
        self._old.clear()
        self.drop(is_meant)

    def drop(self, is_meant: Callable[[str, int], bool] = lambda host, port: True) -> None:
        """Closes what is kept for these hosts."""
        for place in list(self._kept):
            if is_meant(place.host, place.port):
                for line in self._kept.pop(place):
                    line.close()
        for place in list(self._shared):
            if is_meant(place.host, place.port):
                self._shared.pop(place).close()

    async def dial(self, host: str, port: int) -> tuple[Conn, str]:
        """A plain connection, and the address that it really leads to. Raises DialError."""
        sock = await self.dialer.connect(host, port)
        try:
            address = str(sock.getpeername()[0])
            return Conn(sock, idle_s=self._idle_s), address
        except BaseException:
            sock.close()
            raise

    async def _take_shared(self, place: Place, *, is_fresh: bool) -> Line:
        async with self._opening.setdefault(place, asyncio.Lock()):
            line = self._shared.get(place)
            is_current = line is not None and line.generation == self._generation
            if line is not None and is_current and line.upstream.is_reusable and not is_fresh:
                line.is_new = False
                return line
            line = await self._open(place)
            if not line.is_h2:
                self._old.add(place)  # it speaks HTTP/1 only: the next need not wait their turn
                line.place = place._replace(is_h2=False)
            if isinstance(line.upstream, Http2Upstream):
                old = self._shared.get(place)
                if old is not None and isinstance(old.upstream, Http2Upstream):
                    old.upstream.retire()  # streams on it go on to their end
                self._shared[place] = line
            return line

    async def _open(self, place: Place) -> Line:
        generation = self._generation
        conn, address = await self.dial(place.host, place.port)
        try:
            if place.scheme == "https":
                await self._secure(conn, place)
                is_h2 = conn.alpn == "h2"
            else:
                is_h2 = place.is_h2
            upstream = await _opened_h2(conn) if is_h2 else Http1Upstream(conn)
        except BaseException:
            conn.close()
            raise
        return Line(place, upstream, conn, address, generation)

    async def _secure(self, conn: Conn, place: Place) -> None:
        alpn = ("h2", "http/1.1") if place.is_h2 else ("http/1.1",)
        try:
            context = await offload(client_context, self.ca, alpn)  # the first reads all roots
            await conn.start_tls(context, server_side=False, server_hostname=place.host)
        except ssl.SSLError as error:
            raise NoUpstream(f"TLS to {place.host} failed: {why_not(error)}") from None
        except ConnLost as error:
            raise NoUpstream(f"TLS to {place.host} failed: {error}") from None
        except InvalidInput as error:  # the file of authorities is gone
            raise NoUpstream(f"TLS to {place.host} failed: {error.message}") from None

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.drop()


async def _opened_h2(conn: Conn) -> Http2Upstream:
    upstream = Http2Upstream(conn)
    await upstream.open()
    return upstream
