"""The server's side of HTTP/1, with raw bytes on the other end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.doors.network.exchange import BadMessage
from paddock.doors.network.http1 import messages as http1_messages
from paddock.doors.network.http1 import server as http1
from paddock.doors.network.http1.messages import head_bytes
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost
from unit.doors.network.wires import LIMIT_S, Recorder, answered, seen, status_of, tcp_pair, whole

GET = b"GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nHost: example.com\r\n"


def answering(
    status: int, headers: list[tuple[bytes, bytes]], *parts: bytes, trailers: Any = None
) -> Any:
    async def handler(exchange: Any) -> None:
        await exchange.begin(status, headers)
        for part in parts:
            await exchange.send(part)
        await exchange.finish(trailers)

    return handler


def test_request_is_seen_as_it_was_sent() -> None:
    raw = b"PUT /a%20b?c=d&e HTTP/1.1\r\nhOST: Example.com:8080\r\nX-A:  1 \t\r\nX-A: 2\r\nX-E:\r\n"
    [one] = seen(raw + b"Content-Length: 3\r\n\r\nabc")
    request = one.request
    assert (request.method, request.scheme, request.version) == ("PUT", "http", "1.1")
    assert (request.authority, request.target) == ("Example.com:8080", "/a%20b?c=d&e")
    assert request.headers[1:4] == [(b"X-A", b"1"), (b"X-A", b"2"), (b"X-E", b"")]
    assert request.headers[0][0] == b"hOST"
    assert (one.body, request.body.length) == (b"abc", 3)


def test_pipelined_requests_are_answered_in_order() -> None:
    chunks = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    raw = GET + POST + b"Content-Length: 4\r\n\r\nbody" + chunks + b"\r\n" + GET
    answer = answered(raw, Recorder())
    assert [answer.index(b"got 0"), answer.count(b"got 0")] == [answer.index(b"got"), 2]
    assert answer.index(b"got 4") < answer.index(b"got 2") < answer.rindex(b"got 0")


@pytest.mark.parametrize("size", [1, 3, 17])
def test_requests_in_small_pieces_are_the_same(size: int) -> None:
    raw = POST + b"Content-Length: 4\r\n\r\nbody" + GET
    found = seen([raw[i : i + size] for i in range(0, len(raw), size)])
    assert [one.body for one in found] == [b"body", b""]


@pytest.mark.parametrize(
    ("head", "is_kept"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n", False),
        (b"GET / HTTP/1.0\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n", True),
    ],
)
def test_connection_is_kept_as_version_and_header_say(head: bytes, is_kept: bool) -> None:
    raw = head + b"\r\n"
    assert len(seen(raw + raw)) == (2 if is_kept else 1)
    assert (b"Connection: close" in answered(raw, Recorder())) is not is_kept


def test_answer_with_a_length_is_one_write_and_as_announced() -> None:
    answer = answered(GET, answering(200, [(b"Content-Length", b"5")], b"he", b"llo"))
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def test_answer_without_a_length_goes_in_chunks_with_trailers() -> None:
    trailers = [(b"X-Sum", b"1"), (b"Content-Length", b"5")]
    answer = answered(GET, answering(200, [], b"hello", b"", b"!", trailers=trailers))
    assert answer.endswith(b"\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n")


def test_answer_to_1_0_without_a_length_ends_with_the_connection() -> None:
    answer = answered(b"GET / HTTP/1.0\r\n\r\n", answering(200, [], b"hello"))
    assert answer == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"


@pytest.mark.parametrize(
    ("method", "status", "length"), [("HEAD", 200, b"9"), ("GET", 304, b"9"), ("GET", 204, None)]
)
def test_answer_that_has_no_body_gets_none(method: str, status: int, length: Any) -> None:
    head = method.encode() + b" / HTTP/1.1\r\nHost: a\r\n\r\n"
    answer = answered(head + GET, answering(status, [(b"Content-Length", b"9")], b"123456789"))
    first = answer.split(b"\r\n\r\n")[0]
    assert (b"Content-Length: 9" in first) is (length is not None)
    assert answer.split(b"\r\n\r\n")[1].startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("parts", [(b"1234",), (b"123456",)])
def test_answer_of_another_length_than_announced_is_cut(parts: tuple[bytes, ...]) -> None:
    answer = answered(GET + GET, answering(200, [(b"Content-Length", b"5")], *parts))
    assert b"123456" not in answer
    assert answer.endswith(b"<reset>")


def test_header_of_an_answer_cannot_end_its_line() -> None:
    for bad in [
        (b"X", b"a\r\nY: b"),
        (b"X", b"a\nb"),
        (b"X\r\nY", b"b"),
        (b"X y", b""),
        (b"", b""),
    ]:
        answer = answered(GET, answering(200, [bad], b"hello"))
        assert status_of(answer) == 502
    with pytest.raises(BadMessage):
        head_bytes(b"HTTP/1.1 200 OK\r\nX: y", [])


def test_framing_headers_of_the_handler_do_not_count() -> None:
    headers = [(b"Connection", b"close"), (b"Transfer-Encoding", b"gzip"), (b"Keep-Alive", b"1")]
    answer = answered(GET + GET, answering(200, headers, b"hi"))
    assert answer.count(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0") == 2


async def _broken(exchange: Any) -> None:
    raise ValueError("a word that nobody may see")


async def _broken_midway(exchange: Any) -> None:
    await exchange.begin(200, [])
    await exchange.send(b"half")
    raise ValueError("a word that nobody may see")


async def _silent(exchange: Any) -> None:
    return


@pytest.mark.parametrize("handler", [_broken, _silent])
def test_request_without_an_answer_gets_502(handler: Any) -> None:
    answer = answered(GET + GET, handler)
    assert status_of(answer) == 502
    assert answer.count(b"502 Bad Gateway") == 1
    assert b"nobody" not in answer


def test_answer_that_breaks_off_is_seen_to() -> None:
    assert answered(GET + GET, _broken_midway).endswith(b"<reset>")


def test_unread_body_is_taken_before_the_next_request() -> None:
    raw = POST + b"Content-Length: 1000\r\n\r\n" + bytes(1000) + GET
    answer = answered(raw, answering(200, [(b"Content-Length", b"0")]))
    assert answer.count(b"200 OK") == 2


def test_long_unread_body_ends_the_connection_gently() -> None:
    size = 600 << 10
    raw = POST + b"Content-Length: %d\r\n\r\n" % size + bytes(size) + GET
    answer = answered([raw[i : i + 65536] for i in range(0, len(raw), 65536)], _no)
    assert answer.endswith(b"no")
    assert answer.count(b"403") == 1


async def _no(exchange: Any) -> None:
    await answering(403, [(b"Content-Length", b"2")], b"no")(exchange)


def test_empty_lines_without_end_are_not_taken() -> None:
    assert len(seen(GET + b"\r\n" + GET)) == 2
    assert len(seen(GET + b"\r\n" * 20_000 + GET)) == 1


def test_invalid_length_of_the_handler_is_not_announced() -> None:
    for value in (b"-1", b"5, 5", b"", b"+5"):
        answer = answered(GET, answering(200, [(b"Content-Length", value)], b"hello"))
        assert status_of(answer) == 502


def test_body_that_ends_early_is_no_body() -> None:
    recorder = Recorder()
    answer = answered(POST + b"Content-Length: 10\r\n\r\nabc", recorder)
    assert recorder.seen == []
    assert b"200" not in answer


class Client:
    """The other end of a connection that is being served."""

    def __init__(self, handler: Any, **options: Any) -> None:
        near, far = tcp_pair()
        idle_s = options.pop("idle_s", LIMIT_S)
        self.conn = Conn(near)
        self.served = Conn(far, idle_s=idle_s)
        self.task = asyncio.create_task(http1.serve(self.served, handler, scheme="http", **options))

    async def until(self, end: bytes) -> bytes:
        data = b""
        async with asyncio.timeout(LIMIT_S):
            while end not in data:
                more = await self.conn.read()
                assert more, data
                data += more
        return data


def test_client_that_waits_for_100_is_told_when_its_body_is_read() -> None:
    async def run() -> None:
        client = Client(Recorder())
        await client.conn.write(POST + b"Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.conn.write(b"abc" + GET)
        assert (await client.until(b"got 0")).count(b"200 OK") == 2
        client.conn.close()
        await client.task

    asyncio.run(run())


def test_client_that_waits_for_100_and_gets_an_answer_is_not_waited_for() -> None:
    raw = POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    answer = answered(raw, _no)
    assert b"100 Continue" not in answer
    assert status_of(answer) == 403
    assert b"Connection: close" in answer


def test_head_of_a_stream_does_not_wait_for_its_first_event() -> None:
    async def run() -> None:
        go = asyncio.Event()

        async def handler(exchange: Any) -> None:
            await exchange.begin(200, [(b"Content-Type", b"text/event-stream")])
            await go.wait()
            await exchange.send(b"data: 1\n\n")
            await exchange.finish()

        client = Client(handler)
        await client.conn.write(GET)
        assert b"data" not in await client.until(b"\r\n\r\n")
        go.set()
        assert b"data: 1" in await client.until(b"0\r\n\r\n")
        client.conn.close()
        await client.task

    asyncio.run(run())


def test_body_is_read_only_as_the_handler_asks() -> None:
    async def run() -> None:
        go = asyncio.Event()

        async def handler(exchange: Any) -> None:
            await go.wait()
            await Recorder()(exchange)

        client = Client(handler)
        size, sent = 16 << 20, 0
        await client.conn.write(POST + b"Content-Length: %d\r\n\r\n" % size)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                while sent < size:
                    await client.conn.write(bytes(1 << 16))
                    sent += 1 << 16
        assert client.conn.bytes_out < 4 << 20
        assert client.served.bytes_in < 1 << 20
        client.conn.abort()
        go.set()
        await client.task

    asyncio.run(run())


def test_slow_head_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_messages, "HEAD_S", 0.3)

    async def run() -> bytes:
        client = Client(Recorder())

        async def drip() -> None:
            for byte in GET * 100:
                await client.conn.write(bytes([byte]))
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        answer = await client.until(b"\r\n\r\n")
        dripping.cancel()
        client.conn.close()
        await client.task
        return answer

    assert status_of(asyncio.run(run())) == 408


def test_idle_connection_is_ended() -> None:
    async def run() -> None:
        client = Client(Recorder(), idle_s=0.1)
        await client.conn.write(GET)
        await client.until(b"got 0")
        async with asyncio.timeout(LIMIT_S):
            assert await client.conn.read() == b""
            await client.task
        client.conn.close()

    asyncio.run(run())


def test_connection_is_handed_over_with_what_came_already() -> None:
    async def run() -> None:
        async def handler(exchange: Any) -> None:
            assert exchange.request.upgrade == "websocket"
            await exchange.begin(101, [(b"Upgrade", b"websocket")])
            conn = exchange.take_over()
            await conn.write(b"raw " + await conn.read())
            conn.close()

        client = Client(handler)
        head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"
        await client.conn.write(head + b"Upgrade: WebSocket\r\n\r\nfirst bytes")
        answer = await client.until(b"raw first bytes")
        assert answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"Connection: Upgrade\r\n" in answer
        client.conn.close()
        await client.task

    asyncio.run(run())


def test_proxy_hands_over_a_tunnel() -> None:
    async def handler(exchange: Any) -> None:
        assert (exchange.request.authority, exchange.request.method) == ("a.example:443", "CONNECT")
        await exchange.begin(200, [], b"Connection established")
        conn = exchange.take_over()
        await conn.write(b"tunnel")
        conn.close()

    raw = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"
    answer = answered(raw, handler, allow_connect=True)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\ntunnel"


def test_connection_is_not_given_away_before_the_client_knows() -> None:
    async def handler(exchange: Any) -> None:
        exchange.take_over()

    assert status_of(answered(GET, handler)) == 502


def test_client_that_goes_away_ends_the_serving() -> None:
    async def run() -> None:
        async def handler(exchange: Any) -> None:
            await exchange.begin(200, [])
            while True:
                await exchange.send(bytes(1 << 16))

        client = Client(handler)
        await client.conn.write(GET)
        await client.until(b"\r\n\r\n")
        client.conn.abort()
        async with asyncio.timeout(LIMIT_S):
            await client.task
        assert client.served.is_closed

    asyncio.run(run())


def test_serving_that_is_cancelled_closes_the_connection() -> None:
    async def run() -> None:
        began = asyncio.Event()

        async def handler(exchange: Any) -> None:
            began.set()
            await asyncio.sleep(LIMIT_S)

        client = Client(handler)
        await client.conn.write(GET)
        await began.wait()
        client.task.cancel()
        await asyncio.gather(client.task, return_exceptions=True)
        with pytest.raises(ConnLost):
            await client.conn.read()
        client.conn.close()

    asyncio.run(run())


def test_large_body_arrives_whole() -> None:
    async def run() -> None:
        client = Client(Recorder())
        part, count = bytes(range(256)) * 4096, 32
        await client.conn.write(POST + b"Content-Length: %d\r\n\r\n" % (len(part) * count))
        for _ in range(count):
            await client.conn.write(part)
        await client.until(b"got %d" % (len(part) * count))
        client.conn.close()
        await client.task

    asyncio.run(run())


def test_whole_reads_to_the_end() -> None:
    [one] = seen(POST + b"Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
    assert one.body == b"ab"
    assert asyncio.run(whole(one.request.body)) == b""
