"""The client side of HTTP/2, against hypercorn and against servers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, RstStreamFrame

from cases import for_each
from paddock.doors.network.exchange import (
    BadMessage,
    BufferedBody,
    Headers,
    HttpExchange,
    HttpRequest,
    Response,
)
from paddock.doors.network.http2.client import CONNECTION_WINDOW, STREAM_WINDOW, Http2Client
from paddock.doors.network.transport.stream import ConnLost
from unit.doors.network.http2_peers import WAIT_S, dialled, listening, serving, until, upstream_to

Answer = Callable[[h2.connection.H2Connection, Any], Any]


def get(target: str = "/", method: str = "GET", **more: Any) -> HttpRequest:
    return HttpRequest(method, "http", "svc.example", target, [], "2", **more)


async def all_of(response: Response) -> bytes:
    parts = []
    while data := await response.body.read():
        parts.append(data)
    return b"".join(parts)


class Waiting:
    """A body whose parts come when the test says so."""

    length = None
    trailers: Headers = []  # noqa: RUF012

    def __init__(self) -> None:
        self.parts: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    async def read(self) -> bytes:
        part = await asyncio.wait_for(self.parts.get(), WAIT_S)
        if isinstance(part, Exception):
            raise part
        return part


@contextlib.asynccontextmanager
async def scripted(answer: Answer) -> AsyncIterator[int]:
    """A server that does with each event what the test says. Bytes that `answer` returns are
    written as they are."""

    async def accept(sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock)
        config = h2.config.H2Configuration(
            client_side=False, header_encoding=None, validate_outbound_headers=False
        )
        protocol = h2.connection.H2Connection(config)
        protocol.initiate_connection()
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            while True:
                writer.write(protocol.data_to_send())
                if not (data := await reader.read(65536)):
                    break
                for event in protocol.receive_data(data):
                    raw = answer(protocol, event)
                    writer.write(protocol.data_to_send())
                    writer.write(raw or b"")

    async with listening(accept) as port:
        yield port


def with_server(answer: Answer, talk: Callable[[Http2Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with scripted(answer) as port, upstream_to(port) as upstream, asyncio.timeout(60):
            return await talk(upstream)

    return asyncio.run(run())


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Echoes what is posted, as it comes."""
    if scope["type"] == "lifespan":
        return
    about = f"{scope['http_version']} {scope['method']} {scope['raw_path'].decode()}"
    headers = [(b"x-about", about.encode()), (b"x-host", dict(scope["headers"]).get(b"host", b""))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while True:
        event = await receive()
        if event["type"] != "http.request":
            return
        is_more = event.get("more_body", False)
        await send({"type": "http.response.body", "body": event["body"], "more_body": is_more})
        if not is_more:
            return


@contextlib.asynccontextmanager
async def hypercorn_port() -> AsyncIterator[int]:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        config = Config()
        config.bind = [f"fd://{sock.fileno()}"]
        config.accesslog = config.errorlog = None
        stop = asyncio.Event()
        server = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))  # type: ignore[arg-type]
        try:
            yield port
        finally:
            stop.set()
            await asyncio.wait_for(server, WAIT_S)
            sock.detach()


def test_hypercorn_gets_the_request_and_its_answer_comes_back() -> None:
    async def run() -> None:
        async with hypercorn_port() as port, upstream_to(port) as upstream:
            response = await upstream.send(get("/a%20b?c"), [(b"Host", b"other.example")])
            about = dict(response.headers)
            assert (response.status, response.version) == (200, "2")
            assert about[b"x-about"] == b"2 GET /a%20b"
            assert about[b"x-host"] == b"svc.example"
            assert await all_of(response) == b""

    asyncio.run(run())


def test_large_bodies_pass_both_ways_at_a_time() -> None:
    async def run() -> None:
        async with hypercorn_port() as port, upstream_to(port) as upstream:

            async def post(number: int) -> None:
                sent = [bytes([number]) * 50_000] * 40
                request = get(method="POST", body=BufferedBody(sent))
                response = await upstream.send(request, [])
                assert await all_of(response) == b"".join(sent)

            await asyncio.gather(*(post(number) for number in range(20)))
            assert upstream.is_idle and upstream.has_room

    asyncio.run(run())


def test_answer_begins_before_the_request_has_ended() -> None:
    async def echo(exchange: HttpExchange) -> None:
        await exchange.begin(200, [])
        while data := await exchange.request.body.read():
            await exchange.send(data.upper())
        await exchange.finish(exchange.request.body.trailers)

    async def run() -> None:
        body = Waiting()
        body.trailers = [(b"end", b"yes")]
        async with serving(echo) as port, upstream_to(port) as upstream:
            response = await upstream.send(get(method="POST", body=body), [])
            for word in (b"one", b"two"):
                body.parts.put_nowait(word)
                assert await response.body.read() == word.upper()
            body.parts.put_nowait(b"")
            assert await response.body.read() == b""
            assert response.body.trailers == [(b"end", b"yes")]
            await asyncio.sleep(0)
            assert upstream.is_idle

    asyncio.run(run())


def test_answer_that_nobody_reads_stops_at_its_window() -> None:
    sent = 0

    async def endless(exchange: HttpExchange) -> None:
        nonlocal sent
        await exchange.begin(200, [])
        while True:
            await exchange.send(bytes(65536))
            sent += 65536

    async def run() -> None:
        async with serving(endless) as port, upstream_to(port) as upstream:
            response = await upstream.send(get(), [])
            await until(lambda: upstream._opened().window_left <= CONNECTION_WINDOW - STREAM_WINDOW)
            await asyncio.sleep(0.2)
            assert sent <= STREAM_WINDOW
            assert len(await response.body.read()) <= 65536
            response.body.cancel()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_cancelled_answer_reaches_the_server() -> None:
    ended = asyncio.Event()

    async def endless(exchange: HttpExchange) -> None:
        await exchange.begin(200, [])
        try:
            while True:
                await exchange.send(bytes(65536))
        finally:
            ended.set()

    async def run() -> None:
        async with serving(endless) as port, upstream_to(port) as upstream:
            response = await upstream.send(get(), [])
            response.body.cancel()  # type: ignore[attr-defined]
            await asyncio.wait_for(ended.wait(), WAIT_S)
            with pytest.raises(ConnLost):
                await response.body.read()
            assert upstream.is_idle and upstream.has_room

    asyncio.run(run())


def test_cancelled_wait_for_an_answer_reaches_the_server() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never(exchange: HttpExchange) -> None:
        begun.set()
        try:
            await asyncio.sleep(WAIT_S)
        finally:
            ended.set()

    async def run() -> None:
        async with serving(never) as port, upstream_to(port) as upstream:
            asking = asyncio.create_task(upstream.send(get(), []))
            await asyncio.wait_for(begun.wait(), WAIT_S)
            asking.cancel()
            await asyncio.wait_for(ended.wait(), WAIT_S)
            assert upstream.is_idle

    asyncio.run(run())


@pytest.mark.parametrize("error", [ConnLost("gone"), BadMessage(400, "bad"), ValueError("bug")])
def test_half_a_request_never_looks_whole(error: Exception) -> None:
    seen: list[str] = []
    begun, ended = asyncio.Event(), asyncio.Event()

    async def look(exchange: HttpExchange) -> None:
        begun.set()
        try:
            while await exchange.request.body.read():
                pass
            seen.append("whole")
        finally:
            ended.set()

    async def run() -> None:
        body = Waiting()
        body.parts.put_nowait(b"half")
        async with serving(look) as port, upstream_to(port) as upstream, asyncio.timeout(60):
            asking = asyncio.create_task(upstream.send(get(method="POST", body=body), []))
            await begun.wait()
            body.parts.put_nowait(error)
            with pytest.raises((ConnLost, BadMessage)):
                await asking
            assert upstream.has_room
            await ended.wait()

    asyncio.run(run())
    assert not seen


def test_streams_that_the_leaving_server_did_not_see_can_be_sent_again() -> None:
    def answer(protocol: Any, event: Any) -> bytes | None:
        if not isinstance(event, h2.events.RequestReceived) or event.stream_id != 3:
            return None
        protocol.send_headers(1, [(b":status", b"200")])
        protocol.send_data(1, b"whole", end_stream=True)
        return GoAwayFrame(last_stream_id=1).serialize()

    async def talk(upstream: Http2Client) -> None:
        first = asyncio.create_task(upstream.send(get("/1"), []))
        await asyncio.sleep(0.01)
        with pytest.raises(ConnLost) as caught:
            await upstream.send(get("/2"), [])
        assert getattr(caught.value, "is_stale", False)
        assert not upstream.has_room
        assert await all_of(await first) == b"whole"

    with_server(answer, talk)


def test_answers_go_on_after_the_server_says_that_it_leaves() -> None:
    def answer(protocol: Any, event: Any) -> bytes | None:
        if not isinstance(event, h2.events.RequestReceived):
            return None
        protocol.send_headers(1, [(b":status", b"200")])
        goodbye = GoAwayFrame(last_stream_id=1).serialize()
        rest = DataFrame(1, data=b"late", flags=["END_STREAM"]).serialize()
        return goodbye + rest

    async def talk(upstream: Http2Client) -> None:
        response = await upstream.send(get(), [])
        assert await all_of(response) == b"late"
        assert not upstream.is_reusable
        with pytest.raises(ConnLost) as caught:
            await upstream.send(get(), [])
        assert caught.value.is_stale  # type: ignore[attr-defined]

    with_server(answer, talk)


@pytest.mark.parametrize(("code", "is_stale"), [(7, True), (2, False), (8, False)])
def test_only_a_refused_stream_counts_as_not_processed(code: int, is_stale: bool) -> None:
    def answer(protocol: Any, event: Any) -> bytes | None:
        if isinstance(event, h2.events.RequestReceived):
            return RstStreamFrame(event.stream_id, error_code=code).serialize()
        return None

    async def talk(upstream: Http2Client) -> None:
        with pytest.raises(ConnLost) as caught:
            await upstream.send(get(), [])
        assert getattr(caught.value, "is_stale", False) is is_stale
        assert upstream.has_room

    with_server(answer, talk)


def _status(headers: Headers, data: bytes | None = None) -> Answer:
    def answer(protocol: Any, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            protocol.send_headers(event.stream_id, headers, end_stream=data is None)
            if data is not None:
                protocol.send_data(event.stream_id, data, end_stream=True)

    return answer


OK = (b":status", b"200")


@for_each(
    "headers",
    [
        [(b"content-type", b"text/html")],
        [(b":status", b"2e2")],
        [(b":status", b"+20")],
        [OK, (b":path", b"/")],
        [OK, (b"x", b"a\r\nset-cookie: b")],
        [OK, (b"x y", b"a")],
        [OK, (b"content-length", b"5")],
        [OK, (b"content-length", b"0005 ")],
    ],
    ids=str,
)
def test_answer_that_is_no_answer_is_refused_and_the_connection_lives(headers: Headers) -> None:
    async def talk(upstream: Http2Client) -> None:
        with pytest.raises((BadMessage, ConnLost)):
            await upstream.send(get(), [])

    with_server(_status(headers), talk)


def test_answer_shorter_than_announced_is_no_whole_answer() -> None:
    def answer(protocol: Any, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            protocol.send_headers(1, [OK, (b"content-length", b"9")])
            protocol.send_data(1, b"half")
            protocol.send_headers(1, [(b"end", b"1")], end_stream=True)

    async def talk(upstream: Http2Client) -> None:
        with pytest.raises((BadMessage, ConnLost)):
            await all_of(await upstream.send(get(), []))

    with_server(answer, talk)


@pytest.mark.parametrize(("method", "status"), [("HEAD", b"200"), ("GET", b"304")])
def test_answer_without_a_body_may_have_a_length(method: str, status: bytes) -> None:
    async def talk(upstream: Http2Client) -> None:
        response = await upstream.send(get(method=method), [])
        assert (b"content-length", b"500") in response.headers
        assert await all_of(response) == b""

    with_server(_status([(b":status", status), (b"content-length", b"500")]), talk)


def test_interim_answers_are_passed_over() -> None:
    def answer(protocol: Any, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            protocol.send_headers(1, [(b":status", b"103"), (b"link", b"x")])
            protocol.send_headers(1, [OK], end_stream=True)

    async def talk(upstream: Http2Client) -> None:
        response = await upstream.send(get(), [])
        assert (response.status, response.headers) == (200, [])

    with_server(answer, talk)


def test_headers_of_http1_connections_do_not_pass() -> None:
    seen: list[Any] = []

    async def look(exchange: HttpExchange) -> None:
        seen.extend(exchange.request.headers)
        await exchange.begin(204, [])
        await exchange.finish()

    headers = [
        (b"Connection", b"close"),
        (b"Upgrade", b"h2c"),
        (b"TE", b"trailers"),
        (b"X-A", b" b "),
    ]

    async def run() -> None:
        async with serving(look) as port, upstream_to(port) as upstream:
            assert (await upstream.send(get(), headers)).status == 204
            with pytest.raises(BadMessage):
                await upstream.send(get(), [(b"x", b"a\nb")])
            assert upstream.is_idle

    asyncio.run(run())
    assert seen == [(b"te", b"trailers"), (b"x-a", b"b")]


def test_server_that_never_answers_is_given_up() -> None:
    async def never(exchange: HttpExchange) -> None:
        await asyncio.sleep(WAIT_S)

    async def run() -> None:
        async with serving(never) as port, upstream_to(port, idle_s=0.2) as upstream:
            with pytest.raises(ConnLost, match="nothing came"):
                await upstream.send(get(), [])

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 400 Bad HttpRequest\r\n\r\n", b"\x00" * 9, b"\xff" * 4096, b""], ids=repr
)
def test_server_that_speaks_something_else_is_left(said: bytes) -> None:
    async def accept(sock: socket.socket) -> None:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(sock, said)
        await asyncio.sleep(0.1)
        sock.close()

    async def run() -> None:
        async with listening(accept) as port, upstream_to(port) as upstream:
            with pytest.raises(ConnLost):
                await upstream.send(get(), [])
            assert not upstream.has_room

    asyncio.run(asyncio.wait_for(run(), 60))


def test_server_says_how_many_requests_it_takes_at_a_time() -> None:
    def answer(protocol: Any, event: Any) -> None:
        from h2.settings import SettingCodes

        if isinstance(event, h2.events.RequestReceived):
            protocol.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})

    async def talk(upstream: Http2Client) -> None:
        asking = asyncio.create_task(upstream.send(get(), []))
        await until(lambda: not upstream.has_room)
        with pytest.raises(ConnLost) as caught:
            await upstream.send(get(), [])
        assert caught.value.is_stale  # type: ignore[attr-defined]
        asking.cancel()

    with_server(answer, talk)


def test_retired_connection_finishes_its_answers_first() -> None:
    may_answer = asyncio.Event()

    async def wait(exchange: HttpExchange) -> None:
        await exchange.begin(200, [])
        await asyncio.wait_for(may_answer.wait(), WAIT_S)
        await exchange.send(b"whole")
        await exchange.finish()

    async def run() -> None:
        async with serving(wait) as port:
            conn = await dialled(port)
            upstream = Http2Client(conn)
            await upstream.open()
            response = await upstream.send(get(), [])
            upstream.retire()
            assert not upstream.is_reusable and not conn.is_closed
            may_answer.set()
            assert await all_of(response) == b"whole"
            assert conn.is_closed

    asyncio.run(run())


def test_closed_connection_leaves_no_task_behind() -> None:
    async def never(exchange: HttpExchange) -> None:
        await asyncio.sleep(WAIT_S)

    async def run() -> None:
        async with serving(never) as port:
            before = asyncio.all_tasks()
            upstream = Http2Client(await dialled(port))
            await upstream.open()
            body = Waiting()
            asking = asyncio.create_task(upstream.send(get(method="POST", body=body), []))
            await asyncio.sleep(0.05)
            upstream.close()
            with pytest.raises(ConnLost):
                await asking
            await asyncio.sleep(0.05)
            ours = {t for t in asyncio.all_tasks() - before if "http2_client" in repr(t.get_coro())}
            assert not ours and upstream._task is not None and upstream._task.done()

    asyncio.run(run())
