"""One sandbox that asks too much of its stand-ins: others go on, and so does the engine."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from paddock import Sandbox
from security.attack import background, eventually, memory_bytes, probe
from security.network.inside import alerts, get, say, status
from security.world.conftest import MakeWorld

SCRIPT = {"turns": [{"match": {"user": {"regex": "(a+)+$"}}, "answer": "hi"}]}
# The host of each stand-in that answers in the engine's own process, and where it takes JSON.
PLACES = {
    "pay.example": "/v1/customers",
    "mail.example": "/v3/mail/send",
    "chat.example": "/api/chat.postMessage",
    "forge.example": "/user/repos",
    "tickets.example": "/api/v2/tickets",
    "model.example": "/v1/chat/completions",
    "desk.example": "/tickets",
}
WORLD: dict[str, Any] = {
    "pay.example": "payments",
    "mail.example": "mail",
    "chat.example": "chat",
    "forge.example": "forge",
    "tickets.example": "tickets",
    "model.example": {"service": "model", "script": SCRIPT},
    "desk.example": "draft",
}
SEND = """
import socket
def send(host, path, body, kind, is_chunked=False):
    sock = socket.create_connection((host, 80), 60)
    size = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(body)}"
    head = [f"POST {path} HTTP/1.1", f"Host: {host}", "Connection: close",
            "Authorization: Bearer sk_test_inside", f"Content-Type: {kind}", size, "", ""]
    data = b"%x\\r\\n%b\\r\\n0\\r\\n\\r\\n" % (len(body), body) if is_chunked else body
    answer = b""
    try:
        sock.sendall("\\r\\n".join(head).encode() + data)
    except OSError:
        pass  # it has been answered before its end
    try:
        while more := sock.recv(65536):
            answer += more
    except OSError:
        pass
    return int(answer[9:12] or 0)
places = json.loads(sys.argv[1])
"""


@pytest.fixture
def box(make_world: MakeWorld) -> Sandbox:
    return make_world(WORLD)


def _sent(box: Sandbox, program: str) -> dict[str, Any]:
    found: dict[str, Any] = probe(box, SEND + program, json.dumps(PLACES), timeout=100)
    return found


@pytest.mark.parametrize("kind", ["application/json", "image/png"])
def test_json_of_too_many_parts_is_refused_before_a_stand_in_reads_it(
    box: Sandbox, kind: str
) -> None:
    program = f"""
body = b"\\n[" + b"{{}}," * 3_000_000 + b"{{}}]"
for host, path in places.items():
    found[host] = send(host, path, body, {kind!r})
found["chunked"] = send("desk.example", "/tickets", body, {kind!r}, True)
found["short"] = send("desk.example", "/tickets", body[:900_000] + b"{{}}]", {kind!r})
"""
    assert set(_sent(box, program).values()) == {413}
    assert alerts(box, "world.failed") == []


def test_a_long_body_is_refused_and_not_kept_in_memory(box: Sandbox) -> None:
    before = memory_bytes()
    program = """
body = b'{"text": "' + b"a" * 100_000_000 + b'"}'
for host, path in places.items():
    found[host] = send(host, path, body, "application/json")
"""
    assert set(_sent(box, program).values()) == {413}
    assert memory_bytes() - before < 300 << 20
    assert alerts(box, "world.failed") == []


def test_json_that_is_nested_deep_breaks_no_stand_in(box: Sandbox) -> None:
    program = """
body = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
for host, path in places.items():
    found[host] = send(host, path, body, "application/json")
    found[host + " again"] = send(host, path, b"{}", "application/json")
"""
    assert max(_sent(box, program).values()) < 500
    assert alerts(box, "world.failed") == []


LEAVE = """
import socket
body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "go"}]}'
head = (b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: model.example\\r\\n"
        b"Authorization: Bearer x\\r\\n"
        b"Content-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body))
open_ = []
for _ in range(20):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("model.example", 80))
    sock.sendall(head + body)
    open_.append(sock)
found["first"] = [sock.recv(12).decode() for sock in open_]
for sock in open_:
    sock.close()
"""


def test_a_reader_that_leaves_ends_the_stream_that_was_made_for_it(make_world: MakeWorld) -> None:
    turn = {"match": {"user": "go"}, "answer": "word " * 100_000}
    box = make_world({"model.example": {"service": "model", "script": {"rules": [turn]}}})
    found = probe(box, LEAVE)
    assert set(found["first"]) == {"HTTP/1.1 200"}
    eventually(lambda: not _calls_of(box), 20, "no call of a stand-in is left")


def _calls_of(box: Sandbox) -> list[str]:
    """What still runs on the engine for some stand-in."""

    async def found() -> list[str]:
        names = [getattr(one.get_coro(), "__qualname__", "") for one in asyncio.all_tasks()]
        return [name for name in names if name == "_Call.run"]

    return list(box._engine.call(found()))


CROWD = """
import socket
open_ = []
try:
    for _ in range(600):
        open_.append(socket.create_connection(("mail.example", 25), 5))
except OSError:
    pass
print(len(open_), flush=True)
sys.stdin.read()
"""


def test_a_crowd_at_one_stand_in_keeps_no_other_sandbox_waiting(make_world: MakeWorld) -> None:
    crowded = make_world({"mail.example": "mail"})
    other = make_world({"pay.example": "payments"})
    handle = background(crowded, CROWD)
    assert int(handle.stdout.split()[0]) > 500
    key = "Authorization: Bearer sk_test_inside"
    said = say(other, host="pay.example", port=80, data=get("/v1/customers", "pay.example", key))
    assert status(said) == 200
    handle.kill()
    data = b"QUIT\r\n"
    eventually(lambda: say(crowded, host="mail.example", port=25, data=data).startswith(b"220"))
