"""The same tricks in HTTP/2: authorities, pseudo headers, and what becomes of them in HTTP/1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h2
import hpack
import hyperframe
import pytest

from paddock import Sandbox
from security.attack import probe
from security.network.conftest import Hosts
from security.network.inside import alerts, refused, steps

VALUE = "sk_live_9f3kd02kfj39dkqpw"
# A client that checks nothing of what it sends.
CLIENT = """
import socket, ssl, sys, time
sys.path[:0] = ["/h2/hpack", "/h2/hyperframe", "/h2/h2"]
from h2.connection import H2Connection
from h2.config import H2Configuration
from h2.events import *
def ask(host, port, streams, tls=True, pause_s=0):
    sock = socket.create_connection((host, port), 20)
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        sock = context.wrap_socket(sock, server_hostname=host)
    conn = H2Connection(H2Configuration(client_side=True, validate_outbound_headers=False,
                                        normalize_outbound_headers=False, header_encoding="latin-1",
                                        validate_inbound_headers=False))
    conn.initiate_connection()
    answers = {}
    for number, (headers, body, trailers) in enumerate(streams):
        stream = 1 + 2 * number
        conn.send_headers(stream, [tuple(x) for x in headers], end_stream=not body and not trailers)
        if pause_s:
            sock.sendall(conn.data_to_send())
            time.sleep(pause_s)
        if body:
            conn.send_data(stream, body.encode("latin-1"), end_stream=not trailers)
        if trailers:
            conn.send_headers(stream, [tuple(x) for x in trailers], end_stream=True)
        answers[stream] = None
    sock.sendall(conn.data_to_send())
    while None in answers.values():
        try:
            data = sock.recv(65536)
            events = conn.receive_data(data) if data else []
        except Exception as error:
            data, events = b"", []
        if not data:
            return [x or "cut" for x in answers.values()]
        for event in events:
            if isinstance(event, ResponseReceived):
                answers[event.stream_id] = dict(event.headers)[":status"]
            elif isinstance(event, StreamReset):
                answers[event.stream_id] = answers[event.stream_id] or "reset"
            elif isinstance(event, ConnectionTerminated):
                return [x or "ended" for x in answers.values()]
        sock.sendall(conn.data_to_send())
    return list(answers.values())
for name, words in json.load(open(sys.argv[1])).items():
    try:
        found[name] = ask(**words)
    except Exception as error:
        found[name] = [type(error).__name__ + str(error)]
"""
FILE = """
version: 1
agent: attacker
stage: broad
network:
  allow: [api.example:80, other.example:80, secure.example:443, front.example:443]
  hosts: {{api.example: "{api}", other.example: "{other}", secure.example: "{secure}",
           front.example: "{front}"}}
  tls: {{ca: {ca}}}
secrets:
  API_KEY: {{from: env:ATTACKED_KEY, to: [api.example], as: header:Authorization=Bearer}}
rules:
  - {{id: inside, match: {{kind: [exec, file, code]}}, decide: allow}}
  - {{id: no-deletes, match: {{kind: http, method: DELETE}}, decide: block, why: never}}
"""
Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def box(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    path = tmp_path_factory.mktemp("file") / "paddock.yaml"
    path.write_text(FILE.format(api=hosts.api.place, other=hosts.other.place, ca=hosts.ca,
                                secure=hosts.secure.place, front=hosts.front.place))  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTACKED_KEY", VALUE)
        with Sandbox.create(str(path), mounts=MOUNTS) as made:
            yield made


MOUNTS = [
    {"source": str(Path(module.__file__).parent), "mode": "read",
     "target": f"/h2/{module.__name__}/{module.__name__}"}
    for module in (h2, hpack, hyperframe)
]  # fmt: skip


@pytest.fixture(autouse=True)
def _silence(hosts: Hosts) -> None:
    for origin in hosts.all:
        origin.clear()


def ask(
    box: Sandbox, streams: dict[str, Any], host: str = "secure.example", pause_s: float = 0
) -> dict[str, str]:
    """One connection for each, one stream on it; gives the statuses. With a pause, the head of a
    request arrives by itself."""
    words = {
        name: {"host": host, "port": 443 if host == "secure.example" else 80,
               "tls": host == "secure.example", "streams": [stream], "pause_s": pause_s}
        for name, stream in streams.items()
    }  # fmt: skip
    box.files.write("streams.json", json.dumps(words))
    found = probe(box, CLIENT, "/home/user/streams.json", timeout=90)
    return {name: answers[0] for name, answers in found.items()}


def head(
    *more: tuple[str, str],
    method: str = "GET",
    authority: str = "secure.example",
    path: str = "/",
    scheme: str = "https",
) -> Pairs:
    parts = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
    return [*parts, *more]


def test_a_request_for_the_right_name_is_answered(box: Sandbox, hosts: Hosts) -> None:
    found = ask(box, {"it": (head(path="/yes"), "", [])})
    assert found == {"it": "200"}
    assert hosts.secure.targets == ["/yes"]
    assert hosts.secure.asked[0].host == "secure.example"


def test_another_authority_on_the_same_connection_is_refused(box: Sandbox, hosts: Hosts) -> None:
    """Coalescing: a certificate for both names would make a browser do so."""
    others = [
        "front.example",
        "evil.example",
        "secure.example:444",
        "127.0.0.1",
        "SECURE.example.x",
    ]
    found = ask(box, {one: (head(authority=one), "", []) for one in others})
    assert found == dict.fromkeys(others, "421")
    words = {"host": "secure.example", "port": 443, "tls": True,
             "streams": [(head(path="/1"), "", []), (head(authority="front.example"), "", []),
                         (head(path="/2"), "", [])]}  # fmt: skip
    box.files.write("one.json", json.dumps({"it": words}))
    assert probe(box, CLIENT, "/home/user/one.json")["it"] == ["200", "421", "200"]
    assert sorted(hosts.secure.targets) == ["/1", "/2"]
    assert hosts.front.asked == []
    assert set(others) <= {about["claimed"] for about in alerts(box, "egress.mismatch")}
    assert refused(box, "http")


BAD = {
    "another host header": (head(("host", "front.example")), "", []),
    "two authorities": (
        [(":authority", "secure.example"), *head(authority="front.example")], "", []),
    "no authority": ([x for x in head() if x[0] != ":authority"], "", []),
    "no authority but a host": (
        [*(x for x in head() if x[0] != ":authority"), ("host", "front.example")], "", []),
    "an empty authority": (head(authority=""), "", []),
    "a user in the authority": (head(authority="secure.example@evil.example"), "", []),
    "another scheme": (head(scheme="http"), "", []),
    "a scheme that is a URL": (head(scheme="https://evil.example/"), "", []),
    "an absolute path": (head(path="https://front.example/"), "", []),
    "a path without a slash": (head(path="evil"), "", []),
    "an empty path": (head(path=""), "", []),
    "a space in the path": (head(path="/a HTTP/1.1\r\nX: y"), "", []),
    "a line in the path": (head(path="/\r\nHost: front.example"), "", []),
    "a line in the method": (head(method="GET / HTTP/1.1\r\nHost: x\r\n\r\nDELETE"), "", []),
    "a space in the method": (head(method="GET /smuggled"), "", []),
    "a line in a value": (head(("x", "y\r\nhost: front.example")), "", []),
    "a line feed in a value": (head(("x", "y\nhost: front.example")), "", []),
    "a request in a value": (head(("x", "y\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")), "", []),
    "a line in a name": (head(("x: y\r\nhost", "front.example")), "", []),
    "a colon in a name": (head(("host:x", "front.example")), "", []),
    "a NUL in a value": (head(("x", "a\0b")), "", []),
    "a name in capitals": (head(("Host", "front.example")), "", []),
    "an empty name": (head(("", "x")), "", []),
    "transfer-encoding": (head(("transfer-encoding", "chunked"), method="POST"), "0\r\n\r\n", []),
    "connection": (head(("connection", "content-length")), "", []),
    "upgrade": (head(("upgrade", "websocket")), "", []),
    "a pseudo header that comes late": (
        [*head()[:3], ("x", "y"), (":path", "/")], "", []),
    "an unknown pseudo header": (head((":protocol", "websocket")), "", []),
    "a length that is too short": (head(("content-length", "0"), method="POST"), "GET /s", []),
    "a length that is too long": (head(("content-length", "99"), method="POST"), "hi", []),
    "two lengths": (
        head(("content-length", "2"), ("content-length", "9"), method="POST"), "hi", []),
    "a length of nonsense": (head(("content-length", "+2"), method="POST"), "hi", []),
    "a pseudo header among trailers": (
        head(method="POST"), "hi", [(":path", "/smuggled"), ("x", "y")]),
    "connect": ([(":method", "CONNECT"), (":authority", "evil.example:443")], "", []),
    "a method in small letters": (head(method="delete"), "", []),
    "a method that is blocked": (head(method="DELETE"), "", []),
}  # fmt: skip


def test_what_could_be_read_in_two_ways_is_refused(box: Sandbox, hosts: Hosts) -> None:
    found = ask(box, BAD)
    let_through = {name: answer for name, answer in found.items() if answer.startswith(("2", "3"))}
    assert let_through == {}
    assert [one.line for one in hosts.secure.asked] == []
    assert hosts.front.asked == []


def test_the_same_holds_for_a_body_that_comes_after_its_head(box: Sandbox, hosts: Hosts) -> None:
    late = {name: stream for name, stream in BAD.items() if stream[1]}
    found = ask(box, late, pause_s=0.2)
    assert not any(answer.startswith(("2", "3")) for answer in found.values()), found
    assert hosts.secure.asked == []


def test_the_same_holds_without_tls(box: Sandbox, hosts: Hosts) -> None:
    """HTTP/2 from its first byte on, to a port that is allowed."""

    def plain(**more: str) -> Pairs:
        return head(scheme="http", **{"authority": "api.example", **more})

    found = ask(
        box,
        {
            "other": (plain(authority="other.example"), "", []),
            "scheme": (head(authority="api.example"), "", []),
            "delete": (plain(method="DELETE"), "", []),
        },
        "api.example",
    )
    assert not any(answer.startswith("2") for answer in found.values()), found
    assert found["other"] == "421"
    assert found["delete"] == "403"
    assert hosts.other.asked == []
    assert not any("DELETE" in one.line for one in hosts.api.asked)


def test_a_placeholder_does_not_leave(box: Sandbox, hosts: Hosts) -> None:
    placeholder = box.commands.run("printenv API_KEY").stdout.strip()
    streams = {
        "path": (head(path=f"/{placeholder}"), "", []),
        "header": (head(("x", placeholder)), "", []),
        "header name": (head((placeholder.lower(), "x")), "", []),
        "body": (head(method="POST"), placeholder, []),
        "trailer": (head(method="POST"), "hi", [("x", placeholder)]),
        "trailer name": (head(method="POST"), "hi", [(placeholder.lower(), "x")]),
        "method": (head(method=placeholder), "", []),
        "cookie": (head(("cookie", f"k={placeholder}")), "", []),
    }
    found = ask(box, streams)
    assert {name: answer for name, answer in found.items() if answer.startswith("2")} == {}
    assert placeholder.rpartition("_")[2].encode() not in bytes(hosts.secure.heard)
    assert {"secret": "API_KEY", "host": "secure.example", "port": 443} in alerts(
        box, "secret.misplaced"
    )
    assert VALUE.encode() not in bytes(hosts.secure.heard)
    assert steps(box, "http")


def test_a_placeholder_does_not_leave_as_a_method(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP/2 has methods of any letters, and no rule here looks at one."""
    monkeypatch.setenv("ATTACKED_KEY", VALUE)
    secrets = {"API_KEY": {"from": "env:ATTACKED_KEY", "to": ["api.example"]}}
    with Sandbox.create(network=hosts.network, secrets=secrets, mounts=MOUNTS) as box:
        placeholder = box.commands.run("printenv API_KEY").stdout.strip()
        found = ask(box, {"it": (head(method=placeholder), "", [])})
        assert found == {"it": "403"}
        assert hosts.secure.asked == []
        assert alerts(box, "secret.misplaced")
