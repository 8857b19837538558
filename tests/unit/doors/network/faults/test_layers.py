"""Answers that are spoiled on purpose, as real clients get them over HTTP/1 and HTTP/2."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.doors.network.exchange import Headers, HttpExchange, HttpRequest
from paddock.doors.network.faults.layers import tell_fault, with_fault
from paddock.doors.network.faults.stale_answers import (
    MAX_ANSWER_BYTES,
    MAX_ANSWERS,
    MAX_BYTES,
    EarlierAnswer,
    StaleAnswers,
    replay,
)
from paddock.doors.network.http1 import server as http1
from paddock.doors.network.transport.conn import Conn
from unit.doors.network.http2_peers import WAIT_S, dialled, listening, serving
from unit.doors.network.wires import answered

BODY = json.dumps({"id": "ch_1", "amount": 500, "list": [1, 2, 3]}).encode()
GET = b"GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n"
Handler = Callable[[HttpExchange], Awaitable[None]]


def answering(
    words: dict[str, Any],
    body: bytes = BODY,
    *,
    has_length: bool = True,
    status: int = 200,
    parts: int = 7,
) -> Handler:
    """A server that answers as always, on an exchange that is spoiled."""

    async def handle(exchange: HttpExchange) -> None:
        out = with_fault(exchange, words)
        length = [(b"content-length", b"%d" % len(body))] if has_length else []
        await out.begin(status, [(b"content-type", b"application/json"), *length])
        for start in range(0, len(body), parts):
            await out.send(body[start : start + parts])
        await out.finish()

    return handle


def asked(handler: Handler, version: int, method: str = "GET") -> httpx.Response:
    """What httpx makes of it. Raises what httpx raises."""

    async def accept(sock: Any) -> None:
        await http1.serve(Conn(sock), handler, scheme="http")

    async def run() -> httpx.Response:
        server = listening(accept) if version == 1 else serving(handler)
        client = httpx.AsyncClient(http1=version == 1, http2=version == 2, timeout=WAIT_S)
        async with server as port, client, asyncio.timeout(2 * WAIT_S):
            return await client.request(method, f"http://127.0.0.1:{port}/a")

    return asyncio.run(run())


both = pytest.mark.parametrize("version", [1, 2])
framings = pytest.mark.parametrize("has_length", [True, False])


@both
@framings
def test_an_answer_without_words_is_not_spoiled(version: int, has_length: bool) -> None:
    response = asked(answering({}, has_length=has_length), version)
    assert (response.status_code, response.content) == (200, BODY)


@both
@framings
@pytest.mark.parametrize("truncate", [0, 1, 10, 0.5, 0.99, 10**6])
def test_a_client_sees_that_a_truncated_answer_is_not_whole(
    version: int, has_length: bool, truncate: int | float
) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        asked(answering({"truncate": truncate}, has_length=has_length), version)


@pytest.mark.parametrize(("truncate", "left"), [(0, 0), (10, 10), (0.5, len(BODY) // 2),
                                                (10**6, len(BODY) - 1)])  # fmt: skip
def test_what_is_left_arrives_and_the_announced_length_stays(
    truncate: int | float, left: int
) -> None:
    head, _, body = answered(GET, answering({"truncate": truncate})).partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(BODY) in head
    assert body == BODY[:left]


@pytest.mark.parametrize(("truncate", "left"), [(10, 10), (0.5, len(BODY) // 2),
                                                (10**6, len(BODY) - 1)])  # fmt: skip
def test_a_chunked_answer_loses_its_end_and_its_last_chunk(
    truncate: int | float, left: int
) -> None:
    raw = answered(GET, answering({"truncate": truncate}, has_length=False))
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert not body.endswith(b"0\r\n\r\n")
    lines = body.split(b"\r\n")
    assert b"".join(lines[1::2]) == BODY[:left]


def test_no_second_request_is_answered_behind_a_truncated_answer() -> None:
    raw = answered(GET + GET, answering({"truncate": 3}))
    assert raw.count(b"HTTP/1.1 200") == 1


@both
@pytest.mark.parametrize(("method", "status", "body"), [("HEAD", 200, BODY), ("GET", 204, b""),
                                                        ("GET", 200, b"")])  # fmt: skip
def test_an_answer_without_a_body_cannot_be_truncated(
    version: int, method: str, status: int, body: bytes
) -> None:
    handler = answering({"truncate": 0.5}, body, status=status, has_length=status != 204)
    response = asked(handler, version, method)
    assert (response.status_code, response.content) == (status, b"")


@both
@framings
@pytest.mark.parametrize("body", [BODY, b"[]", b"3", b'"a{b"', b"", b'\n  {"a": 1}\n'])
def test_a_malformed_answer_is_whole_and_no_json(
    version: int, has_length: bool, body: bytes
) -> None:
    response = asked(answering({"malformed": True}, body, has_length=has_length), version)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    with pytest.raises(json.JSONDecodeError):
        response.json()


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    ),
    st.integers(1, 9),
)
def test_however_it_is_parted_a_malformed_answer_is_no_json(value: Any, size: int) -> None:
    out = _Sink()

    async def run() -> None:
        handler = answering(
            {"malformed": True}, json.dumps(value).encode(), has_length=False, parts=size
        )
        await handler(out)  # type: ignore[arg-type]

    asyncio.run(run())
    with pytest.raises(json.JSONDecodeError):
        json.loads(bytes(out.body))


def test_an_event_of_a_malformed_stream_is_no_json() -> None:
    events = b'data: {"a": 1}\n\ndata: [DONE]\n\n'
    response = asked(answering({"malformed": True}, events, has_length=False), 1)
    assert response.text.splitlines()[0] == 'data: {,"a": 1}'


@both
def test_an_answer_of_the_wrong_type_has_the_right_body(version: int) -> None:
    response = asked(answering({"wrong_type": "text/html"}), version)
    assert response.headers.get_list("content-type") == ["text/html"]
    assert response.content == BODY


@both
def test_an_answer_that_drips_arrives_whole(version: int) -> None:
    response = asked(answering({"drip": 400}), version)
    assert response.content == BODY


def test_a_client_that_does_not_wait_for_a_drip_ends_it() -> None:
    ended = asyncio.Event()
    slow = answering({"drip": 1}, BODY * 1000, parts=10**6)

    async def handle(exchange: HttpExchange) -> None:
        try:
            await slow(exchange)
        finally:
            ended.set()

    async def run() -> None:
        async def accept(sock: Any) -> None:
            await http1.serve(Conn(sock), handle, scheme="http")

        async with listening(accept) as port, asyncio.timeout(WAIT_S):
            conn = await dialled(port)
            await conn.write(GET)
            await conn.read()
            conn.abort()
            await ended.wait()

    asyncio.run(run())


@both
def test_words_that_spoil_go_together(version: int) -> None:
    words = {"malformed": True, "wrong_type": "text/html", "drip": 2000}
    response = asked(answering(words), version)
    assert response.headers["content-type"] == "text/html"
    assert response.content == BODY.replace(b"{", b"{,", 1)


@both
def test_a_lost_answer_is_a_reset_though_the_server_has_answered(version: int) -> None:
    done: list[str] = []

    async def handle(exchange: HttpExchange) -> None:
        await answering({"after": "reset"})(exchange)
        done.append(exchange.request.method)

    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        asked(handle, version, "POST")
    assert done == ["POST"]


@both
@pytest.mark.parametrize(("after", "status"), [(504, 504), ("error", 500)])
def test_a_lost_answer_can_be_an_error_with_its_own_words(
    version: int, after: int | str, status: int
) -> None:
    words = {"after": after, "retry_after": 1.2, "error": "gateway"}
    response = asked(answering(words), version, "POST")
    assert response.status_code == status
    assert response.headers["retry-after"] == "2"
    assert response.json()["error"]["message"] == "gateway"
    assert b"ch_1" not in response.content


@both
def test_a_lost_answer_can_be_silence(version: int) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        asked(answering({"after": "timeout", "timeout": 0.3}), version)


@both
def test_silence_ends_when_its_client_is_gone(version: int) -> None:
    ended = asyncio.Event()
    silent = answering({"after": "timeout", "timeout": 3000.0})

    async def handle(exchange: HttpExchange) -> None:
        try:
            await silent(exchange)
        finally:
            ended.set()

    async def accept(sock: Any) -> None:
        await http1.serve(Conn(sock), handle, scheme="http")

    async def run() -> None:
        server = listening(accept) if version == 1 else serving(handle)
        async with server as port, asyncio.timeout(2 * WAIT_S):
            async with httpx.AsyncClient(http1=version == 1, http2=version == 2) as client:
                with pytest.raises(httpx.ReadTimeout):
                    await client.get(f"http://127.0.0.1:{port}/a", timeout=0.4)
            await ended.wait()

    asyncio.run(run())


def telling(words: dict[str, Any]) -> Handler:
    async def handle(exchange: HttpExchange) -> None:
        await tell_fault(exchange, words)

    return handle


@both
def test_a_fault_in_place_of_an_answer_looks_like_one_of_the_service(version: int) -> None:
    response = asked(telling({"id": "x", "status": 429, "retry_after": 2.0}), version)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "2"
    assert response.json()["error"]["type"] == "rate_limit_error"
    assert "paddock" not in str(response.headers)


@both
def test_headers_and_body_are_as_the_file_says(version: int) -> None:
    words = {"status": 503, "headers": {"X-Id": "7", "Content-Type": "a/b"}, "body": {"down": True}}
    response = asked(telling(words), version)
    assert (response.headers["x-id"], response.headers["content-type"]) == ("7", "a/b")
    assert response.json() == {"down": True}
    plain = asked(telling({"status": 503, "body": "<h1>down</h1>"}), version)
    assert plain.headers["content-type"].startswith("text/plain")


@both
def test_an_error_to_head_has_no_body(version: int) -> None:
    response = asked(telling({"status": 503}), version, "HEAD")
    assert (response.status_code, response.content) == (503, b"")


@both
@pytest.mark.parametrize("words", [{"reset": True}, {"timeout": 0.3}])
def test_no_answer_is_an_error_of_the_connection(version: int, words: dict[str, Any]) -> None:
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        asked(telling(words), version)


def test_another_stream_of_the_connection_does_not_suffer() -> None:
    async def handle(exchange: HttpExchange) -> None:
        words = {"truncate": 3} if exchange.request.target == "/bad" else {}
        await answering(words)(exchange)

    async def run() -> bytes:
        client = httpx.AsyncClient(http1=False, http2=True, timeout=WAIT_S)
        async with serving(handle) as port, client:
            base = f"http://127.0.0.1:{port}"
            await client.get(f"{base}/good")
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(f"{base}/bad")
            return (await client.get(f"{base}/good")).content

    assert asyncio.run(run()) == BODY


class _Sink:
    """An exchange that only remembers."""

    def __init__(self, method: str = "GET", headers: Headers | None = None) -> None:
        self.request = HttpRequest(method, "https", "a.example", "/x", headers or [], "1.1")
        self.status = 0
        self.headers: Headers = []
        self.body = bytearray()

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        self.status, self.headers = status, headers

    async def send(self, data: bytes) -> None:
        self.body += data

    async def finish(self, trailers: Headers | None = None) -> None:
        pass


def learn(answers: StaleAnswers, body: bytes, status: int = 200, **more: Any) -> None:
    sink: Any = _Sink(**more)

    async def run() -> None:
        out = answers.learning(sink, "a.example:443")
        await out.begin(status, [(b"x-a", b"b")])
        await out.send(body[:3])
        await out.send(body[3:])
        await out.finish()

    asyncio.run(run())


def earlier(
    answers: StaleAnswers, place: str = "a.example:443", **more: Any
) -> EarlierAnswer | None:
    return answers.earlier(_Sink(**more).request, place)


def test_the_last_answer_to_the_same_read_is_the_earlier_one() -> None:
    answers = StaleAnswers()
    assert earlier(answers) is None
    learn(answers, b"first")
    learn(answers, b"second")
    found = earlier(answers)
    assert found is not None
    assert (found.status, found.body) == (200, b"second")


def test_another_place_account_or_method_is_another_read() -> None:
    answers = StaleAnswers()
    learn(answers, b"first")
    assert earlier(answers, "b.example:443") is None
    assert earlier(answers, headers=[(b"Authorization", b"Bearer b")]) is None
    assert earlier(answers, method="HEAD") is None


def test_only_whole_answers_to_reads_are_kept() -> None:
    answers = StaleAnswers()
    learn(answers, b"first", 500)
    learn(answers, b"part", 206)
    learn(answers, b"write", method="POST")
    learn(answers, b"x" * (MAX_ANSWER_BYTES + 1))
    assert earlier(answers) is None
    assert earlier(answers, method="POST") is None
    learn(answers, b"gone", 404)
    assert earlier(answers) is not None


@pytest.mark.parametrize("size", [10, MAX_ANSWER_BYTES])
def test_what_is_kept_is_bounded(size: int) -> None:
    answers = StaleAnswers()
    kept = EarlierAnswer(200, [], b"x" * size)
    for number in range(2 * MAX_ANSWERS):
        answers.keep(("GET", "a", str(number), ()), kept)
    assert len(answers._kept) <= MAX_ANSWERS
    assert sum(len(one.body) for one in answers._kept.values()) == answers._size <= MAX_BYTES
    assert ("GET", "a", str(2 * MAX_ANSWERS - 1), ()) in answers._kept


@both
def test_a_kept_answer_is_given_again_as_it_was(version: int) -> None:
    kept = EarlierAnswer(404, [(b"etag", b'"1"'), (b"content-length", b"99")], BODY)

    async def handle(exchange: HttpExchange) -> None:
        await replay(exchange, kept)

    response = asked(handle, version)
    assert (response.status_code, response.content) == (404, BODY)
    assert response.headers["etag"] == '"1"'
