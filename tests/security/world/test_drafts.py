"""Writes that try to get through a draft, whose reads are real: what the real host hears."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock import Sandbox
from paddock.state.home import Home
from security.attack import shell
from security.network.inside import alerts, get, run_directory, say, say_all, status
from security.network.origins import Asked
from security.world.conftest import MakeWorld, Production

VALUE = "sk_live_9c1d7ab3e4f02b6655aa"
DRAFT = {
    "service": "draft",
    "writes": ["GET /tickets/*/close", "GET /do/**"],
    "reads": ["POST /search", "GET /live", "POST /graphql"],
}
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"


def _ask(method: str, target: str, *lines: str, body: bytes = b"") -> dict[str, Any]:
    size = (f"Content-Length: {len(body)}",) if body else ()
    data = get(target, "desk.example", *lines, *size, method=method) + body
    return {"host": "desk.example", "port": 80, "data": data}


def _chunked(method: str, target: str, *lines: str, body: bytes = b"") -> dict[str, Any]:
    data = get(target, "desk.example", *lines, "Transfer-Encoding: chunked", method=method)
    data += b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return {"host": "desk.example", "port": 80, "data": data}


MUTATION = b'{"query": "mutation { close(id: 7) { id } }"}'
HIDDEN = "query=mutation%20%7Bclose(id%3A7)%7Bid%7D%7D"
TRIES = {
    "close": _ask("GET", "/tickets/7/close"),
    "encoded": _ask("GET", "/tickets/7/%63lose"),
    "twice encoded": _ask("GET", "/tickets/7/%2563lose"),
    "encoded slash": _ask("GET", "/tickets/7%2fclose"),
    "slashes": _ask("GET", "//tickets//7///close"),
    "end": _ask("GET", "/tickets/7/close/"),
    "parameter": _ask("GET", "/tickets/7/close;x=1"),
    "parameter before": _ask("GET", "/tickets;a/7;b/close"),
    "json": _ask("GET", "/tickets/7/close.json"),
    "xml": _ask("GET", "/tickets/7/close.xml"),
    "case": _ask("GET", "/Tickets/7/CLOSE"),
    "dots": _ask("GET", "/a/../tickets/7/close"),
    "encoded dots": _ask("GET", "/a/%2e%2e/tickets/7/close"),
    "backslash": _ask("GET", "/tickets\\7\\close"),
    "head": _ask("HEAD", "/tickets/7/close"),
    "query": _ask("GET", "/tickets/7/close?x=1"),
    "deep": _ask("GET", "/do/a/b/c"),
    "override": _ask("GET", "/tickets/7", "X-HTTP-Method-Override: DELETE"),
    "override by dashes": _ask("GET", "/tickets/7", "X_HTTP_Method_Override: DELETE"),
    "override in query": _ask("GET", "/tickets/7?_method=DELETE"),
    "override encoded": _ask("GET", "/tickets/7?%5fmethod=delete"),
    "override of a read": _ask("POST", "/search", "X-HTTP-Method: DELETE"),
    "override in a form": _ask("POST", "/search", FORM, body=b"_method=delete&id=7"),
    "override in a chunked form": _chunked("POST", "/search", FORM, body=b"_method=delete"),
    "override in a file": _ask("POST", "/search", "Content-Type: multipart/form-data; boundary=b",
                               body=b'--b\r\nContent-Disposition: form-data; name="_method"\r\n\r\n'
                                    b"DELETE\r\n--b--\r\n"),
    "search elsewhere": _ask("POST", "/search/../tickets", JSON, body=b"{}"),
    "search encoded": _ask("POST", "/search%2f..%2ftickets", JSON, body=b"{}"),
    "mutation": _ask("POST", "/graphql", JSON, body=MUTATION),
    "mutation by get": _ask("GET", "/graphql?" + HIDDEN),
    "mutation beside": _ask("POST", "/graphql?" + HIDDEN, JSON, body=b'{"query": "{ me }"}'),
    "mutation chunked": _chunked("POST", "/graphql", JSON, body=MUTATION),
    "mutation as text": _ask("POST", "/graphql", "Content-Type: text/plain", body=MUTATION),
    "mutation as graphql": _ask("POST", "/graphql", "Content-Type: application/graphql",
                                body=b"mutation { close(id: 7) { id } }"),
    "mutation encoded": _ask("POST", "/%67raphql", JSON, body=MUTATION),
    "upgrade": _ask("GET", "/live", *UPGRADE),
    "post": _ask("POST", "/tickets", JSON, body=b'{"a": 1}'),
    "chunked": _chunked("POST", "/tickets", body=b'{"a": 1}'),
    "patch": _ask("PATCH", "/tickets/7", "Content-Type: text/html", body=b"<p>"),
    "patch twice": _ask("PATCH", "/tickets/7", JSON, "Content-Type: a/b", body=b"{}"),
    "lower": _ask("delete", "/tickets/7"),
    "unknown": _ask("PURGE", "/tickets/7"),
    "trace": _ask("TRACE", "/tickets/7"),
    "connect": _ask("CONNECT", "/tickets/7"),
    "dav": _ask("PROPPATCH", "/tickets/7"),
}  # fmt: skip


def test_nothing_that_writes_reaches_the_real_host(
    make_world: MakeWorld, production: Production
) -> None:
    box = make_world({"desk.example": DRAFT}, allow=("desk.example:80",))
    said = say_all(box, {name: {**one, "quiet": 0.3} for name, one in TRIES.items()})
    assert not any(answer.startswith(b"HTTP/1.1 101") for answer in said.values())
    assert [one.line for one in production["desk.example"].asked] == []
    assert bytes(production["desk.example"].heard) == b""


def test_reads_do_reach_it(make_world: MakeWorld, production: Production) -> None:
    """Or the attempts above would prove nothing."""
    box = make_world({"desk.example": DRAFT})
    query = b'{"query": "{ me { id } }"}'
    say_all(box, {"get": _ask("GET", "/tickets/7"),
                  "post": _ask("POST", "/search", JSON, body=b"{}"),
                  "graphql": _ask("POST", "/graphql", JSON, body=query),
                  "head": _ask("HEAD", "/tickets/7")})  # fmt: skip
    assert production["desk.example"].targets == ["/tickets/7", "/search", "/graphql", "/tickets/7"]


def test_a_redirect_of_the_real_host_is_not_followed_here(
    make_world: MakeWorld, production: Production
) -> None:
    moved = b"HTTP/1.1 307 Moved\r\nLocation: http://real.example/x\r\nContent-Length: 0\r\n\r\n"
    production["desk.example"].answer = lambda asked: moved
    box = make_world({"desk.example": DRAFT}, allow=("real.example:80",))
    try:
        said = say(box, **_ask("GET", "/tickets/7"))
    finally:
        production["desk.example"].answer = type(production["desk.example"])("").answer
    assert status(said) == 307
    assert production["real.example"].heard == b""


@pytest.fixture
def echoing(production: Production) -> Iterator[None]:
    """A real host that says what it was sent, as some do."""

    def echo(asked: Asked) -> bytes:
        body = json.dumps({"id": "7", "seen": asked.head.decode("latin-1")}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        return head.encode() + b"\r\n\r\n" + body

    usual = production["desk.example"].answer
    production["desk.example"].answer = echo
    yield
    production["desk.example"].answer = usual


def _files_of(box: Sandbox) -> list[Path]:
    root = Home.find().root
    found = [*run_directory(box).rglob("*"), *(root / "worlds" / box.sandbox_id).rglob("*")]
    return [one for one in [*found, *root.glob("*.sqlite*"), *root.glob("*.db*")] if one.is_file()]


@pytest.mark.usefixtures("echoing")
def test_the_value_of_a_secret_is_in_nothing_that_a_draft_keeps(
    make_world: MakeWorld, production: Production, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTACKED_KEY", VALUE)
    secret = {"from": "env:ATTACKED_KEY", "to": ["desk.example"],
              "as": "header:Authorization=Bearer"}  # fmt: skip
    box = make_world({"desk.example": DRAFT, "pay.example": "payments"}, secrets={"KEY": secret})
    placeholder = shell(box, "printenv KEY").stdout.strip()
    assert re.fullmatch(r"paddock_KEY_[0-9a-f]{24}", placeholder)
    key = f"Authorization: Bearer {placeholder}"
    read = say(box, **_ask("GET", "/tickets/7", key))
    assert VALUE.encode() in production["desk.example"].heard  # the read had it
    production.clear()
    written = say(box, **_ask("POST", "/tickets", key, JSON, body=b'{"note": "%b"}'
                              % placeholder.encode()))  # fmt: skip
    again = say(box, **_ask("PATCH", "/tickets/7", key, JSON, body=b'{"a": 1}'))
    read += say(box, **_ask("GET", "/tickets/7", key))
    assert VALUE.encode() not in read + written + again
    box.kill()
    files = _files_of(box)
    assert any(one.suffix == ".sqlite" for one in files)
    assert [one for one in files if VALUE.encode() in one.read_bytes()] == []


def test_a_placeholder_for_another_host_does_not_go_to_a_stand_in(
    make_world: MakeWorld, production: Production, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTACKED_KEY", VALUE)
    secret = {"from": "env:ATTACKED_KEY", "to": ["desk.example"],
              "as": "header:Authorization=Bearer"}  # fmt: skip
    box = make_world({"desk.example": DRAFT, "pay.example": "payments"}, secrets={"KEY": secret})
    placeholder = shell(box, "printenv KEY").stdout.strip().encode()
    to = {"host": "pay.example", "port": 80}
    head = get("/v1/customers", "pay.example", f"Authorization: Bearer {placeholder.decode()}")
    lines = ("Content-Type: a/b", "Transfer-Encoding: chunked")
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(placeholder), placeholder)
    streamed = get("/v1/customers", "pay.example", *lines, method="POST") + body
    assert status(say(box, **to, data=streamed)) == 403
    assert [one["host"] for one in alerts(box, "secret.misplaced")] == ["pay.example"]
    assert alerts(box, "world.failed") == []
    assert status(say(box, **to, data=head)) == 403
    assert production.heard == b""
