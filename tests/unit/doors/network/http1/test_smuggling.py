"""Requests and answers that two parsers could read in two ways are refused."""

from __future__ import annotations

import pytest

from cases import for_each
from unit.doors.network.wires import Recorder, answered, asked, seen, status_of

HOST = b"Host: example.com\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SECOND = b"GET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n"

REFUSED = {
    "length and chunks": (
        400,
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "chunks and length": (
        400,
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    ),
    "two lengths": (400, POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    "two equal lengths": (400, POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na"),
    "length list": (400, POST + b"Content-Length: 1, 1\r\n\r\na"),
    "length with plus": (400, POST + b"Content-Length: +1\r\n\r\na"),
    "length with minus": (400, POST + b"Content-Length: -1\r\n\r\na"),
    "length with inner space": (400, POST + b"Content-Length: 1 1\r\n\r\na"),
    "length in hex": (400, POST + b"Content-Length: 0x1\r\n\r\na"),
    "length with underscore": (400, POST + b"Content-Length: 1_0\r\n\r\n0123456789"),
    "length without value": (400, POST + b"Content-Length:\r\n\r\n"),
    "length out of bounds": (400, POST + b"Content-Length: 9999999999999999\r\n\r\n"),
    "length beyond 64 bits": (400, POST + b"Content-Length: 18446744073709551617\r\n\r\na"),
    "length in other digits": (400, POST + "Content-Length: \u0661\r\n\r\na".encode()),
    "unknown coding": (501, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "coding after chunked": (400, POST + b"Transfer-Encoding: chunked, identity\r\n\r\n"),
    "identity": (400, POST + b"Transfer-Encoding: identity\r\n\r\n"),
    "xchunked": (400, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "quoted chunked": (400, POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n'),
    "chunked with vertical tab": (400, POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    "chunked with parameter": (400, POST + b"Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n"),
    "two codings": (400, POST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n"),
    "chunks in 1.0": (
        400,
        b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "folded header": (400, GET + b"X: a\r\n b\r\n\r\n"),
    "folded with tab": (400, GET + b"X: a\r\n\tb\r\n\r\n"),
    "folded first header": (400, b"GET / HTTP/1.1\r\n Host: a\r\nHost: example.com\r\n\r\n"),
    "bare line feeds": (400, b"GET / HTTP/1.1\nHost: example.com\n\n"),
    "one bare line feed": (400, GET + b"X: a\nY: b\r\n\r\n"),
    "bare line feed before the end": (400, GET + b"X: a\n\r\n"),
    "bare carriage return": (400, GET + b"X: a\rY: b\r\n\r\n"),
    "NUL in value": (400, GET + b"X: a\x00b\r\n\r\n"),
    "NUL in name": (400, GET + b"X\x00: a\r\n\r\n"),
    "NUL in target": (400, b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "control in value": (400, GET + b"X: \x1b[0m\r\n\r\n"),
    "DEL in value": (400, GET + b"X: \x7f\r\n\r\n"),
    "space before colon": (400, POST + b"Content-Length : 1\r\n\r\na"),
    "tab before colon": (400, POST + b"Content-Length\t: 1\r\n\r\na"),
    "space in name": (400, GET + b"Content Length: 1\r\n\r\n"),
    "empty name": (400, GET + b": a\r\n\r\n"),
    "no colon": (400, GET + b"Transfer-Encoding chunked\r\n\r\n"),
    "name beyond ASCII": (400, GET + b"X\xe9: a\r\n\r\n"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "empty host": (400, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    "two hosts": (400, GET + b"Host: example.org\r\n\r\n"),
    "the same host twice": (400, GET + HOST + b"\r\n"),
    "host list": (400, b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    "host with user": (400, b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    "host with path": (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "host with backslash": (400, b"GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n"),
    "host beyond ASCII": (400, "GET / HTTP/1.1\r\nHost: bücher.example\r\n\r\n".encode()),
    "space in target": (400, b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "two spaces": (400, b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "tab in line": (400, b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    "space after version": (400, b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n"),
    "target beyond ASCII": (400, b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n"),
    "fragment": (400, b"GET /#a HTTP/1.1\r\n" + HOST + b"\r\n"),
    "relative target": (400, b"GET a HTTP/1.1\r\n" + HOST + b"\r\n"),
    "star without OPTIONS": (400, b"GET * HTTP/1.1\r\n" + HOST + b"\r\n"),
    "absolute target": (400, b"GET http://example.com/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    "CONNECT": (405, b"CONNECT example.com:443 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "unknown method": (501, b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "method in lower case": (501, b"get / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "HTTP/2.0": (505, b"GET / HTTP/2.0\r\n" + HOST + b"\r\n"),
    "HTTP/1.2": (400, b"GET / HTTP/1.2\r\n" + HOST + b"\r\n"),
    "lower-case http": (400, b"GET / http/1.1\r\n" + HOST + b"\r\n"),
    "upgrade with a body": (
        400,
        POST + b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\na",
    ),
    "other expectation": (417, POST + b"Expect: magic\r\nContent-Length: 1\r\n\r\na"),
    "chunk size with sign": (400, CHUNKED + b"+1\r\na\r\n0\r\n\r\n"),
    "chunk size with space": (400, CHUNKED + b"1 \r\na\r\n0\r\n\r\n"),
    "chunk size in 0x": (400, CHUNKED + b"0x1\r\na\r\n0\r\n\r\n"),
    "chunk size out of bounds": (400, CHUNKED + b"10000000000000001\r\na\r\n0\r\n\r\n"),
    "chunk size with line feed": (400, CHUNKED + b"1\na\r\n0\r\n\r\n"),
    "chunk longer than its size": (400, CHUNKED + b"1\r\nab\r\n0\r\n\r\n"),
    "chunk ended by line feed": (400, CHUNKED + b"1\r\na\n0\r\n\r\n"),
    "line feed in extension": (400, CHUNKED + b"1;a\nb\r\na\r\n0\r\n\r\n"),
    "trailers ended by line feeds": (400, CHUNKED + b"0\r\nX: a\n\n"),
    "folded trailer": (400, CHUNKED + b"0\r\nX: a\r\n b\r\n\r\n"),
    "length in trailers": (400, CHUNKED + b"0\r\nContent-Length: 40\r\n\r\n"),
    "endless extension": (400, CHUNKED + b"1;" + b"a" * 20_000 + b"\r\na\r\n0\r\n\r\n"),
}


@for_each("name", REFUSED)
def test_request_that_can_be_read_in_two_ways_is_refused(name: str) -> None:
    status, raw = REFUSED[name]
    recorder = Recorder()
    answer = answered(raw + SECOND, recorder)
    assert status_of(answer) == status
    assert answer.count(b"Connection: close") == 1
    assert recorder.seen == []


@for_each("name", REFUSED)
def test_it_is_refused_byte_by_byte_as_well(name: str) -> None:
    recorder = Recorder()
    raw = REFUSED[name][1][:600]
    answered([raw[i : i + 1] for i in range(len(raw))], recorder)
    assert recorder.seen == []


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (64 << 10) + b"\r\n\r\n",
        b"GET /" + b"a" * (64 << 10) + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        GET + b"X: a\r\n" * 200 + b"\r\n",
        b"G" * (65 << 10),
    ],
)
def test_head_over_the_bound_is_431(raw: bytes) -> None:
    assert status_of(answered(raw, Recorder())) == 431


def test_head_just_within_the_bounds_passes() -> None:
    size = (64 << 10) - len(GET) - 7
    assert len(seen(GET + b"X: " + b"a" * size + b"\r\n\r\n")) == 1
    assert len(seen(GET + b"X: a\r\n" * 199 + b"\r\n")) == 1


def test_body_that_looks_like_a_request_is_a_body() -> None:
    [one] = seen(POST + b"Content-Length: %d\r\n\r\n" % len(SECOND) + SECOND)
    assert one.body == SECOND
    [one] = seen(CHUNKED + b"%x\r\n" % len(SECOND) + SECOND + b"\r\n0\r\n\r\n")
    assert one.body == SECOND


@for_each("size", [1, 2, 3, 4, 5, 7, 64, 10_000])
def test_chunks_full_of_line_ends_end_where_they_say(size: int) -> None:
    body = b"\r\n\r\n0\r\n\r\n\r\r\n\n" * 50
    raw = CHUNKED + b"%x\r\n" % len(body) + body + b"\r\n0\r\nX-Sum: 1\r\n\r\n" + SECOND
    first, second = seen([raw[i : i + size] for i in range(0, len(raw), size)])
    assert (first.body, first.trailers) == (body, [(b"X-Sum", b"1")])
    assert second.request.target == "/smuggled"


def test_forbidden_trailers_are_dropped() -> None:
    raw = CHUNKED + b"0\r\nX-Sum: 1\r\nAuthorization: x\r\nHost: b\r\nCookie: c\r\n\r\n"
    assert seen(raw)[0].trailers == [(b"X-Sum", b"1")]


def test_small_chunk_extension_is_ignored() -> None:
    assert seen(CHUNKED + b'3;a=b;c="d"\r\nabc\r\n0;e\r\n\r\n')[0].body == b"abc"


def test_h2c_is_never_agreed_on() -> None:
    raw = (
        GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n"
    )
    first, second = seen(raw + SECOND)
    assert first.request.upgrade is None
    assert {name.lower() for name, _ in first.request.headers} == {b"host", b"connection"}
    assert second.request.target == "/smuggled"


def test_proxy_target_must_agree_with_host() -> None:
    def sent(target: bytes, host: bytes) -> list[tuple[str | None, str]]:
        raw = b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
        found = seen(raw, allow_absolute=True)
        return [(one.request.authority, one.request.target) for one in found]

    assert sent(b"http://a.example/x?y", b"a.example") == [("a.example", "/x?y")]
    assert sent(b"HTTP://A.example:80", b"a.example") == [("A.example:80", "/")]
    assert sent(b"http://a.example?y", b"a.example") == [("a.example", "/?y")]
    assert sent(b"http://a.example/", b"b.example") == []
    assert sent(b"http://a.example:81/", b"a.example") == []
    assert sent(b"http://a.example@b.example/", b"a.example@b.example") == []
    assert sent(b"http://a.example\\@b.example/", b"a.example") == []
    assert sent(b"https://a.example/", b"a.example") == []
    assert sent(b"ftp://a.example/", b"a.example") == []
    assert sent(b"http:///x", b"a.example") == []


OK = b"HTTP/1.1 200 OK\r\n"
BAD_ANSWERS = {
    "length and chunks": OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length with sign": OK + b"Content-Length: +1\r\n\r\na",
    "unknown coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks in 1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded header": OK + b"X: a\r\n b\r\n\r\n",
    "bare line feed": OK + b"X: a\nSet-Cookie: b\r\n\r\n",
    "only line feeds": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "carriage return in reason": b"HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n",
    "NUL": OK + b"X: a\x00\r\n\r\n",
    "space before colon": OK + b"Content-Length : 1\r\n\r\na",
    "status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "other protocol": b"SSH-2.0-OpenSSH_9.0\r\n\r\n",
    "HTTP/2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a change that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\n"
    b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "interim answers without end": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000,
    "too many headers": OK + b"X: a\r\n" * 201 + b"\r\n",
    "a head without end": OK + b"X: " + b"a" * (65 << 10),
    "bad chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
}


@for_each("name", BAD_ANSWERS)
def test_answer_that_can_be_read_in_two_ways_is_the_servers_fault(name: str) -> None:
    got = asked(BAD_ANSWERS[name])
    assert getattr(got.error, "status", None) == 502, got
    assert not got.is_reusable
