"""The door as a whole: it keeps calm when it is full, and cuts what its terms no longer allow."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.doors.network import door as door_module
from paddock.doors.network.transport.conn import Conn
from paddock.journal.log import RunLog
from paddock.model.events import Alert
from unit.doors.network.doorway import (
    HOST,
    Doorway,
    Server,
    doorway,
    listening,
    origin,
    staged,
    written,
)


@contextmanager
def _no_descriptors_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _recorded_alerts(way: Doorway) -> list[str]:
    events = (record.event for record in RunLog(way.run).events(Alert))
    return [event.alert for event in events if isinstance(event, Alert)]


def test_a_door_without_descriptors_waits_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "_PAUSE_S", 0.05, raising=False)

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            assert (await way.ask("GET /before")).status == 200
            with _no_descriptors_left_for(way) as sock:
                await asyncio.sleep(0.5)
            client = await way.adopt(sock)
            await client.send(written("GET /after"))
            assert (await client.told()).status == 200
            assert way.alerts == ["door.exhausted"]
            assert _recorded_alerts(way) == ["door.exhausted"]

    asyncio.run(play())


@contextmanager
def _no_descriptors_left_for(way: Doorway) -> Iterator[Any]:
    """The client has its own; the door finds none for its side."""
    sock = way.socket_to((way.door.table.address_of(HOST), 80))
    with _no_descriptors_left():
        yield sock


def test_a_door_that_ends_while_it_waits_for_descriptors_stays_shut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "_PAUSE_S", 0.2, raising=False)

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            with _no_descriptors_left_for(way) as sock:
                async with asyncio.timeout(10):
                    while not way.alerts:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            await way.door.close()
            await asyncio.sleep(0.3)
            assert sock.fileno() > 0
            sock.close()
            assert server.connections == 0

    asyncio.run(play())


def test_more_connections_than_there_is_room_for_raise_an_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "MAX_CONNECTIONS", 2)

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            clients = [await way.dial() for _ in range(3)]
            await clients[2].ends()
            assert way.alerts == ["door.exhausted"]
            await clients[0].send(written("GET /a"))
            assert (await clients[0].told()).status == 200

    asyncio.run(play())


@pytest.mark.parametrize("first", [b"P", b"PRI * HT", b"\x16"])
def test_a_connection_that_stops_in_its_first_bytes_is_rarely_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    looks = []
    peek = Conn.peek

    async def counted(self: Conn, limit: int = 16) -> bytes:
        looks.append(limit)
        return await peek(self, limit)

    monkeypatch.setattr(Conn, "peek", counted)

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            client = await way.dial()
            await client.send(first)
            await asyncio.sleep(0.6)
            assert 2 <= len(looks) <= 12

    asyncio.run(play())


def test_the_beginning_of_a_foreign_hello_is_rarely_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    peek = Conn.peek

    async def counted(self: Conn, limit: int = 16) -> bytes:
        looks.append(limit)
        return await peek(self, limit)

    monkeypatch.setattr(Conn, "peek", counted)

    async def play() -> None:
        async with origin() as server:
            network = {**staged(server, 443), "tls": {"passthrough": [HOST]}}
            async with doorway(tmp_path, network) as way:
                client = await way.dial(port=443)
                await client.send(b"\x16\x03\x01\x02\x00")
                await asyncio.sleep(0.6)
                assert 2 <= len(looks) <= 14

    asyncio.run(play())


def test_a_request_whose_first_bytes_come_one_by_one_is_served(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            client = await way.dial()
            for byte in written("POST /a"):
                await client.send(bytes([byte]))
                await asyncio.sleep(0.002)
            assert (await client.told()).status == 200

    asyncio.run(play())


class _Ticking:
    """An answer without end."""

    def __init__(self) -> None:
        self.is_cut = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"5\r\ntick\n\r\n")
                await writer.drain()
                if reader.at_eof():
                    break
                await asyncio.sleep(0.02)
        except OSError:
            pass
        self.is_cut.set()


def _staged_at(port: int, *names: str) -> dict[str, Any]:
    return {"allow": [f"{name}:80" for name in names], "hosts": {HOST: f"127.0.0.1:{port}"}}


@pytest.mark.parametrize("is_proxied", [False, True], ids=["redirected", "by the proxy"])
@pytest.mark.parametrize("change", ["gone", "address"])
def test_an_answer_under_way_is_cut_when_the_terms_change(
    tmp_path: Path, change: str, *, is_proxied: bool
) -> None:
    async def play() -> None:
        server = _Ticking()
        async with (
            listening(server.serve) as port,
            origin() as other,
            doorway(tmp_path, _staged_at(port, HOST)) as way,
        ):
            client = await (way.dial_proxy() if is_proxied else way.dial())
            target = f"http://{HOST}/stream" if is_proxied else "/stream"
            await client.send(written(f"GET {target}"))
            async with asyncio.timeout(20):
                assert b"tick" in await client.reader.readuntil(b"tick")
            gone = _staged_at(port, "more.example")
            way.update(**(gone if change == "gone" else staged(other)))
            await client.ends()
            async with asyncio.timeout(20):
                await server.is_cut.wait()

    asyncio.run(play())


def test_an_answer_by_the_proxy_lives_on_when_other_hosts_change(tmp_path: Path) -> None:
    async def play() -> None:
        server = _Ticking()
        async with (
            listening(server.serve) as port,
            doorway(tmp_path, _staged_at(port, HOST)) as way,
        ):
            client = await way.dial_proxy()
            await client.send(written(f"GET http://{HOST}/stream"))
            await client.reader.readuntil(b"tick")
            way.update(**_staged_at(port, HOST, "more.example"))
            async with asyncio.timeout(20):
                for _ in range(10):
                    await client.reader.readuntil(b"tick")

    asyncio.run(play())


@pytest.mark.parametrize("is_proxied", [False, True], ids=["redirected", "by the proxy"])
def test_a_kept_connection_of_a_client_leads_to_the_new_address_or_nowhere(
    tmp_path: Path, *, is_proxied: bool
) -> None:
    async def ask(way: Doorway, path: str) -> int:
        client = await (way.dial_proxy() if is_proxied else way.dial())
        await client.send(written(f"GET http://{HOST}{path}" if is_proxied else f"GET {path}"))
        return (await client.told()).status

    async def play() -> None:
        async with origin() as old, origin() as new, doorway(tmp_path, staged(old)) as way:
            assert await ask(way, "/1") == 200
            way.update(**staged(new))
            assert await ask(way, "/2") == 200
            assert (old.lines, new.lines) == (["GET /1 HTTP/1.1"], ["GET /2 HTTP/1.1"])

    asyncio.run(play())


def test_the_proxy_is_for_one_request_and_then_for_the_next(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            client = await way.dial_proxy()
            for path in ("/1", "/2"):
                await client.send(written(f"GET http://{HOST}{path}"))
                assert (await client.told()).status == 200
            way.update(**_staged_at(server.port, "more.example"))
            await client.send(written(f"GET http://{HOST}/3"))
            assert (await client.told()).status in (0, 403)
            assert _paths(server) == ["/1", "/2"]

    asyncio.run(play())


def _paths(server: Server) -> list[str]:
    return [line.split(" ")[1] for line in server.lines]
