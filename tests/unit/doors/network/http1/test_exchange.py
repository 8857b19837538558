"""The states of an answer over HTTP/1, on a stream that a test has written down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.exchange import BadMessage, Headers, HttpRequest
from paddock.doors.network.http1.exchange import _NEXT, AnswerState, Http1Exchange
from paddock.doors.network.transport.stream import ConnLost, ScriptedStream

LENGTH_3 = [(b"content-length", b"3")]


def exchange_on(
    stream: ScriptedStream, method: str = "GET", version: str = "1.1", **more: Any
) -> Http1Exchange:
    request = HttpRequest(method, "http", "a.example", "/", [], version, **more)
    return Http1Exchange(stream, request, None, keeps=True)


async def answer(
    exchange: Http1Exchange, status: int, headers: Headers, *parts: bytes
) -> tuple[bool, bytes]:
    """Return whether there can be another request, and what was written."""
    await exchange.begin(status, headers)
    for part in parts:
        await exchange.send(part)
    await exchange.finish()
    is_kept = await exchange.settle()
    stream = exchange._conn
    assert isinstance(stream, ScriptedStream)
    return is_kept, stream.written


@for_each(
    ("method", "version", "status", "headers", "is_kept", "written"),
    [
        ("GET", "1.1", 200, LENGTH_3, True, b"200 OK\r\nContent-Length: 3\r\n\r\nabc"),
        ("GET", "1.1", 200, [], True,
         b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        ("GET", "1.0", 200, [], False, b"200 OK\r\nConnection: close\r\n\r\nabc"),
        ("GET", "1.0", 200, LENGTH_3, True,
         b"200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc"),
        ("HEAD", "1.1", 200, LENGTH_3, True, b"200 OK\r\nContent-Length: 3\r\n\r\n"),
        ("GET", "1.1", 204, LENGTH_3, True, b"204 No Content\r\n\r\n"),
        ("GET", "1.1", 205, LENGTH_3, True, b"205 Reset Content\r\nContent-Length: 0\r\n\r\n"),
        ("GET", "1.1", 304, LENGTH_3, True, b"304 Not Modified\r\nContent-Length: 3\r\n\r\n"),
    ],
)  # fmt: skip
def test_head_says_how_the_body_is_framed(
    method: str, version: str, status: int, headers: Headers, is_kept: bool, written: bytes
) -> None:
    exchange = exchange_on(ScriptedStream(), method, version)
    told = asyncio.run(answer(exchange, status, headers, b"abc", b""))
    assert told == (is_kept, b"HTTP/1.1 " + written)


def test_table_has_every_state_and_every_answer_can_be_cut() -> None:
    assert set(_NEXT) == set(AnswerState)
    assert all(AnswerState.CUT in following for following in _NEXT.values())
    reached = frozenset().union(*_NEXT.values())
    assert reached == set(AnswerState) - {AnswerState.WAITING}


def test_continue_is_said_once_and_only_before_the_answer() -> None:
    async def play() -> bytes:
        stream = ScriptedStream()
        exchange = exchange_on(stream, expects_continue=True)
        await exchange.proceed()
        await exchange.proceed()
        await exchange.begin(200, LENGTH_3)
        await exchange.proceed()
        return stream.written

    assert asyncio.run(play()) == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_connection_ends_when_the_client_was_not_told_to_send_its_body() -> None:
    exchange = exchange_on(ScriptedStream(), expects_continue=True)
    is_kept, written = asyncio.run(answer(exchange, 403, [(b"content-length", b"0")]))
    assert (is_kept, b"Connection: close" in written) == (False, True)


@for_each("parts", [[b"ab"], [b"abcd"]])
def test_body_of_another_length_than_announced_is_an_error(parts: list[bytes]) -> None:
    with pytest.raises(BadMessage):
        asyncio.run(answer(exchange_on(ScriptedStream()), 200, LENGTH_3, *parts))


STEPS = ("begin", "begin_short", "switch", "send", "finish", "abort", "cut", "break_off", "proceed")


@given(st.lists(st.sampled_from(STEPS), max_size=8))
def test_nothing_is_written_out_of_order(steps: list[str]) -> None:
    """Whatever a handler does: what a client gets is the beginning of one answer, and nothing comes
    after its end."""

    async def step(exchange: Http1Exchange, name: str) -> None:
        match name:
            case "begin":
                await exchange.begin(200, [])
            case "begin_short":
                await exchange.begin(200, LENGTH_3)
            case "switch":
                await exchange.begin(101, [])
            case "send":
                await exchange.send(b"abc")
            case "abort":
                exchange.abort()
            case _:
                await getattr(exchange, name)()

    async def play() -> bytes:
        stream = ScriptedStream()
        exchange = exchange_on(stream)
        for name in steps:
            try:
                await step(exchange, name)
            except (RuntimeError, BadMessage, ConnLost):
                continue
            is_over = exchange._state in (AnswerState.FINISHED, AnswerState.CUT)
            if is_over:
                written = stream.written
                for again in ("begin", "send", "finish"):
                    with pytest.raises((RuntimeError, ConnLost)):
                        await step(exchange, again)
                assert stream.written == written
        return stream.written

    written = asyncio.run(play())
    assert written.count(b"HTTP/1.1 ") <= 1
    assert not written or written.startswith(b"HTTP/1.1 ")
    assert written.count(b"0\r\n\r\n") <= 1
