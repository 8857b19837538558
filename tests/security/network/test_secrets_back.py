"""The value of a secret in what a server answers: it must not reach the agent."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest

from paddock import Sandbox
from security.attack import probe
from security.network.conftest import Hosts
from security.network.inside import get, run_directory, say_all, status
from security.network.origins import Asked, Origin, scripted

VALUE = 'sk/live+4eC39"HqLyjWDarjtT1zdp7dc'
RAW = VALUE.encode()


def _plain(body: bytes, *lines: bytes, code: bytes = b"200 OK") -> bytes:
    head = b"\r\n".join([b"HTTP/1.1 " + code, b"Content-Length: %d" % len(body), *lines])
    return head + b"\r\n\r\n" + body


def _chunked(body: bytes, size: int, *lines: bytes, trailers: bytes = b"") -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    head = b"\r\n".join([b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", *lines])
    return head + b"\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"


def _deflated(data: bytes, wbits: int) -> bytes:
    work = zlib.compressobj(wbits=wbits)
    return work.compress(data) + work.flush()


ECHOES = {
    "body": _plain(b"you are " + RAW + b"."),
    "json": _plain(json.dumps({"key": VALUE}).encode()),
    "escaped": _plain("".join(f"\\u{ord(one):04x}" for one in VALUE).encode()),
    "percent": _plain(quote(VALUE, safe="").encode()),
    "base64": _plain(base64.b64encode(b"x" + RAW)),
    "hex": _plain(RAW.hex().encode()),
    "twice": _plain(RAW + RAW),
    "at the end of much": _plain(b"A" * 200_000 + RAW),
    "chunks of one byte": _chunked(b"<" + RAW + b">", 1),
    "chunks of eleven": _chunked(b"A" * 5 + RAW + b"B" * 100, 11),
    "a half at the end": _chunked(b"A" * 7 + RAW[:-1], 9),
    "header": _plain(b"", b"X-Echo: " + RAW),
    "header, base64": _plain(b"", b"X-Echo: Bearer " + base64.b64encode(RAW)),
    "basic": _plain(b"", b"X-Echo: Basic " + base64.b64encode(b"u:" + RAW)),
    "cookie": _plain(b"", b"Set-Cookie: k=" + quote(VALUE, safe="").encode()),
    "location": _plain(b"", b"Location: http://other.example/?k=" + quote(VALUE).encode(),
                       code=b"302 Found"),
    "reason": _plain(b"", code=b"200 " + RAW),
    "error page": _plain(b"<h1>bad key " + RAW + b"</h1>", code=b"401 Unauthorized"),
    "trailer": _chunked(b"hi", 2, b"Trailer: X-Echo", trailers=b"X-Echo: " + RAW + b"\r\n"),
    "until the end": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + RAW,
    "old": b"HTTP/1.0 200 OK\r\n\r\n" + RAW,
    "gzip": _plain(gzip.compress(b"x" + RAW), b"Content-Encoding: gzip"),
    "gzip, two members": _plain(gzip.compress(RAW[:9]) + gzip.compress(RAW[9:]),
                                b"Content-Encoding: gzip"),
    "gzip in chunks": _chunked(gzip.compress(RAW), 3, b"Content-Encoding: x-gzip"),
    "deflate": _plain(zlib.compress(RAW), b"Content-Encoding: deflate"),
    "bare deflate": _plain(_deflated(RAW, -15), b"Content-Encoding: deflate"),
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: <" + RAW + b">\r\n\r\n" + _plain(b"ok"),
    "not modified": _plain(b"", b"ETag: " + RAW, code=b"304 Not Modified"),
    "chunk extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;k=\"" + RAW[:8]
                       + b"\"\r\nok\r\n0\r\n\r\n",
}  # fmt: skip
# What cannot be looked into does not pass at all.
UNREADABLE = {
    "brotli": _plain(b"\x0b\x02\x80hello\x03", b"Content-Encoding: br"),
    "zstd": _plain(b"\x28\xb5\x2f\xfd", b"Content-Encoding: zstd"),
    "gzip twice": _plain(gzip.compress(gzip.compress(RAW)), b"Content-Encoding: gzip, gzip"),
    "two headers": _plain(gzip.compress(RAW), b"Content-Encoding: identity",
                          b"Content-Encoding: gzip"),
    "one header twice": _plain(gzip.compress(gzip.compress(RAW)), b"Content-Encoding: gzip",
                               b"Content-Encoding: gzip"),
    "gzip as a transfer encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
                                   + b"%x\r\n" % len(gzip.compress(RAW)) + gzip.compress(RAW)
                                   + b"\r\n0\r\n\r\n",
    "damaged gzip": _plain(gzip.compress(RAW)[:-9], b"Content-Encoding: gzip"),
}  # fmt: skip
SECRETS = {"API_KEY": {"from": "env:ATTACKED_KEY", "to": ["api.example", "ws.example"],
                       "as": "header:Authorization=Bearer"}}  # fmt: skip


def _answer(asked: Asked) -> bytes:
    name = asked.target.removeprefix("/").replace("_", " ")
    return ECHOES.get(name) or UNREADABLE[name]


def speak_secretly(sock: socket.socket) -> None:
    """A WebSocket server that says the value in every kind of frame."""
    while b"\r\n\r\n" not in (data := sock.recv(65536)):
        pass
    assert RAW in data
    lines = [b"HTTP/1.1 101 " + RAW, b"Upgrade: websocket", b"Connection: Upgrade", b"X: " + RAW,
             b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", b"", b""]  # fmt: skip
    sock.sendall(b"\r\n".join(lines))

    def frame(opcode: int, body: bytes) -> bytes:
        return bytes([opcode, len(body)]) + body

    sock.sendall(frame(0x81, b"a" + RAW) + frame(0x01, RAW[:9]) + frame(0x80, RAW[9:])
                 + frame(0x82, base64.b64encode(RAW)) + frame(0x89, RAW) + frame(0x8A, RAW)
                 + frame(0x88, struct.pack("!H", 1000) + RAW))  # fmt: skip
    with suppress(OSError):
        while sock.recv(4096):
            pass


@pytest.fixture(scope="module")
def box(hosts: Hosts) -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patch, scripted(speak_secretly) as talker:
        patch.setenv("ATTACKED_KEY", VALUE)
        hosts.api.answer = _answer
        network = hosts.network
        network["allow"].append("ws.example:80")
        network["hosts"]["ws.example"] = talker.place
        try:
            with Sandbox.create(network=network, secrets=SECRETS) as made:
                yield made
        finally:
            hosts.api.answer = Origin("").answer


def _ask(box: Sandbox, echoes: dict[str, bytes]) -> dict[str, bytes]:
    said = {
        name: {"host": "api.example", "port": 80,
               "data": get("/" + name.replace(" ", "_"), "api.example", "Accept-Encoding: gzip, br",
                           "TE: trailers")}
        for name in echoes
    }  # fmt: skip
    return say_all(box, said)


def test_a_value_that_is_echoed_does_not_arrive(box: Sandbox, hosts: Hosts) -> None:
    answers = _ask(box, ECHOES)
    texts = (quote(VALUE, safe=""), quote(VALUE), json.dumps(VALUE)[1:-1], RAW.hex())
    spellings = [RAW, base64.b64encode(RAW)[:-4], *(text.encode() for text in texts)]
    leaked = {
        name for name, answer in answers.items() if any(one in _joined(answer) for one in spellings)
    }
    assert leaked == set()
    assert f"Bearer {VALUE}".encode() in bytes(hosts.api.heard)
    shown = {name for name, answer in answers.items() if b"paddock_API_KEY_" in _joined(answer)}
    assert {"body", "json", "header", "location", "gzip", "trailer", "chunks of one byte"} <= shown
    assert {name: answer for name, answer in answers.items() if not status(answer)} == {}


def test_an_answer_that_cannot_be_looked_into_does_not_arrive(box: Sandbox) -> None:
    answers = _ask(box, UNREADABLE)
    for name, answer in answers.items():
        assert status(answer) == 502 or answer.endswith(b"<cut>"), (name, answer)
        assert gzip.compress(RAW)[10:-8] not in answer


def test_a_server_is_asked_not_to_compress(box: Sandbox, hosts: Hosts) -> None:
    hosts.api.clear()
    _ask(box, {"body": b""})
    (asked,) = hosts.api.asked
    assert b"accept-encoding: identity" in asked.head.lower()
    assert b"gzip" not in asked.head


def test_a_websocket_does_not_bring_the_value(box: Sandbox) -> None:
    program = """
    import base64, socket
    sock = socket.create_connection(("ws.example", 80), 20)
    sock.sendall(b"GET /ws HTTP/1.1\\r\\nHost: ws.example\\r\\nUpgrade: websocket\\r\\n"
                 b"Connection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\n"
                 b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n")
    answer = b""
    while more := b"" if b"\\x88" in answer else sock.recv(4096):  # until the farewell
        answer += more
    found["it"] = base64.b64encode(answer).decode()
    """
    answer = base64.b64decode(probe(box, program)["it"])
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert RAW not in answer
    assert base64.b64encode(RAW)[:-4] not in answer
    assert answer.count(b"paddock_API_KEY_") >= 6


def test_the_journal_has_no_value(box: Sandbox) -> None:
    for path in run_directory(box).rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert RAW not in data, path
        assert json.dumps(VALUE).encode()[1:-1] not in data, path


def _joined(answer: bytes) -> bytes:
    """Without the marks of chunks, so that nothing hides between them."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" not in head.lower():
        return answer
    whole, rest = b"", body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not size or int(size, 16) == 0:
            break
        whole, rest = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return head + b"\r\n\r\n" + whole + rest
