"""The server side of HTTP/2: what clients get, and what handlers see."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import h2.events
import h2.settings
import httpx
import pytest

from paddock.doors.network.exchange import BadMessage, BufferedBody, HttpExchange, HttpRequest
from paddock.doors.network.http2 import server as http2
from paddock.doors.network.http2.client import Http2Client
from paddock.doors.network.tls.authority import Authority
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost
from unit.doors.network.http2_peers import GET, WAIT_S, RawClient, dialled, listening, serving

POST = [(b":method", b"POST"), *GET[1:]]


async def echo(exchange: HttpExchange) -> None:
    """Answers with what came."""
    body = b""
    while data := await exchange.request.body.read():
        body += data
    length = b"%d" % len(body)
    await exchange.begin(200, [(b"content-length", length), (b"x-method", b"echo")])
    await exchange.send(body)
    await exchange.finish()


def with_raw(
    handler: Callable[[HttpExchange], Awaitable[None]],
    talk: Callable[[RawClient], Awaitable[Any]],
    **more: Any,
) -> Any:
    async def run() -> Any:
        async with serving(handler, **more) as port, asyncio.timeout(60):
            client = await RawClient.dial(port)
            try:
                return await talk(client)
            finally:
                client.close()

    return asyncio.run(run())


async def curl(where: int | str, *words: str) -> bytes:
    """A port means plain HTTP/2 there."""
    if isinstance(where, int):
        words = ("--http2-prior-knowledge", *words)
        where = f"http://127.0.0.1:{where}/a?b=c"
    command = ["curl", "-sS", "--max-time", "20", *words, where]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out


def test_curl_gets_what_it_posted(tmp_path: Path) -> None:
    sent = tmp_path / "body"
    sent.write_bytes(bytes(range(256)) * 20_000)

    async def run() -> bytes:
        async with serving(echo) as port:
            return await curl(port, "--data-binary", f"@{sent}")

    assert asyncio.run(run()) == sent.read_bytes()


@pytest.mark.parametrize("is_curl", [True, False])
def test_tls_carries_large_bodies_both_ways(is_curl: bool, tmp_path: Path) -> None:
    sent = bytes(range(256)) * 12_000
    (tmp_path / "body").write_bytes(sent)
    authority = Authority()
    (tmp_path / "ca").write_bytes(authority.ca_pem)

    async def accept(sock: socket.socket) -> None:
        conn = Conn(sock)
        context = authority.context_for("localhost", alpn=("h2",))
        await conn.start_tls(context, server_side=True)
        await http2.serve(conn, echo, scheme="https")

    async def by_curl(port: int) -> bytes:
        words = ["--http2", "--cacert", f"{tmp_path}/ca", "--data-binary", f"@{tmp_path}/body"]
        return await curl(f"https://localhost:{port}/", *words)

    async def by_upstream(port: int) -> bytes:
        conn = await dialled(port)
        context = ssl.create_default_context(cafile=f"{tmp_path}/ca")
        context.set_alpn_protocols(["h2"])
        await conn.start_tls(context, server_side=False, server_hostname="localhost")
        upstream = Http2Client(conn)
        await upstream.open()
        request = HttpRequest("POST", "https", "localhost", "/", [], "2", body=BufferedBody([sent]))
        response = await upstream.send(request, [])
        got = b""
        while data := await response.body.read():
            got += data
        upstream.close()
        return got

    async def run() -> bytes:
        async with listening(accept) as port, asyncio.timeout(60):
            return await (by_curl(port) if is_curl else by_upstream(port))

    assert asyncio.run(run()) == sent


def test_handler_sees_the_request_as_it_was_sent() -> None:
    seen = []

    async def look(exchange: HttpExchange) -> None:
        seen.append(exchange.request)
        await echo(exchange)

    async def run() -> None:
        async with serving(look) as port:
            await curl(port, "-H", "X-Thing: One", "-A", "me")
            assert seen[0].authority == f"127.0.0.1:{port}"

    asyncio.run(run())
    request = seen[0]
    assert (request.method, request.scheme, request.target) == ("GET", "http", "/a?b=c")
    assert (request.version, request.body.length, request.upgrade) == ("2", 0, None)
    assert sorted(request.headers) == [
        (b"accept", b"*/*"),
        (b"user-agent", b"me"),
        (b"x-thing", b"One"),
    ]


def test_answer_to_head_has_a_length_and_no_body() -> None:
    async def answer(exchange: HttpExchange) -> None:
        await exchange.begin(200, [(b"Content-Length", b"5")])
        await exchange.send(b"hello")
        await exchange.finish()

    async def run() -> bytes:
        async with serving(answer) as port:
            return await curl(port, "-I")

    assert b"content-length: 5" in asyncio.run(run()).lower()


def test_httpx_asks_many_things_at_a_time() -> None:
    async def run() -> list[bytes]:
        client = httpx.AsyncClient(http1=False, http2=True, timeout=WAIT_S)
        async with serving(echo) as port, client:
            url = f"http://127.0.0.1:{port}/"
            asked = (client.post(url, content=b"%d" % n * 5000) for n in range(60))
            answers = await asyncio.gather(*asked)
        assert {one.http_version for one in answers} == {"HTTP/2"}
        return [one.content for one in answers]

    assert asyncio.run(run()) == [b"%d" % n * 5000 for n in range(60)]


def test_head_of_an_answer_is_sent_before_its_body_is_known() -> None:
    has_head = asyncio.Event()

    async def answer(exchange: HttpExchange) -> None:
        await exchange.begin(200, [])
        await asyncio.wait_for(has_head.wait(), WAIT_S)
        await exchange.send(b"late")
        await exchange.finish()

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(GET)
        head = await client.until(h2.events.ResponseReceived, stream_id)
        has_head.set()
        client.events.insert(0, head)
        assert await client.answer(stream_id) == (200, b"late")

    with_raw(answer, talk)


@pytest.mark.parametrize("is_grpc", [True, False])
def test_answer_that_ends_at_once_ends_with_its_head(is_grpc: bool) -> None:
    headers = [(b"grpc-status", b"5")] if is_grpc else []

    async def answer(exchange: HttpExchange) -> None:
        await exchange.begin(200, headers)
        if is_grpc:
            await asyncio.sleep(0.01)
        await exchange.finish()

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(GET)
        head = await client.until(h2.events.ResponseReceived, stream_id)
        assert head.stream_ended is not None

    with_raw(answer, talk)


def test_trailers_follow_the_body() -> None:
    async def answer(exchange: HttpExchange) -> None:
        await exchange.begin(200, [])
        await exchange.send(b"body")
        await exchange.finish([(b"Grpc-Status", b"0")])

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(GET)
        trailers = await client.until(h2.events.TrailersReceived, stream_id)
        assert [tuple(pair) for pair in trailers.headers] == [(b"grpc-status", b"0")]

    with_raw(answer, talk)


def test_trailers_of_a_request_are_known_after_its_end() -> None:
    seen: list[Any] = []

    async def answer(exchange: HttpExchange) -> None:
        while await exchange.request.body.read():
            pass
        seen.extend(exchange.request.body.trailers)
        await exchange.begin(204, [])
        await exchange.finish()

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(POST, is_end=False)
        client.h2.send_data(stream_id, b"body")
        client.h2.send_headers(stream_id, [(b"checksum", b"1")], end_stream=True)
        await client.flush()
        assert (await client.answer(stream_id))[0] == 204

    with_raw(answer, talk)
    assert seen == [(b"checksum", b"1")]


def test_client_that_waits_is_told_once_to_go_on() -> None:
    async def answer(exchange: HttpExchange) -> None:
        assert exchange.request.expects_continue
        await exchange.proceed()
        await exchange.proceed()
        await echo(exchange)

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask([*POST, (b"expect", b"100-continue")], is_end=False)
        await client.until(h2.events.InformationalResponseReceived, stream_id)
        client.h2.send_data(stream_id, b"go", end_stream=True)
        await client.flush()
        assert await client.answer(stream_id) == (200, b"go")
        kinds = [type(event) for event in client.events]
        assert h2.events.InformationalResponseReceived not in kinds

    with_raw(answer, talk)


def test_connection_cannot_be_taken_over() -> None:
    async def answer(exchange: HttpExchange) -> None:
        with pytest.raises(BadMessage):
            exchange.take_over()
        await echo(exchange)

    async def talk(client: RawClient) -> None:
        assert (await client.answer(await client.ask(GET)))[0] == 200

    with_raw(answer, talk)


def test_request_that_is_answered_early_is_told_to_stop() -> None:
    async def answer(exchange: HttpExchange) -> None:
        await exchange.begin(413, [])
        await exchange.finish()

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(POST, is_end=False)
        assert (await client.answer(stream_id))[0] == 413
        reset = await client.until(h2.events.StreamReset, stream_id)
        assert reset.error_code == 0
        assert (await client.answer(await client.ask(POST)))[0] == 413

    with_raw(answer, talk)


@pytest.mark.parametrize("how", ["abort", "short", "long", "left", "bug"])
def test_answer_that_is_not_whole_is_cut_and_others_go_on(how: str) -> None:
    told: list[Exception] = []

    async def answer(exchange: HttpExchange) -> None:
        if exchange.request.target != "/bad":
            return await echo(exchange)
        await exchange.begin(200, [(b"content-length", b"10")])
        await exchange.send(b"hello")
        match how:
            case "abort":
                exchange.abort()
            case "short":
                await exchange.finish()
            case "long":
                await exchange.send(b"hello, hello")
            case "bug":
                raise ValueError("of ours")

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask([*GET[:-1], (b":path", b"/bad")])
        reset = await client.until(h2.events.StreamReset, stream_id)
        assert reset.error_code == 2
        assert (await client.answer(await client.ask(GET)))[0] == 200

    with_raw(answer, talk, faulted=told.append)
    assert (ValueError in map(type, told)) == (how == "bug")


def test_fault_of_a_body_is_answered_when_the_handler_leaves_it() -> None:
    async def answer(exchange: HttpExchange) -> None:
        raise BadMessage(422, "no")

    async def talk(client: RawClient) -> None:
        assert (await client.answer(await client.ask(GET)))[0] == 422

    with_raw(answer, talk)


def test_reset_by_the_client_ends_the_handler() -> None:
    ended = asyncio.Event()

    async def answer(exchange: HttpExchange) -> None:
        try:
            await asyncio.sleep(WAIT_S)
        finally:
            ended.set()

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(GET)
        await asyncio.sleep(0.05)
        client.h2.reset_stream(stream_id, 8)
        await client.flush()
        await asyncio.wait_for(ended.wait(), WAIT_S)

    with_raw(answer, talk)


def test_end_of_the_connection_ends_its_handlers() -> None:
    ended, begun = asyncio.Event(), asyncio.Event()

    async def answer(exchange: HttpExchange) -> None:
        begun.set()
        try:
            await asyncio.sleep(WAIT_S)
        finally:
            ended.set()

    async def talk(client: RawClient) -> None:
        await client.ask(GET)
        await asyncio.wait_for(begun.wait(), WAIT_S)
        client.close()
        await asyncio.wait_for(ended.wait(), WAIT_S)

    with_raw(answer, talk)


def test_body_that_stops_coming_fails_and_the_stream_is_reset() -> None:
    caught = []

    async def answer(exchange: HttpExchange) -> None:
        try:
            while await exchange.request.body.read():
                pass
        except ConnLost as error:
            caught.append(str(error))
            raise

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(POST, is_end=False)
        client.h2.send_data(stream_id, b"some")
        await client.flush()
        await client.until(h2.events.StreamReset, stream_id)

    with_raw(answer, talk, idle_s=0.2)
    assert caught == ["nothing came for 0.2 s"]


def test_handler_may_take_longer_than_a_connection_may_idle() -> None:
    async def answer(exchange: HttpExchange) -> None:
        await asyncio.sleep(2.5)  # limits of a connection are looked at once a second
        await echo(exchange)

    async def talk(client: RawClient) -> None:
        assert (await client.answer(await client.ask(GET)))[0] == 200

    with_raw(answer, talk, idle_s=0.2)


def test_connection_without_streams_ends_when_idle() -> None:
    async def talk(client: RawClient) -> None:
        await client.gone()

    with_raw(echo, talk, idle_s=0.2)


def test_streams_share_the_window_of_a_slow_connection() -> None:
    """The client opens the connection's window by little; each answer must get its part."""
    chunk = b"x" * 20_000

    async def answer(exchange: HttpExchange) -> None:
        await exchange.begin(200, [])
        for _ in range(10):
            await exchange.send(chunk)
        await exchange.finish()

    async def talk(client: RawClient) -> None:
        client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        for _ in range(10):
            await client.ask(GET)
        got: dict[int, int] = dict.fromkeys(range(1, 21, 2), 0)
        while max(got.values()) < 10 * len(chunk):
            data = await asyncio.wait_for(client.reader.read(65536), WAIT_S)
            for event in client.h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived) and event.data:
                    got[event.stream_id] += len(event.data)
                    client.h2.increment_flow_control_window(len(event.data))
            await client.flush()
        assert min(got.values()) > 4 * len(chunk)

    with_raw(answer, talk)


def test_client_that_says_goodbye_still_gets_its_answers() -> None:
    may_answer = asyncio.Event()

    async def answer(exchange: HttpExchange) -> None:
        await asyncio.wait_for(may_answer.wait(), WAIT_S)
        await echo(exchange)

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(GET)
        goodbye = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + bytes(8)
        await client.send_bytes(goodbye)
        await asyncio.sleep(0.05)
        may_answer.set()
        assert (await client.answer(stream_id))[0] == 200

    with_raw(answer, talk)
