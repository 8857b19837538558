"""Heads that differ in their first line only are read once, and never read otherwise than alone."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.doors.network.exchange import BadMessage, Headers
from paddock.doors.network.http1.messages import LastHead, known, parse_request

REST = b"Host: a.example\r\nAccept: */*\r\n\r\n"
LINES = st.sampled_from(
    [
        b"GET / HTTP/1.1",
        b"GET /b?c=d HTTP/1.1",
        b"GET /b HTTP/1.0",
        b"POST /b HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET * HTTP/1.1",
        b"GET http://a.example/x HTTP/1.1",
        b"GET http://a@b/x HTTP/1.1",
        b"CONNECT a.example:443 HTTP/1.1",
        b"GET /\x00 HTTP/1.1",
        b"GET /a\nb HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"GET /a#b HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b"GET /",
        b"BREW / HTTP/1.1",
        b"get / HTTP/1.1",
    ]
)
RESTS = st.sampled_from(
    [
        REST,
        b"Host: a.example\r\nContent-Length: 5\r\n\r\n",
        b"Host: a.example\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"Host: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"Host: a.example\r\nX: \x00\r\n\r\n",
        b"Host: a.example\r\n folded\r\n\r\n",
    ]
)


def read(last: LastHead | None, block: bytes) -> object:
    try:
        line, fields = parse_request(block) if last is None else last.parse(block)
    except BadMessage as error:
        return error.status
    length = "bad"
    with contextlib.suppress(BadMessage):
        length = str(fields.body_length(line.version))
    return line, list(fields.headers), fields.one(b"host"), length, fields.keeps_alive("1.1")


@given(st.lists(st.tuples(LINES, RESTS), min_size=1, max_size=6))
def test_a_head_is_read_the_same_whatever_came_before_it(heads: list[tuple[bytes, bytes]]) -> None:
    last = LastHead()
    for line, rest in heads:
        block = line + b"\r\n" + rest
        assert read(last, block) == read(None, block)


@given(st.binary(max_size=12))
def test_no_target_slips_through_behind_a_good_one(target: bytes) -> None:
    last = LastHead()
    last.parse(b"GET / HTTP/1.1\r\n" + REST)
    block = b"GET /" + target + b" HTTP/1.1\r\n" + REST
    assert read(last, block) == read(None, block)


def test_what_is_known_of_headers_is_found_out_once_while_they_repeat() -> None:
    asked: list[Headers] = []

    def count(headers: Headers) -> int:
        asked.append(headers)
        return len(headers)

    last = LastHead()
    for path in (b"/a", b"/b", b"/c"):
        _, fields = last.parse(b"GET " + path + b" HTTP/1.1\r\n" + REST)
        assert known(fields.headers, count) == 2
    assert len(asked) == 1


def test_headers_of_another_kind_are_asked_about_each_time() -> None:
    headers = [(b"a", b"b")]
    assert [known(headers, len), known([*headers, *headers], len)] == [1, 2]


@pytest.mark.parametrize("more", [b"X-A: 1\r\n", b"Cookie: a=b\r\n"])
def test_one_header_more_is_noticed(more: bytes) -> None:
    last = LastHead()
    last.parse(b"GET / HTTP/1.1\r\n" + REST)
    _, fields = last.parse(b"GET / HTTP/1.1\r\n" + more + REST)
    assert len(fields.headers) == 3
