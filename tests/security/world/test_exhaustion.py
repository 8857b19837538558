"""One sandbox that asks too much of its stand-ins: others go on, and so does the engine."""

from __future__ import annotations

from typing import Any

import pytest

from paddock import Sandbox
from security.attack import memory_bytes, probe
from security.network.inside import alerts
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
    import json

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
