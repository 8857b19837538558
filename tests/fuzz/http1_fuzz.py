"""Random tricks with HTTP/1 against its law: what goes on is one message, and a strict parser reads
it as we did; or it was refused. `python http1_fuzz.py SECONDS` runs it for so long.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import h11

from paddock.doors.network.exchange import HttpExchange, HttpRequest
from paddock.doors.network.http1 import server as http1
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.http1.messages import end_to_end
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SECOND = b"GET /second HTTP/1.1\r\nHost: example.com\r\n\r\n"
LIMIT_S = 20.0

METHODS = [b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE"]
TARGETS = [b"/", b"/a?b=c", b"/%00", b"//evil.example/", b"*", b"/a;b", b"http://example.com/x"]
HEADERS = [
    b"Host: example.com",
    b"Content-Length: 5",
    b"Content-Length: 0",
    b"Content-Length: 16",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding: identity",
    b"Connection: close",
    b"Connection: keep-alive, content-length",
    b"Connection: transfer-encoding, host",
    b"Upgrade: h2c",
    b"Connection: upgrade",
    b"X-A: b",
    b"X-A:",
    b"Trailer: X-T",
    b"TE: trailers",
    b"Keep-Alive: 5",
]
BODIES = [
    b"",
    b"hello",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5;a=b\r\nhello\r\n0\r\nX-T: u\r\n\r\n",
    b"5\r\nhello\r\n3\r\n\r\n\r\r\n0\r\n\r\n",
    b"0\r\n\r\n",
    b"0\r\n\r\n" + SECOND,
]
STATUSES = [b"200 OK", b"204 No Content", b"304 x", b"404", b"100 Continue", b"500 \xc3\xa4"]
SPICES = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\x00",
    b" ",
    b"\t",
    b"\x0b",
    b":",
    b",",
    b";",
    b"\x7f",
    b"\xff",
    b"#",
    b"0",
    b"+",
    b"-",
    b"0x",
    b"\r\n ",
    SECOND,
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
]


@dataclass
class Forwarded:
    """A request as it was decided on, and the bytes that went on for it."""

    method: str
    target: str
    body: bytes
    wire: bytes


def make_request(rng: random.Random) -> bytes:
    headers = [b"Host: example.com", *rng.choices(HEADERS, k=rng.randint(0, 4))]
    rng.shuffle(headers)
    version = rng.choice([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"])
    line = b" ".join((rng.choice(METHODS), rng.choice(TARGETS), version))
    raw = b"\r\n".join((line, *headers)) + b"\r\n\r\n" + rng.choice(BODIES)
    return spoiled(rng, raw + rng.choice([b"", SECOND]))


def make_answer(rng: random.Random) -> bytes:
    headers = rng.choices(HEADERS[1:], k=rng.randint(0, 4))
    line = rng.choice([b"HTTP/1.1 ", b"HTTP/1.1 ", b"HTTP/1.0 "]) + rng.choice(STATUSES)
    raw = b"\r\n".join((line, *headers)) + b"\r\n\r\n" + rng.choice(BODIES)
    return spoiled(rng, raw)


def spoiled(rng: random.Random, raw: bytes) -> bytes:
    """With some bytes put in, taken out, doubled or changed."""
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        at = rng.randint(0, len(raw))
        match rng.randrange(4):
            case 0:
                raw = raw[:at] + rng.choice(SPICES) + raw[at:]
            case 1:
                raw = raw[:at] + raw[at + rng.randint(1, 3) :]
            case 2:
                raw = raw[:at] + raw[max(at - rng.randint(1, 30), 0) :]
            case _:
                raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
    return raw


def pieces(rng: random.Random, raw: bytes) -> list[bytes]:
    cuts = sorted(rng.randint(0, len(raw)) for _ in range(rng.choice([0, 0, 1, 3])))
    ends = [0, *cuts, len(raw)]
    return [raw[a:b] for a, b in itertools.pairwise(ends) if a < b]


async def forward(parts: list[bytes]) -> list[Forwarded]:
    """What a door that lets all pass would send on for these bytes."""
    found: list[Forwarded] = []

    async def handler(exchange: HttpExchange) -> None:
        found.append(await _forward_one(exchange.request))
        await exchange.begin(200, [(b"Content-Length", b"0")])
        await exchange.finish()

    near, far = socket.socketpair()
    client, served = Conn(near), Conn(far)
    serving = asyncio.create_task(http1.serve(served, handler, scheme="http"))
    try:
        async with asyncio.timeout(LIMIT_S):
            for part in parts:
                await client.write(part)
                await asyncio.sleep(0)
            client.write_eof()
            while await client.read():
                pass
            await serving
    except ConnLost:
        await serving
    finally:
        client.close()
        served.close()
    return found


async def _forward_one(request: HttpRequest) -> Forwarded:
    seen = bytearray()
    body = request.body

    class Copied:
        length = body.length

        @property
        def trailers(self) -> Any:
            return body.trailers

        async def read(self) -> bytes:
            data = await body.read()
            seen.extend(data)
            return data

    sent = HttpRequest(request.method, "http", "example.com", request.target, [], "1.1", Copied())
    near, far = socket.socketpair()
    upstream, server = Http1Client(Conn(near)), Conn(far)
    serving = asyncio.create_task(_serve_strictly(server))
    try:
        response = await upstream.send(sent, end_to_end(request.headers))
        while await response.body.read():
            pass
        upstream.close()
        wire = await serving
    finally:
        serving.cancel()
        upstream.close()
        server.close()
    return Forwarded(request.method, request.target, bytes(seen), wire)


async def _serve_strictly(server: Conn) -> bytes:
    """Answers once a strict parser has a whole request. Gives all that came until the end."""
    peer, wire = h11.Connection(h11.SERVER), b""
    while data := await server.read():
        wire += data
        if peer.their_state is h11.DONE:
            continue
        peer.receive_data(data)
        while peer.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            if peer.their_state is h11.DONE:
                await server.write(OK)
                break
    return wire


def check_request(parts: list[bytes]) -> int:
    """How many requests went on; each is what a strict parser reads in its bytes."""
    found = asyncio.run(forward(parts))
    for one in found:
        assert read_strictly(one.wire) == (one.method, one.target, one.body), one
    return len(found)


def read_strictly(wire: bytes) -> tuple[str, str, bytes]:
    """The one request that these bytes are."""
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(wire)
    request = peer.next_event()
    assert isinstance(request, h11.Request), wire
    body = b""
    while isinstance(event := peer.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage), wire
    assert peer.trailing_data[0] == b"", wire
    assert peer.next_event() in (h11.NEED_DATA, h11.PAUSED), wire
    return request.method.decode(), request.target.decode(), body


async def relay_answer(raw: bytes) -> tuple[int, bytes, bytes] | None:
    """Status and body as we read them, and the bytes that a client gets; None if refused."""
    near, far = socket.socketpair()
    upstream, server = Http1Client(Conn(near)), Conn(far)
    decided: list[tuple[int, bytes]] = []

    async def handler(exchange: HttpExchange) -> None:
        response = await upstream.send(exchange.request, [(b"Host", b"example.com")])
        body = b""
        while data := await response.body.read():
            body += data
        decided.append((response.status, body))
        await exchange.begin(response.status, end_to_end(response.headers), response.reason)
        await exchange.send(body)
        await exchange.finish(response.body.trailers)

    mine, theirs = socket.socketpair()
    client, served = Conn(mine), Conn(theirs)
    serving = asyncio.create_task(http1.serve(served, handler, scheme="http"))
    try:
        async with asyncio.timeout(LIMIT_S):
            await server.write(raw)
            server.write_eof()
            await client.write(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
            client.write_eof()
            wire = b""
            while data := await client.read():
                wire += data
            await serving
    finally:
        for conn in (client, served, server):
            conn.close()
        upstream.close()
    return (*decided[0], wire) if decided else None


def check_answer(raw: bytes) -> bool:
    """Whether the answer passed; then a strict parser reads it as we did."""
    relayed = asyncio.run(relay_answer(raw))
    if relayed is None:
        return False
    status, body, wire = relayed
    peer = h11.Connection(h11.CLIENT)
    peer.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    peer.send(h11.EndOfMessage())
    peer.receive_data(wire)
    peer.receive_data(b"")
    event = peer.next_event()
    assert isinstance(event, h11.Response), wire
    if event.status_code == 502 and status != 502:
        return False  # it could not be written as one message
    got = b""
    assert event.status_code == status, wire
    while isinstance(event := peer.next_event(), h11.Data):
        got += event.data
    assert isinstance(event, h11.EndOfMessage), wire
    assert got == body or status in (204, 205, 304), (got, body)
    assert peer.trailing_data[0] == b"", wire
    return True


def main(seconds: float, seed: int | None = None) -> int:
    """How many messages were tried."""
    rng = random.Random(seed)
    end, tried = time.monotonic() + seconds, 0
    passed = answers = 0
    while time.monotonic() < end:
        state = rng.getstate()
        raw = make_request(rng)
        try:
            passed += check_request(pieces(rng, raw))
            raw = make_answer(rng)
            answers += check_answer(raw)
        except BaseException:
            print("broken by", raw, "state", hash(state), file=sys.stderr)
            raise
        tried += 2
    print(f"{tried} messages: {passed} requests and {answers} answers passed, the rest refused")
    return tried


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
