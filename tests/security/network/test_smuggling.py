"""One request for the door that is two for the server behind it.

The server here is as careless as any: bare line feeds, any spelling of `chunked`, several lengths.
Whatever it takes for a request must be one that the gate decided on.
"""

from __future__ import annotations

import pytest

from paddock import Sandbox
from security.network.conftest import Hosts
from security.network.inside import alerts, refused, say, status, steps

SECOND = b"GET /smuggled HTTP/1.1\r\nHost: other.example\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n"
CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"


def _post(lines: bytes, body: bytes) -> bytes:
    return HEAD + lines + b"\r\n" + body


REFUSED = {
    "CL.TE": _post(b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SECOND),
    "TE.CL": _post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                   b"%x\r\n%b\r\n0\r\n\r\n" % (len(SECOND), SECOND)),
    "two lengths": _post(b"Content-Length: 0\r\nContent-Length: 47\r\n", SECOND),
    "equal lengths": _post(b"Content-Length: 2\r\nContent-Length: 2\r\n", b"hi" + SECOND),
    "a list of lengths": _post(b"Content-Length: 0, 47\r\n", SECOND),
    "a signed length": _post(b"Content-Length: +0\r\n", SECOND),
    "a negative length": _post(b"Content-Length: -1\r\n", SECOND),
    "a length in hex": _post(b"Content-Length: 0x0\r\n", SECOND),
    "a length with a space": _post(b"Content-Length: 0 0\r\n", SECOND),
    "a length of digits of another script":
        _post("Content-Length: \u0660\r\n".encode(), SECOND),
    "a huge length": _post(b"Content-Length: 18446744073709551616\r\n", SECOND),
    "an empty length": _post(b"Content-Length:\r\n", SECOND),
    "xchunked": _post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + SECOND),
    "identity": _post(b"Transfer-Encoding: identity\r\n", SECOND),
    "chunked, identity": _post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKS + SECOND),
    "gzip, chunked": _post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS + SECOND),
    "chunked twice": _post(b"Transfer-Encoding: chunked, chunked\r\n", CHUNKS + SECOND),
    "two encodings": _post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", CHUNKS),
    "a quoted encoding": _post(b'Transfer-Encoding: "chunked"\r\n', CHUNKS + SECOND),
    "a space before the colon": _post(b"Transfer-Encoding : chunked\r\n", CHUNKS + SECOND),
    "a tab before the colon": _post(b"Content-Length\t: 0\r\n", SECOND),
    "a vertical tab": _post(b"Transfer-Encoding:\x0bchunked\r\n", CHUNKS + SECOND),
    "a folded encoding": _post(b"Transfer-Encoding:\r\n chunked\r\n", CHUNKS + SECOND),
    "a folded length": _post(b"X: y\r\n Content-Length: 0\r\n", SECOND),
    "a first header that is folded": HEAD.replace(b"\r\nHost", b"\r\n Host") + b"\r\n",
    "a bare line feed": _post(b"X: y\nContent-Length: 47\r\n", SECOND),
    "bare line feeds only": SECOND.replace(b"\r\n", b"\n"),
    "a bare carriage return": _post(b"X: y\rContent-Length: 47\r\n", SECOND),
    "CR CR LF": _post(b"X: y\r\r\nContent-Length: 0\r\n", SECOND),
    "a NUL in a name": _post(b"Content-Length\0: 47\r\n", SECOND),
    "a NUL in a value": _post(b"X: a\0b\r\n", b""),
    "a NUL in the target": HEAD.replace(b"POST /", b"POST /a\0b") + b"\r\n",
    "a name of another script": _post("Tränsfer: x\r\n".encode(), b""),
    "a header without a name": _post(b": chunked\r\n", SECOND),
    "a header without a colon": _post(b"chunked\r\n", SECOND),
    "a space in the target": HEAD.replace(b"/ HTTP", b"/a b HTTP") + b"\r\n",
    "two spaces": HEAD.replace(b"POST /", b"POST  /") + b"\r\n",
    "HTTP/0.9": b"GET /smuggled\r\n\r\n",
    "HTTP/1.2": HEAD.replace(b"1.1", b"1.2") + b"\r\n",
    "HTTP/2.0": HEAD.replace(b"1.1", b"2.0") + b"\r\n",
    "chunks in HTTP/1.0": _post(b"Transfer-Encoding: chunked\r\n", CHUNKS).replace(b"1.1", b"1.0"),
    "a body and an upgrade": _post(b"Connection: upgrade\r\nUpgrade: websocket\r\n"
                                   b"Content-Length: 47\r\n", SECOND),
    "a method in small letters": HEAD.replace(b"POST", b"post") + b"\r\n",
    "an unknown method": HEAD.replace(b"POST", b"SMUGGLE") + b"\r\n",
    "the head of a proxy": b"CONNECT other.example:80 HTTP/1.1\r\nHost: other.example\r\n\r\n",
}  # fmt: skip
BAD_CHUNKS = {
    "a size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size with a space": b"5 5\r\nhello\r\n0\r\n\r\n",
    "a huge size": b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-1\r\nhello\r\n0\r\n\r\n",
    "a bare line feed after the size": b"5\nhello\r\n0\r\n\r\n",
    "a bare line feed after the data": b"5\r\nhello\n0\r\n\r\n",
    "more data than announced": b"5\r\nhelloGET /smuggled HTTP/1.1\r\n0\r\n\r\n",
    "a length among the trailers": b"2\r\nhi\r\n0\r\nContent-Length: 47\r\n\r\n",
    "a line feed in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
}


def _nothing_smuggled(hosts: Hosts) -> None:
    heard = [one.line for origin in hosts.all for one in origin.asked]
    assert not any("smuggled" in line for line in heard), heard


@pytest.mark.parametrize("name", REFUSED)
def test_a_message_that_has_two_readings_is_refused(box: Sandbox, hosts: Hosts, name: str) -> None:
    before, noted = len(hosts.api.asked), len(refused(box, "connect"))
    answer = say(box, host="api.example", port=80, data=REFUSED[name])
    assert status(answer) in (400, 405, 413, 501, 505), answer
    assert answer.count(b"\r\n\r\n") == 1  # nothing after it is read
    assert len(hosts.api.asked) == before
    _nothing_smuggled(hosts)
    assert len(refused(box, "connect")) == noted + 1
    assert "api.example" in {about["host"] for about in alerts(box, "egress.malformed")}


@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_bad_chunks_end_the_request_before_it_is_whole(
    box: Sandbox, hosts: Hosts, name: str
) -> None:
    before = len(hosts.api.asked)
    data = _post(b"Transfer-Encoding: chunked\r\n", BAD_CHUNKS[name] + SECOND)
    answer = say(box, host="api.example", port=80, data=data)
    assert status(answer) in (0, 400, 502), answer
    assert b" 200 " not in answer
    assert len(hosts.api.asked) == before
    _nothing_smuggled(hosts)


WELL_FRAMED = {
    "a request as a body": (_post(b"Content-Length: %d\r\n" % len(SECOND), SECOND), ["/"]),
    "a body of a GET": (
        b"GET /cl0 HTTP/1.0\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n" % len(SECOND)
        + SECOND,
        ["/cl0"],
    ),
    "chunk extensions": (
        _post(b"Transfer-Encoding: chunked\r\n", b"5;a=b;c\r\nhello\r\n0;x\r\n\r\n"),
        ["/"],
    ),
    "hop-by-hop headers": (
        _post(b"Connection: close, Content-Length, Host\r\nContent-Length: 2\r\n", b"hi"),
        ["/"],
    ),
    "trailers that frame": (
        _post(b"Transfer-Encoding: chunked\r\nTrailer: Host\r\n",
              b"2\r\nhi\r\n0\r\nHost: other.example\r\nAuthorization: x\r\nX-T: kept\r\n\r\n"),
        ["/"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WELL_FRAMED)
def test_what_has_one_reading_arrives_as_just_that(box: Sandbox, hosts: Hosts, name: str) -> None:
    data, targets = WELL_FRAMED[name]
    hosts.api.clear()
    before = len(steps(box, "http"))
    answer = say(box, host="api.example", port=80, data=data)
    assert status(answer) == 200, answer
    assert hosts.api.targets == targets
    assert {one.host for one in hosts.api.asked} == {"api.example"}
    assert len(steps(box, "http")) == before + len(targets)
    for one in hosts.api.asked:
        lines = one.head.lower().split(b"\r\n")
        framing = [x for x in lines if x.startswith((b"content-length:", b"transfer-encoding:"))]
        assert len(framing) == 1, one.head
        assert b";" not in one.body.split(b"\r\n")[0]
        assert b"\r\nHost: other" not in one.body or one.body == SECOND


def test_a_pipelined_request_is_decided_on_by_itself(box: Sandbox, hosts: Hosts) -> None:
    hosts.api.clear()
    first = b"GET /first HTTP/1.1\r\nHost: api.example\r\n\r\n"
    answer = say(box, host="api.example", port=80, data=first + SECOND)
    assert [answer[9:12], answer.count(b"HTTP/1.1 421")] == [b"200", 1]
    assert hosts.api.targets == ["/first"]
    _nothing_smuggled(hosts)


def test_what_follows_an_upgrade_that_was_refused_is_a_request(box: Sandbox, hosts: Hosts) -> None:
    """A server that says no to a WebSocket must not be left with an open line."""
    hosts.api.clear()
    upgrade = (
        b"GET /ws HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 777\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    answer = say(box, host="api.example", port=80, data=upgrade + SECOND)
    assert status(answer) == 200
    assert answer.count(b"HTTP/1.1 421") <= 1
    assert hosts.api.targets == ["/ws"]
    _nothing_smuggled(hosts)


def test_an_upgrade_to_http2_is_not_passed_on(box: Sandbox, hosts: Hosts) -> None:
    hosts.api.clear()
    data = (
        b"GET /h2c HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
    )
    assert status(say(box, host="api.example", port=80, data=data)) == 200
    (one,) = hosts.api.asked
    assert b"h2c" not in one.head.replace(b"/h2c", b"")
    assert b"http2-settings" not in one.head.lower()
