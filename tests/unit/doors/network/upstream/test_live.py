"""Requests on their way: sent once, for who waits, with secrets where nobody reads them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from paddock.doors.network.tls.authority import Authority
from paddock.doors.network.transport.dial import Dialer
from paddock.doors.network.upstream import live
from paddock.journal.secrets.search import Needle, Needles
from unit.doors.network.doorway import (
    HOST,
    KEY,
    VALUE,
    Asked,
    Client,
    Doorway,
    Server,
    doorway,
    listening,
    ok,
    origin,
    staged,
    written,
)

ASK = {"id": "ask", "match": {"kind": "http", "path": "/ask"}, "decide": "ask"}


async def _loopback(name: str) -> list[str]:
    return ["127.0.0.1"]


def _found_by_name(way: Doorway) -> None:
    """The name is looked up, and not staged by the file."""
    way.door.context.pool.dialer = Dialer(way.door.network, resolve=_loopback)


def _by_name(server: Server) -> dict[str, Any]:
    return {"allow": [f"{HOST}:{server.port}"], "private": ["127.0.0.0/8"]}


def test_a_secret_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    async def play() -> None:
        async with (
            origin() as server,
            doorway(tmp_path, _by_name(server), secrets=KEY) as way,
        ):
            _found_by_name(way)
            told = await way.ask("GET /a", port=server.port)
            assert (told.status, server.seen) == (403, [])
            assert "https only" in told.error["message"]
            assert way.alerts == ["secret.misplaced"]
            (step,) = way.steps("http")
            assert step.settled is not None
            assert step.outcome == "failed"

    asyncio.run(play())


def test_without_a_secret_in_it_a_request_may_go_in_the_clear(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, _by_name(server)) as way:
            _found_by_name(way)
            assert (await way.ask("GET /a", port=server.port)).status == 200
            assert way.alerts == []

    asyncio.run(play())


def test_a_secret_goes_where_the_file_says_that_the_host_is(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server), secrets=KEY) as way:
            assert (await way.ask("GET /a")).status == 200
            assert f"Authorization: Bearer {VALUE}" in server.seen[0].head
            assert way.alerts == []

    asyncio.run(play())


@pytest.mark.parametrize("secrets", [{}, KEY], ids=["without secrets", "with a secret"])
def test_plain_http_to_the_port_of_tls_is_refused(tmp_path: Path, secrets: dict[str, Any]) -> None:
    async def play() -> None:
        async with (
            origin() as server,
            doorway(tmp_path, staged(server, 443), secrets=secrets) as way,
        ):
            told = await way.ask("GET /a", port=443)
            assert (told.status, server.connections) == (403, 0)
            assert way.deciders("http") == ["protocol"]

    asyncio.run(play())


def _dies_at_second(asked: Asked) -> bytes | None:
    """Does the work, and is gone before it says so."""
    return ok(asked) if asked.line.startswith("GET /first") else None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_write_is_not_sent_again_when_a_kept_connection_ends(tmp_path: Path, method: str) -> None:
    async def play() -> None:
        async with origin(_dies_at_second) as server, doorway(tmp_path, staged(server)) as way:
            assert (await way.ask("GET /first")).status == 200
            fields = "Content-Type: application/json"
            told = await way.ask(f"{method} /pay\n{fields}", b'{"pay":1}')
            assert told.status == 502
            assert [one.connection for one in server.seen] == [1, 1]
            assert server.lines[1:] == [f"{method} /pay HTTP/1.1"]

    asyncio.run(play())


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_read_is_sent_again_on_a_new_connection(tmp_path: Path, method: str) -> None:
    def answer(asked: Asked) -> bytes | None:
        is_first = asked.connection == 1 and "/first" not in asked.line
        return None if is_first else ok(asked)

    async def play() -> None:
        async with origin(answer) as server, doorway(tmp_path, staged(server)) as way:
            assert (await way.ask("GET /first")).status == 200
            assert (await way.ask(f"{method} /again")).status == 200
            assert [one.connection for one in server.seen] == [1, 1, 2]

    asyncio.run(play())


def test_a_write_does_not_use_a_connection_that_was_idle_for_long(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            for head in ("GET /1", "POST /2", "POST /3"):
                assert (await way.ask(head)).status == 200
            assert server.connections == 1
            for lines in way.door.context.pool._idle.values():
                for line in lines:
                    line.idle_since -= 3.0
            assert (await way.ask("POST /4")).status == 200
            assert server.connections == 2

    asyncio.run(play())


class _Refusing:
    """HTTP/2 of a server that will not look at the first request on its second visit."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refusals = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conn = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        conn.initiate_connection()
        with contextlib.suppress(OSError):
            while True:
                writer.write(conn.data_to_send())
                await writer.drain()
                data = await reader.read(65536)
                if not data:
                    break
                for event in conn.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        self._answer(conn, event)
        writer.close()

    def _answer(self, conn: h2.connection.H2Connection, event: Any) -> None:
        head = dict(event.headers)
        self.asked.append(f"{head[':method']} {head[':path']}")
        if head[":path"] == "/pay" and not self.refusals:
            self.refusals += 1
            conn.reset_stream(event.stream_id, 7)  # REFUSED_STREAM
            return
        conn.send_headers(event.stream_id, [(":status", "200")], end_stream=True)


async def _by_h2(client: Client, asked: list[tuple[str, str]]) -> list[int]:
    """Requests of a client that speaks HTTP/2, one after the other; their statuses."""
    conn = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
    )
    conn.initiate_connection()
    statuses: list[int] = []
    for method, path in asked:
        stream = conn.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "http"), (":authority", HOST), (":path", path)]
        conn.send_headers(stream, fields, end_stream=True)
        is_ended = False
        while not is_ended:
            await client.send(conn.data_to_send())
            async with asyncio.timeout(20):
                data = await client.reader.read(65536)
            assert data
            for event in conn.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    statuses.append(int(dict(event.headers)[":status"]))
                is_ended = is_ended or isinstance(event, h2.events.StreamEnded)
    return statuses


def test_a_write_that_the_server_says_it_did_not_look_at_is_sent_again(tmp_path: Path) -> None:
    async def play() -> None:
        server = _Refusing()
        async with listening(server.serve) as port:
            network = {"allow": [f"{HOST}:80"], "hosts": {HOST: f"127.0.0.1:{port}"}}
            async with doorway(tmp_path, network) as way:
                client = await way.dial()
                statuses = await _by_h2(client, [("GET", "/first"), ("POST", "/pay")])
                assert statuses == [200, 200]
                assert server.asked == ["GET /first", "POST /pay", "POST /pay"]

    asyncio.run(play())


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def _server_tls(authority: Authority) -> ssl.SSLContext:
    context = authority.context_for(HOST, alpn=("http/1.1",))
    context.sni_callback = None
    return context


@pytest.fixture
def _is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the client is there is looked at, however short a person was asked for."""
    monkeypatch.setattr(live, "_HELD_S", 0.0)


async def _leave_while_asked(way: Doorway, client: Client) -> None:
    await client.send(written("POST /ask", b"pay"))
    one = await way.asked()
    client.close()
    with contextlib.suppress(OSError, ssl.SSLError):
        await client.writer.wait_closed()
    await asyncio.sleep(0.1)  # for the farewell to come through
    way.gate.approvals.approve(one.approval_id, "ann")
    (step,) = await way.settled("http")
    assert step.settled is not None
    assert step.outcome == "failed"
    assert "client went away" in (step.error or "")


@pytest.mark.usefixtures("_is_looked_for")
def test_an_approved_request_whose_client_has_left_is_not_sent(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server), ASK) as way:
            await _leave_while_asked(way, await way.dial())
            assert server.connections == 0

    asyncio.run(play())


@pytest.mark.usefixtures("_is_looked_for")
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_an_approved_request_whose_client_left_by_tls_is_not_sent(
    tmp_path: Path, authority: Authority, version: str
) -> None:
    async def play() -> None:
        tls = _server_tls(authority)
        ca = tmp_path / "ca.pem"
        ca.write_bytes(authority.ca_pem)
        async with origin(tls=tls) as server:
            network = {**staged(server, 443), "tls": {"ca": str(ca)}}
            async with doorway(tmp_path, network, ASK) as way:
                client = await way.dial(port=443, tls=version)
                await _leave_while_asked(way, client)
                assert server.seen == []

    asyncio.run(play())


def test_a_client_that_asks_and_ends_its_side_is_answered(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            client = await way.dial()
            client.writer.write(written("POST /a", b"text"))
            client.writer.write_eof()
            assert (await client.told()).status == 200
            assert len(server.seen) == 1

    asyncio.run(play())


@pytest.mark.usefixtures("_is_looked_for")
def test_an_approved_request_whose_client_waits_is_sent(
    tmp_path: Path, authority: Authority
) -> None:
    async def play() -> None:
        ca = tmp_path / "ca.pem"
        ca.write_bytes(authority.ca_pem)
        async with origin(tls=_server_tls(authority)) as server:
            network = {**staged(server, 443), "tls": {"ca": str(ca)}}
            async with doorway(tmp_path, network, ASK) as way:
                client = await way.dial(port=443, tls="TLSv1_3")
                await client.send(written("POST /ask", b"pay"))
                one = await way.asked()
                way.gate.approvals.approve(one.approval_id, "ann")
                assert (await client.told()).status == 200
                assert [one.body for one in server.seen] == [b"pay"]

    asyncio.run(play())


def test_what_was_sent_of_a_request_that_failed_is_in_the_journal(tmp_path: Path) -> None:
    size = 300_000

    async def play() -> None:
        async with origin(lambda asked: None) as server, doorway(tmp_path, staged(server)) as way:
            fields = "Content-Type: application/octet-stream"
            assert (await way.ask(f"PUT /up\n{fields}", bytes(size))).status == 502
            (step,) = way.steps("http")
            assert step.settled is not None
            assert step.outcome == "failed"
            assert step.result["sent"]["bytes"] == size

    asyncio.run(play())


def test_what_was_sent_before_a_client_left_is_in_the_journal(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            client = await way.dial()
            head = f"PUT /up HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 9000000\r\n\r\nhello"
            await client.send(head.encode())
            async with asyncio.timeout(20):
                while not server.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            client.close()
            (step,) = await way.settled("http")
            assert step.settled is not None
            assert step.result["sent"]["bytes"] == 5

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/die", "/ok", "/odd"])
def test_no_connection_is_remembered_for_a_secret_after_its_answer(
    tmp_path: Path, path: str
) -> None:
    def answer(asked: Asked) -> bytes | None:
        if "/odd" in asked.line:
            return b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok"
        return None if "/die" in asked.line else ok(asked)

    async def play() -> None:
        async with origin(answer) as server, doorway(tmp_path, staged(server), secrets=KEY) as way:
            for _ in range(3):
                await way.ask(f"GET {path}")
            await way.settled("http", 3)
            assert VALUE in server.seen[0].head
            carriers = way.door.context.custody._carriers
            assert {name: dict(conns) for name, conns in carriers.items()} == {"KEY": {}}

    asyncio.run(play())


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip"])
def test_an_answer_without_a_body_passes_whatever_its_coding(tmp_path: Path, coding: str) -> None:
    def answer(asked: Asked) -> bytes:
        status = b"304 Not Modified" if "/same" in asked.line else b"200 OK"
        fields = f"Content-Encoding: {coding}\r\nContent-Length: 10\r\n\r\n".encode()
        return b"HTTP/1.1 " + status + b"\r\n" + fields

    async def play() -> None:
        async with origin(answer) as server, doorway(tmp_path, staged(server), secrets=KEY) as way:
            told = await way.ask("HEAD /a")
            assert told.status == 200
            assert f"content-encoding: {coding}" in told.head.lower()
            client = await way.dial()
            await client.send(written("GET /same"))
            assert (await client.told(is_head=True)).status == 304

    asyncio.run(play())


def test_a_body_that_cannot_be_looked_into_does_not_pass(tmp_path: Path) -> None:
    def answer(asked: Asked) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok"

    async def play() -> None:
        async with origin(answer) as server, doorway(tmp_path, staged(server), secrets=KEY) as way:
            assert (await way.ask("GET /a")).status == 502

    asyncio.run(play())


def test_a_value_that_comes_back_from_another_host_is_covered(tmp_path: Path) -> None:
    """It was sent to its own host, which may have told the other one."""

    async def play() -> None:
        said = f"you are <{VALUE}> &#{ord(VALUE[0])};{VALUE[1:]}".encode()
        head = f"HTTP/1.1 200 OK\r\nX-Told: {VALUE}\r\nContent-Length: {len(said)}\r\n\r\n"
        async with origin(lambda _: head.encode() + said) as server:
            allowed = ["other.example:80", "api.example:443"]
            network = {"allow": allowed, "hosts": {"other.example": server.place}}
            elsewhere = {"KEY": {"from": "env:K", "to": ["api.example"]}}
            async with doorway(tmp_path, network, secrets=elsewhere) as way:
                client = await way.dial("other.example")
                request = "GET / HTTP/1.1\r\nHost: other.example\r\nRange: bytes=0-9\r\n\r\n"
                await client.send(request.encode())
                told = await client.told()
                assert VALUE not in told.head
                assert VALUE[1:].encode() not in told.body
                assert len(told.body) == len(said)
                assert "range" not in server.seen[0].head.lower()

    asyncio.run(play())


def test_a_head_with_many_escapes_is_searched_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand connections can come to the end of their heads in the same turn of the loop."""
    threads: list[int] = []
    needles_first, needles_suspects = Needles.first, Needles.suspects

    def note(raw: bytes) -> None:
        if len(raw) > 1000:
            threads.append(threading.get_ident())

    def first(self: Needles, raw: bytes) -> str | None:
        note(raw)
        return needles_first(self, raw)

    def suspects(self: Needles, raw: bytes) -> tuple[Needle, ...]:
        note(raw)
        return needles_suspects(self, raw)

    def answer(asked: Asked) -> bytes:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: "
        return head + b"%5c" * 2000 + b"\r\n\r\nok"

    async def play() -> None:
        async with origin(answer) as server:
            network = {**staged(server), "allow": [f"{HOST}:80", "other.example:443"]}
            secret = {"KEY": {**KEY["KEY"], "to": ["other.example"]}}
            async with doorway(tmp_path, network, secrets=secret) as way:
                monkeypatch.setattr(Needles, "first", first)
                monkeypatch.setattr(Needles, "suspects", suspects)
                told = await way.ask("GET /a\nX: " + "%5c" * 2000)
                assert told.status == 200

    asyncio.run(play())
    assert len(threads) == 2  # of the request and of the answer
    assert threading.get_ident() not in threads
