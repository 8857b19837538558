"""Attempts to speak to the real host whose name a stand-in has. It must not hear a byte."""

from __future__ import annotations

from typing import Any

import pytest

from paddock import Sandbox
from security.network.inside import PROXY, get, say, say_all, status
from security.world.conftest import MakeWorld, Production, edited

KEY = "Authorization: Bearer sk_test_inside"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
CHAT = b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}'
QUERY = b'{"query": "{ me { id } }"}'
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
RULES = """rules:
  - {id: sure, match: {kind: [http, connect], host: pay.example}, decide: allow}
  - {id: models, match: {kind: model}, decide: allow}
  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}
"""


def _get(host: str, *lines: str, target: str = "/v1/customers") -> bytes:
    return get(target, host, KEY, *lines)


def _post(target: str, body: bytes) -> bytes:
    lines = (KEY, "Content-Type: application/json", f"Content-Length: {len(body)}")
    return get(target, "pay.example", *lines, method="POST") + body


def _connect(host: str, port: int) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


@pytest.fixture
def box(make_world: MakeWorld) -> Sandbox:
    """Everything is said in the file that could be taken for a yes to the real host."""
    return make_world(
        {"pay.example": {"service": "payments", "also": ["other.example"]},
         "mail.example": "mail", "*.wild.example": "payments"},
        allow=("pay.example:443", "pay.example:80", "other.example:80", "mail.example:25/tcp",
               "mail.example:443", "real.example:80", "real.example:443", "*.wild.example:443",
               "a.wild.example:80"),
        rules=RULES,
    )  # fmt: skip


def test_no_spelling_and_no_way_leads_past_a_stand_in(box: Sandbox, production: Production) -> None:
    proxy = {"host": PROXY[0], "port": PROXY[1]}
    plain = {"host": "pay.example", "port": 80}
    tls = {"host": "pay.example", "port": 443, "sni": "pay.example"}
    tries: dict[str, dict[str, Any]] = {
        "plain": {**plain, "data": _get("pay.example")},
        "tls": {**tls, "data": _get("pay.example")},
        "also": {"host": "other.example", "port": 80, "data": _get("other.example")},
        "wild": {"host": "a.wild.example", "port": 80, "data": _get("a.wild.example")},
        "case": {"host": "PAY.example", "port": 80, "data": _get("PAY.Example")},
        "dot": {"host": "pay.example.", "port": 80, "data": _get("pay.example.")},
        "no sni": {**tls, "sni": "", "data": _get("pay.example")},
        "port in host": {**tls, "data": _get("pay.example:443")},
        "absolute": {**plain, "data": _get("pay.example", target="http://pay.example/v1/charges")},
        "proxy": {**proxy, "data": _get("pay.example", target="http://pay.example/v1/charges")},
        "proxy dot": {**proxy, "data": _get("PAY.example.", target="http://PAY.example./v1/a")},
        "tunnel": {**proxy, "tunnel": _connect("pay.example", 443), "sni": "pay.example",
                   "data": _get("pay.example")},
        "tunnel clear": {**proxy, "tunnel": _connect("pay.example", 80), "quiet": 1,
                         "data": _get("pay.example")},
        "tunnel raw": {**proxy, "tunnel": _connect("mail.example", 25), "data": b"QUIT\r\n"},
        "clear on 443": {"host": "pay.example", "port": 443, "data": _get("pay.example")},
        "model": {**tls, "data": _post("/v1/chat/completions", CHAT)},
        "graphql": {**tls, "data": _post("/graphql", QUERY)},
        "websocket": {**tls, "data": get("/", "pay.example", *UPGRADE[1:], UPGRADE[0])},
        "h2 clear": {**plain, "data": PREFACE, "quiet": 1},
        "bytes": {**plain, "data": b"\x01\x02\x03", "wait": 3},
    }  # fmt: skip
    said = say_all(box, tries)
    reached = {name: status(answer) for name, answer in said.items()}
    answered = {name for name, code in reached.items() if code == 200}
    assert {"plain", "tls", "also", "wild", "case", "dot", "no sni", "tunnel"} <= answered
    assert production.heard == b""


def test_a_name_that_lies_leads_nowhere(box: Sandbox, production: Production) -> None:
    """The connection is to a real host that is allowed, the request is for the stand-in's, and the
    other way round."""
    tries = {
        "host": {"host": "real.example", "port": 80, "data": _get("pay.example")},
        "sni": {"host": "real.example", "port": 443, "sni": "pay.example",
                "data": _get("pay.example")},
        "host in tls": {"host": "pay.example", "port": 443, "sni": "pay.example",
                        "data": _get("real.example")},
        "back": {"host": "pay.example", "port": 80, "data": _get("real.example")},
        "absolute": {"host": PROXY[0], "port": PROXY[1],
                     "data": _get("real.example", target="http://pay.example/v1/customers")},
    }  # fmt: skip
    said = say_all(box, tries)
    assert {status(said[name]) for name in ("host", "host in tls", "back")} == {421}
    assert status(said["sni"]) == 0
    assert production.heard == b""


def test_the_address_of_the_real_host_is_no_way_to_it(box: Sandbox, production: Production) -> None:
    address, _, port = production["pay.example"].place.rpartition(":")
    said = say(box, host=PROXY[0], port=PROXY[1], data=_get(f"{address}:{port}",
               target=f"http://{address}:{port}/"))  # fmt: skip
    assert status(said) == 403
    assert production.heard == b""


def test_tls_that_is_not_ended_leads_to_no_real_host_either(
    make_world: MakeWorld, production: Production
) -> None:
    box = make_world({"pay.example": "payments"}, allow=("pay.example:443",),
                     passthrough=("pay.example",), rules=RULES)  # fmt: skip
    said = say(box, host="pay.example", port=443, sni="pay.example", data=_get("pay.example"))
    assert status(said) in (0, 200)
    assert production.heard == b""


def test_a_change_of_the_network_at_run_time_opens_no_way(
    box: Sandbox, production: Production
) -> None:
    box.update_network(["pay.example:80", "real.example:443"], hosts=production.hosts)
    said = say(box, host="pay.example", port=80, data=_get("pay.example"))
    assert status(said) == 200
    box.update_network(mode="none")
    assert status(say(box, host="pay.example", port=80, data=_get("pay.example"))) != 200
    assert production.heard == b""


@pytest.fixture
def asked(make_world: MakeWorld) -> Sandbox:
    rules = "rules:\n  - {id: asks, match: {kind: http, path: /asked}, decide: ask}\n"
    world = {"pay.example": "payments", "desk.example": "draft"}
    return make_world(world, allow=("real.example:80",), rules=rules)


def _to(host: str, **more: Any) -> Any:
    return lambda words: {**words, "host": host, **more}


def test_an_edit_from_a_real_host_to_a_stand_in_does_not_reach_its_real_host(
    asked: Sandbox, production: Production
) -> None:
    data = _get("real.example", target="/asked")
    said = edited(asked, _to("pay.example"), host="real.example", port=80, data=data)
    assert status(said) == 403
    assert production.heard == b""


def test_an_edit_from_a_stand_in_to_a_real_host_is_decided_as_the_real_one(
    asked: Sandbox, production: Production
) -> None:
    data = _get("pay.example", target="/asked")
    edited(asked, _to("real.example"), host="pay.example", port=80, data=data)
    assert production["pay.example"].heard == b""
    assert production["real.example"].targets in ([], ["/asked"])


def test_an_edit_that_makes_a_read_of_a_draft_a_write_is_not_sent(
    asked: Sandbox, production: Production
) -> None:
    data = _get("desk.example", target="/asked")
    edited(asked, _to("desk.example", method="DELETE"), host="desk.example", port=80, data=data)
    assert production.heard == b""


def test_an_edit_to_another_port_of_a_stand_in_goes_nowhere(
    asked: Sandbox, production: Production
) -> None:
    data = _get("pay.example", target="/asked")
    said = edited(asked, _to("pay.example", port=8443), host="pay.example", port=80, data=data)
    assert status(said) == 403
    assert production.heard == b""
