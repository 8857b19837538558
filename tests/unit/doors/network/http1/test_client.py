"""The client's side of HTTP/1, with a server of raw bytes on the other end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from cases import for_each
from paddock.doors.network.exchange import BadMessage, BufferedBody, Headers, HttpRequest
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnIdle, ConnLost
from unit.doors.network.wires import LIMIT_S, asked, tcp_pair, whole

HEADERS = [(b"Host", b"example.com"), (b"X-A", b"1")]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request(method: str = "GET", body: Any = None, **more: Any) -> HttpRequest:
    made = HttpRequest(method, "http", "example.com", "/a?b", [], "1.1", **more)
    if body is not None:
        made.body = body
    return made


class Stream:
    """A body that comes when it is let."""

    def __init__(self, length: int | None = None) -> None:
        self.length = length
        self.trailers: Headers = []
        self._parts: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def put(self, part: bytes | Exception) -> None:
        self._parts.put_nowait(part)

    async def read(self) -> bytes:
        part = await self._parts.get()
        if isinstance(part, Exception):
            raise part
        return part


class Pair:
    """A client of ours and the raw end that it talks to."""

    def __init__(self, idle_s: float = LIMIT_S) -> None:
        near, far = tcp_pair()
        self.upstream = Http1Client(Conn(near, idle_s=idle_s))
        self.server = Conn(far)

    async def until(self, end: bytes) -> bytes:
        data = b""
        async with asyncio.timeout(LIMIT_S):
            while end not in data:
                more = await self.server.read()
                assert more, data
                data += more
        return data

    def close(self) -> None:
        self.upstream.close()
        self.server.close()


def played(play: Any, **options: Any) -> None:
    async def run() -> None:
        pair = Pair(**options)
        try:
            async with asyncio.timeout(LIMIT_S):
                await play(pair)
        finally:
            pair.close()
            await asyncio.sleep(0)

    asyncio.run(run())


def test_request_is_written_as_given() -> None:
    got = asked(OK, request(), HEADERS)
    assert got.sent == b"GET /a?b HTTP/1.1\r\nHost: example.com\r\nX-A: 1\r\n\r\n"
    assert (got.response and got.response.status, got.body) == (200, b"ok")


def test_host_is_put_in_where_it_is_missing() -> None:
    assert b"Host: example.com\r\n" in asked(OK, request(), []).sent


def test_small_body_goes_with_its_head() -> None:
    got = asked(OK, request("POST", BufferedBody([b"ab", b"c"])), HEADERS)
    assert got.sent.endswith(b"X-A: 1\r\nContent-Length: 3\r\n\r\nabc")


def test_empty_post_says_that_it_is_empty() -> None:
    assert b"Content-Length: 0\r\n" in asked(OK, request("POST"), HEADERS).sent


@pytest.mark.parametrize(
    "extra",
    [
        (b"X\r\nHost: b", b""),
        (b"X", b"a\r\n\r\nGET /smuggled HTTP/1.1"),
        (b"X", b"a\nb"),
        (b"X: y", b"z"),
        (b"", b"z"),
        (b"Host", b"other.example"),
    ],
)
def test_header_that_would_be_more_than_one_is_not_sent(extra: tuple[bytes, bytes]) -> None:
    got = asked(OK, request(), [*HEADERS, extra])
    assert isinstance(got.error, BadMessage)
    assert got.sent == b""


@for_each(
    ("method", "target"),
    [
        ("GET", "/a b"),
        ("GET", "/a\r\nX: y"),
        ("GET", "a"),
        ("GET", "*"),
        ("GET", "http://b/"),
        ("GET", "/ä"),
        ("GET x", "/"),
        ("", "/"),
    ],
)
def test_request_line_that_would_be_another_is_not_sent(method: str, target: str) -> None:
    got = asked(OK, HttpRequest(method, "http", "a", target, [], "2"), HEADERS)
    assert isinstance(got.error, BadMessage)
    assert got.sent == b""


def test_framing_of_the_client_does_not_go_on() -> None:
    bad = [(b"Content-Length", b"9"), (b"Transfer-Encoding", b"gzip"), (b"Connection", b"close")]
    bad += [(b"Expect", b"100-continue"), (b"Upgrade", b"h2c")]
    got = asked(OK, request("POST", BufferedBody([b"abc"])), HEADERS + bad)
    assert got.sent.endswith(b"X-A: 1\r\nContent-Length: 3\r\n\r\nabc")


@pytest.mark.parametrize("parts", [[b"ab"], [b"abcd"]])
@pytest.mark.parametrize("length", [3, 100_000])
def test_body_of_another_length_than_announced_is_not_sent_as_one(
    parts: list[bytes], length: int
) -> None:
    async def play(pair: Pair) -> None:
        body = BufferedBody([part * (length // 3) for part in parts])
        body.length = length
        with pytest.raises(BadMessage, match="than announced"):
            await pair.upstream.send(request("POST", body), HEADERS)
        sent = b""
        with contextlib.suppress(ConnLost):
            while data := await pair.server.read():
                sent += data
        assert len(sent.partition(b"\r\n\r\n")[2]) < length

    played(play)


@for_each(
    ("raw", "body", "is_reusable"),
    [
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", b"", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: y\r\n\r\n" + OK, b"ok", True),
        (OK + b"HTTP/1.1 200 OK\r\n", b"ok", False),
    ],
)
def test_answer_is_read_and_the_connection_kept_where_it_can_be(
    raw: bytes, body: bytes, is_reusable: bool
) -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(raw)
        response = await pair.upstream.send(request(), HEADERS)
        assert await whole(response.body) == body
        assert pair.upstream.is_reusable is is_reusable

    played(play)


def test_answer_without_a_length_goes_to_the_end() -> None:
    got = asked(b"HTTP/1.1 200 OK\r\n\r\nall of\r\n\r\nthis")
    assert (got.body, got.is_reusable) == (b"all of\r\n\r\nthis", False)


def test_head_answer_has_no_body_whatever_it_announces() -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        response = await pair.upstream.send(request("HEAD"), HEADERS)
        assert await whole(response.body) == b""
        assert pair.upstream.is_reusable

    played(play)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"",
    ],
)
def test_answer_that_breaks_off_is_lost(raw: bytes) -> None:
    got = asked(raw)
    assert isinstance(got.error, ConnLost)
    assert not got.error.is_stale
    assert not got.is_reusable


def test_long_body_streams_and_the_connection_is_used_again() -> None:
    async def play(pair: Pair) -> None:
        for length in (None, 300_000):
            body = Stream(length)
            for part in (b"a" * 100_000, b"b" * 200_000, b""):
                body.put(part)
            sending = asyncio.create_task(pair.upstream.send(request("POST", body), HEADERS))
            end = b"b\r\n0\r\n\r\n" if length is None else b"b" * 200_000
            sent = await pair.until(end)
            assert (b"Content-Length: 300000\r\n" in sent) is (length is not None)
            await pair.server.write(OK)
            assert await whole((await sending).body) == b"ok"
            assert pair.upstream.is_reusable

    played(play)


def test_trailers_go_on_after_the_last_chunk() -> None:
    async def play(pair: Pair) -> None:
        body = Stream()
        body.trailers = [(b"X-Sum", b"1"), (b"Authorization", b"x")]
        body.put(b"hi")
        body.put(b"")
        sending = asyncio.create_task(pair.upstream.send(request("POST", body), HEADERS))
        sent = await pair.until(b"X-Sum: 1\r\n\r\n")
        assert sent.endswith(b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n")
        await pair.server.write(OK)
        await sending

    played(play)


def test_early_no_stops_the_body() -> None:
    async def play(pair: Pair) -> None:
        body = Stream()
        body.put(b"first")
        sending = asyncio.create_task(pair.upstream.send(request("POST", body), HEADERS))
        await pair.until(b"first")
        await pair.server.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        response = await sending
        assert (response.status, await whole(response.body)) == (413, b"no")
        body.put(b"more")
        await asyncio.sleep(0.05)
        assert not pair.upstream.is_reusable
        pair.upstream.close()
        assert await pair.server.read() == b""

    played(play)


def test_answer_can_begin_while_the_body_still_comes() -> None:
    async def play(pair: Pair) -> None:
        body = Stream()
        body.put(b"one")
        sending = asyncio.create_task(pair.upstream.send(request("POST", body), HEADERS))
        await pair.until(b"one")
        await pair.server.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        response = await sending
        body.put(b"two")
        await pair.until(b"two")
        await pair.server.write(b"3\r\ntwo\r\n0\r\n\r\n")
        assert await whole(response.body) == b"two"
        assert not pair.upstream.is_reusable

    played(play)


@pytest.mark.parametrize("error", [ConnLost("the client is gone"), BadMessage(400, "bad chunks")])
def test_body_that_breaks_off_is_never_a_whole_request(error: Exception) -> None:
    async def play(pair: Pair) -> None:
        body = Stream()
        body.put(b"half")
        body.put(error)
        with pytest.raises(type(error), match=str(error)):
            await pair.upstream.send(request("POST", body), HEADERS)
        with pytest.raises(ConnLost):
            sent = b""
            while data := await pair.server.read():
                sent += data
        assert b"0\r\n\r\n" not in sent

    played(play)


def test_server_that_stops_reading_and_says_why_is_heard() -> None:
    async def play(pair: Pair) -> None:
        body = Stream(50 << 20)
        body.put(bytes(1 << 20))
        sending = asyncio.create_task(pair.upstream.send(request("POST", body), HEADERS))
        await pair.until(b"\r\n\r\n")
        await pair.server.write(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
        assert await whole((await sending).body) == b"no"

    played(play)


def test_kept_connection_that_the_server_closed_is_stale() -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(OK)
        await whole((await pair.upstream.send(request(), HEADERS)).body)
        assert pair.upstream.is_reusable
        await pair.until(b"\r\n\r\n")
        pair.server.close()
        with pytest.raises(ConnLost) as caught:
            await pair.upstream.send(request(), HEADERS)
        assert caught.value.is_stale

    played(play)


def test_closed_connection_is_seen_before_it_is_used() -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(OK)
        await whole((await pair.upstream.send(request(), HEADERS)).body)
        pair.server.close()
        await asyncio.sleep(0.05)
        assert not pair.upstream.is_reusable

    played(play)


def test_connection_that_fails_midway_is_not_stale() -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(OK)
        await whole((await pair.upstream.send(request(), HEADERS)).body)
        await pair.server.write(b"HTTP/1.1 200")
        pair.server.write_eof()
        with pytest.raises(ConnLost) as caught:
            await pair.upstream.send(request(), HEADERS)
        assert not caught.value.is_stale

    played(play)


def test_server_that_never_answers_is_given_up_and_not_asked_again() -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(OK)
        await whole((await pair.upstream.send(request(), HEADERS)).body)
        with pytest.raises(ConnIdle) as caught:
            await pair.upstream.send(request(), HEADERS)
        assert not caught.value.is_stale
        assert not pair.upstream.is_reusable

    played(play, idle_s=0.2)


def test_connection_in_use_is_not_used_again() -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok")
        await pair.upstream.send(request(), HEADERS)
        assert not pair.upstream.is_reusable
        with pytest.raises(ConnLost, match="cannot be used"):
            await pair.upstream.send(request(), HEADERS)

    played(play)


def test_agreed_change_of_protocol_hands_the_connection_over() -> None:
    async def play(pair: Pair) -> None:
        head = b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"
        await pair.server.write(head + b"frame")
        asking = request(upgrade="websocket")
        response = await pair.upstream.send(asking, [*HEADERS, (b"Upgrade", b"websocket")])
        assert response.status == 101
        assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in await pair.until(b"\r\n\r\n")
        assert await pair.upstream.take_over().read() == b"frame"
        assert not pair.upstream.is_reusable

    played(play)


def test_change_to_another_protocol_than_asked_for_is_refused() -> None:
    async def play(pair: Pair) -> None:
        await pair.server.write(b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        with pytest.raises(BadMessage):
            await pair.upstream.send(request(upgrade="websocket"), HEADERS)

    played(play)


def test_request_that_is_given_up_ends_the_connection() -> None:
    async def play(pair: Pair) -> None:
        body = Stream()
        sending = asyncio.create_task(pair.upstream.send(request("POST", body), HEADERS))
        await pair.until(b"\r\n\r\n")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert await pair.server.read() == b""
        assert not pair.upstream.is_reusable

    played(play)
