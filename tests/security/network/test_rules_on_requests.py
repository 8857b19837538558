"""A request that a rule blocks, spelled so that the rule might not know it again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from paddock import Sandbox
from security.network.conftest import Hosts
from security.network.inside import PROXY, get, say, say_all, status, steps

FILE = """
version: 1
agent: attacker
stage: broad
network:
  allow: [api.example:80, other.example:80, secure.example:443]
  hosts: {{api.example: "{api}", other.example: "{other}", secure.example: "{secure}"}}
  tls: {{ca: {ca}}}
rules:
  - {{id: inside, match: {{kind: [exec, file, code]}}, decide: allow}}
  - {{id: no-deletes, match: {{kind: http, method: DELETE}}, decide: block, why: never}}
  - {{id: no-admin, match: {{kind: http, path: /admin/**}}, decide: block, why: never}}
  - {{id: no-refund, match: {{kind: http, method: POST, path: /v1/refunds}},
     when: int(body.amount) > 5000, decide: block, why: too much}}
"""


@pytest.fixture(scope="module")
def box(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    path: Path = tmp_path_factory.mktemp("file") / "paddock.yaml"
    path.write_text(FILE.format(api=hosts.api.place, other=hosts.other.place,
                                secure=hosts.secure.place, ca=hosts.ca))  # fmt: skip
    with Sandbox.create(str(path)) as made:
        yield made


@pytest.fixture(autouse=True)
def _silence(hosts: Hosts) -> None:
    for origin in hosts.all:
        origin.clear()


ADMIN = [
    "/admin/users", "/%61dmin/users", "/%61%64%6d%69%6e/users", "/admin%2fusers", "//admin/users",
    "/./admin/users", "/x/../admin/users", "/x/%2e%2e/admin/users", "/x/..%2fadmin/users",
    "/.%2e/admin/users", "/admin;x=y/users", "/;/admin/users", "/admin/;x", "\\admin\\users",
    "/%5cadmin/users", "/x/..;/admin/users", "/admin/users%00", "/%2561dmin/users", "/admin//users",
    "/admin/./users", "/%c0%ae%c0%ae/admin/users", "/admin/users?x=/y", "/admin/%75sers",
    "/\u0061dmin/users", "/x%2f..%2fadmin/users", "/admin/", "/%09/admin/users", "/admin/users#x",
]  # fmt: skip


@pytest.mark.parametrize("way", ["straight", "absolute", "tunnel"])
def test_no_spelling_of_a_path_gets_past_a_rule(box: Sandbox, hosts: Hosts, way: str) -> None:
    said = {}
    for path in ADMIN:
        target = f"http://api.example{path}" if way == "absolute" else path
        place = PROXY if way != "straight" else ("api.example", 80)
        said[path] = {"host": place[0], "port": place[1], "data": get(target, "api.example")}
        if way == "tunnel":
            said[path]["tunnel"] = (
                b"CONNECT api.example:80 HTTP/1.1\r\nHost: api.example:80\r\n\r\n"
            )
    answers = say_all(box, said)
    assert {path: status(a) for path, a in answers.items() if status(a) not in (400, 403)} == {}
    assert hosts.api.asked == []


def test_what_the_rule_does_not_mean_passes(box: Sandbox, hosts: Hosts) -> None:
    for path in ("/administer", "/x/admin", "/v1/things?path=/admin/users", "/a%20b"):
        assert status(say(box, host="api.example", port=80, data=get(path, "api.example"))) == 200
    assert hosts.api.targets[-1] == "/a%20b"


@pytest.mark.parametrize("method", ["DELETE", "delete", "Delete", "DELETE\t", "DELETEX", "DELETE ",
                                    "D\u0395LETE", "\nDELETE", " DELETE"])  # fmt: skip
def test_no_spelling_of_a_method_gets_past_a_rule(box: Sandbox, hosts: Hosts, method: str) -> None:
    head = get("/x", "api.example").removeprefix(b"GET")
    answer = say(box, host="api.example", port=80, data=method.encode() + head)
    assert status(answer) in (0, 400, 403, 501)
    assert hosts.api.asked == []


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "x-http-method", "X-METHOD-OVERRIDE"])
def test_a_method_that_a_header_asks_for_is_refused(box: Sandbox, hosts: Hosts, name: str) -> None:
    """A server that believes the header would delete what a rule took for a POST."""
    for method in ("DELETE", "delete"):
        data = get("/x", "api.example", f"{name}: {method}", method="POST")
        assert status(say(box, host="api.example", port=80, data=data)) == 403
    assert hosts.api.asked == []


def _refund(body: bytes, *lines: str, length: bool = True) -> bytes:
    more = [f"Content-Length: {len(body)}"] if length else []
    return get("/v1/refunds", "api.example", *more, *lines, method="POST") + body


FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"
POLYGLOT = b'{"amount": 1, "x": "&amount=9999&"}'  # one amount as JSON, another one as a form
REFUNDS = {
    "json": _refund(b'{"amount": 9999}', JSON),
    "form": _refund(b"amount=9999", FORM),
    "a text": _refund(b'{"amount": "9999"}', JSON),
    "a float": _refund(b'{"amount": 9.999e3}', JSON),
    "a huge number": _refund(b'{"amount": 1e400}', JSON),
    "not a number": _refund(b'{"amount": NaN}', JSON),
    "the key twice": _refund(b'{"amount": 1, "amount": 9999}', JSON),
    "the key twice, once escaped": _refund(b'{"amount": 1, "\\u0061mount": 9999}', JSON),
    "the field twice": _refund(b"amount=1&amount=9999", FORM),
    "the field twice, once escaped": _refund(b"amount=1&%61mount=9999", FORM),
    "the field as a list": _refund(b"amount[]=9999", FORM),
    "semicolons": _refund(b"amount=1;amount=9999", FORM),
    "no type": _refund(b'{"amount": 9999}'),
    "another type": _refund(b'{"amount": 9999}', "Content-Type: text/plain"),
    "multipart": _refund(b'--x\r\nContent-Disposition: form-data; name="amount"\r\n\r\n9999'
                         b"\r\n--x--\r\n", "Content-Type: multipart/form-data; boundary=x"),
    "compressed": _refund(gzip.compress(b'{"amount": 9999}'), JSON, "Content-Encoding: gzip"),
    "said to be compressed": _refund(b'{"amount": 1}', JSON, "Content-Encoding: gzip"),
    "encoded twice": _refund(b'{"amount": 1}', JSON, "Content-Encoding: identity",
                             "Content-Encoding: gzip"),
    "a mark in front": _refund(b'\xef\xbb\xbf{"amount": 9999}', JSON),
    "utf-16": _refund('{"amount": 9999}'.encode("utf-16"), JSON),
    "utf-7": _refund(b'{"amount": 1, "x":'
                     b' "+ACIALAAiAGEAbQBvAHUAbgB0ACIAOgA5ADkAOQA5ACwAIgB5ACIAOgAi-"}',
                     JSON + "; charset=utf-7"),
    "chunked": get("/v1/refunds", "api.example", JSON, "Transfer-Encoding: chunked", method="POST")
               + b'8\r\n{"amount\r\n8\r\n": 9999}\r\n0\r\n\r\n',
    "huge": _refund(b'{"x": "' + b"A" * (1 << 20) + b'", "amount": 9999}', JSON),
    "deep": _refund(b'{"amount": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", JSON),
    "empty": _refund(b"", JSON),
    "no length": _refund(b"", JSON, length=False),
    "a list": _refund(b'[{"amount": 9999}]', JSON),
    "two documents": _refund(b'{"amount": 1}{"amount": 9999}', JSON),
    "two types": _refund(POLYGLOT, JSON, FORM),
    "two types, the other way round": _refund(POLYGLOT, FORM, JSON),
    "a list of types": _refund(POLYGLOT, f"{FORM}, a/b+json"),
    "a type with a space": _refund(POLYGLOT, f"{FORM} x+json"),
    "a type with a comma": _refund(POLYGLOT, "Content-Type: application/json,x"),
    "expect": _refund(b'{"amount": 9999}', JSON, "Expect: 100-continue"),
    "the path escaped": _refund(b"amount=9999", FORM).replace(b"/v1/refunds", b"/v1/%72efunds"),
    "bytes that are no text": _refund(b"amount=1&x=%ff&\xff=1", FORM),
}  # fmt: skip


def test_no_body_gets_past_a_rule_that_reads_it(box: Sandbox, hosts: Hosts) -> None:
    answers = say_all(box, {name: {"host": "api.example", "port": 80, "data": data}
                            for name, data in REFUNDS.items()})  # fmt: skip
    assert {n: status(a) for n, a in answers.items() if status(a) not in (400, 403)} == {}
    assert [(one.line, one.body[:80]) for one in hosts.api.asked] == []


def test_a_body_that_the_rule_does_not_mean_passes(box: Sandbox, hosts: Hosts) -> None:
    said = {
        "json": _refund(b'{"amount": 5000}', JSON),
        "charset": _refund(b'{"amount": 5000}', JSON + "; charset=UTF-8"),
        "quoted": _refund(b"amount=1", FORM + '; charset="utf-8"'),
        "form": _refund(b"amount=5000&x=y", FORM),
        "problem": _refund(b'{"amount": 1}', "Content-Type: application/vnd.api+json"),
        "chunked": get("/v1/refunds", "api.example", JSON, "Transfer-Encoding: chunked",
                       method="POST") + b'd\r\n{"amount": 1}\r\n0\r\n\r\n',
    }  # fmt: skip
    answers = say_all(box, {name: {"host": "api.example", "port": 80, "data": data}
                            for name, data in said.items()})  # fmt: skip
    assert {name: status(answer) for name, answer in answers.items()} == dict.fromkeys(said, 200)


def test_rules_hold_inside_of_tls_and_tunnels(box: Sandbox, hosts: Hosts) -> None:
    data = get("/x", "secure.example", method="DELETE")
    tunnel = b"CONNECT secure.example:443 HTTP/1.1\r\nHost: secure.example:443\r\n\r\n"
    answers = say_all(
        box,
        {
            "tls": {"host": "secure.example", "port": 443, "sni": "secure.example", "data": data},
            "tunnel": {"host": PROXY[0], "port": PROXY[1], "sni": "secure.example", "data": data,
                       "tunnel": tunnel},
        },
    )  # fmt: skip
    assert {status(answer) for answer in answers.values()} == {403}
    assert hosts.secure.asked == []


def test_what_follows_a_websocket_is_no_request(box: Sandbox, hosts: Hosts) -> None:
    """After the change of protocol only frames pass, so no request can hide there."""
    switched = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")  # fmt: skip
    hosts.other.answer = lambda asked: switched
    try:
        lines = ("Upgrade: websocket", "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
        upgrade = get("/ws", "other.example", *lines).replace(b"close", b"Upgrade")
        data = upgrade + get("/after", "other.example", method="DELETE")
        answer = say(box, host="other.example", port=80, data=data)
    finally:
        hosts.other.answer = type(hosts.other)("").answer
    assert answer.startswith(b"HTTP/1.1 101")
    assert b"DELETE" not in bytes(hosts.other.heard)
    assert hosts.other.targets == ["/ws"]


def test_a_refusal_says_why_and_is_in_the_journal(box: Sandbox) -> None:
    answer = say(box, host="api.example", port=80, data=get("/admin/x", "api.example"))
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body["error"]["rule"] == "no-admin"
    step = steps(box, "http")[-1]
    assert step.decided_by == "no-admin"
    assert quote("/admin/x") in str(step.proposed)
