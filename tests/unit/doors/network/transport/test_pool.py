"""Connections to servers: kept while the terms hold, and no longer; asked once for HTTP/2."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from paddock.doors.network.exchange import HttpRequest
from paddock.doors.network.tls.authority import Authority
from paddock.doors.network.transport.dial import Dialer
from paddock.doors.network.transport.pool import ConnectionPool, ServerConnection, ServerEndpoint
from paddock.policy.network import network_of
from polling import is_readable
from unit.doors.network.doorway import HOST, Server, listening, origin

PLAIN = ServerEndpoint("http", HOST, 80)
SECURE = ServerEndpoint("https", HOST, 443, is_h2=True)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def ca(authority: Authority, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.ca_pem)
    return str(path)


def _tls(authority: Authority, *alpn: str) -> ssl.SSLContext:
    context = authority.context_for(HOST, alpn=alpn)
    context.sni_callback = None
    return context


def _terms(place: str) -> Any:
    return network_of({"allow": [f"{HOST}:80", f"{HOST}:443"], "hosts": {HOST: place}})


@contextlib.asynccontextmanager
async def _pool(place: str, ca: str | None = None) -> AsyncIterator[ConnectionPool]:
    made = ConnectionPool(Dialer(_terms(place)), ca=ca)
    try:
        async with asyncio.timeout(30):
            yield made
    finally:
        made.close()
        await asyncio.sleep(0)


async def _used(
    pool: ConnectionPool, place: ServerEndpoint = PLAIN, **how: bool
) -> ServerConnection:
    """A connection that a request was sent on, and that is given back."""
    line = await pool.take(place, **how)
    request = HttpRequest("GET", place.scheme, HOST, "/", [], "1.1")
    response = await line.client.send(request, [(b"Host", HOST.encode())])
    while await response.body.read():
        pass
    pool.give_back(line)
    return line


async def _hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await reader.read()


def _move(pool: ConnectionPool, server: Server) -> None:
    pool.dialer.network = _terms(server.place)
    pool.renew(lambda host, port: True)


def test_a_connection_is_used_again() -> None:
    async def play() -> None:
        async with origin() as server, _pool(server.place) as pool:
            assert await _used(pool) is await _used(pool)
            assert server.connections == 1

    asyncio.run(play())


def test_a_kept_connection_to_an_old_address_is_not_used_any_more() -> None:
    async def play() -> None:
        async with origin() as old, origin() as new, _pool(old.place) as pool:
            first = await _used(pool)
            _move(pool, new)
            await _used(pool)
            assert first.conn.is_closed
            assert (len(old.seen), len(new.seen)) == (1, 1)

    asyncio.run(play())


def test_a_connection_that_is_lent_while_the_terms_change_is_not_kept() -> None:
    async def play() -> None:
        async with origin() as old, origin() as new, _pool(old.place) as pool:
            lent = await pool.take(PLAIN)
            _move(pool, new)
            pool.give_back(lent)
            assert lent.conn.is_closed
            await _used(pool)
            assert (len(old.seen), len(new.seen)) == (0, 1)

    asyncio.run(play())


def test_a_change_of_other_hosts_leaves_a_connection_alone() -> None:
    async def play() -> None:
        async with origin() as server, _pool(server.place) as pool:
            first = await _used(pool)
            pool.renew(lambda host, port: host != HOST)
            assert await _used(pool) is first

    asyncio.run(play())


def test_a_shared_connection_that_was_opened_for_the_old_terms_is_not_used_any_more(
    authority: Authority, ca: str
) -> None:
    async def play() -> None:
        tls = _tls(authority, "h2")
        late = socket.create_server(("127.0.0.1", 0))
        place = f"127.0.0.1:{late.getsockname()[1]}"
        async with listening(_hold, tls) as new, _pool(place, ca) as pool:
            opening = asyncio.ensure_future(pool.take(SECURE))
            while not is_readable(late.fileno(), 0):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            pool.dialer.network = _terms(f"127.0.0.1:{new}")
            pool.renew(lambda host, port: True)
            async with await asyncio.start_server(_hold, sock=late, ssl=tls):
                first = await opening
                second = await pool.take(SECURE)
                assert second is not first
                assert second.conn.sock.getpeername()[1] == new
                first.close()

    asyncio.run(play())


def test_a_write_is_sure_of_a_connection_only_for_a_moment() -> None:
    async def play() -> None:
        async with origin() as server, _pool(server.place) as pool:
            first = await _used(pool)
            assert await _used(pool, is_sure=True) is first
            first.idle_since -= 3.0
            assert await _used(pool) is first
            first.idle_since -= 3.0
            assert await _used(pool, is_sure=True) is not first
            assert first.conn.is_closed

    asyncio.run(play())


def test_a_server_that_has_no_http2_is_dialled_once_for_requests_one_by_one(
    authority: Authority, ca: str
) -> None:
    async def play() -> None:
        async with (
            origin(tls=_tls(authority, "http/1.1")) as server,
            _pool(server.place, ca) as pool,
        ):
            for _ in range(5):
                assert not (await _used(pool, SECURE)).is_h2
            assert (server.connections, len(server.seen)) == (1, 5)

    asyncio.run(play())


def test_requests_at_once_to_a_server_without_http2_do_not_wait_for_each_other(
    authority: Authority, ca: str
) -> None:
    async def play() -> None:
        async with (
            origin(tls=_tls(authority, "http/1.1")) as server,
            _pool(server.place, ca) as pool,
        ):
            await _used(pool, SECURE)
            lines = [await pool.take(SECURE) for _ in range(3)]
            assert len({line.conn for line in lines}) == 3
            for line in lines:
                line.close()

    asyncio.run(play())


def test_a_server_that_has_http2_shares_one_connection(authority: Authority, ca: str) -> None:
    async def play() -> None:
        async with (
            listening(_hold, _tls(authority, "h2")) as port,
            _pool(f"127.0.0.1:{port}", ca) as pool,
        ):
            first = await pool.take(SECURE)
            assert first.is_h2
            assert await pool.take(SECURE) is first

    asyncio.run(play())


def test_a_server_in_another_place_is_asked_anew_for_http2(authority: Authority, ca: str) -> None:
    async def play() -> None:
        async with (
            origin(tls=_tls(authority, "http/1.1")) as old,
            listening(_hold, _tls(authority, "h2")) as new,
            _pool(old.place, ca) as pool,
        ):
            await _used(pool, SECURE)
            pool.dialer.network = _terms(f"127.0.0.1:{new}")
            pool.renew(lambda host, port: True)
            assert (await pool.take(SECURE)).is_h2

    asyncio.run(play())
