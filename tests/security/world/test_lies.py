"""Whether an agent can make the journal say what was not so: whose fault it was, which step."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from paddock import Sandbox
from paddock.state.home import Home
from security.attack import eventually
from security.network.inside import alerts, get, say, say_all, status, steps
from security.world.conftest import MakeWorld, edited

LONG = "Content-Length: 2000000"  # too long to be read before it is decided on
KEY = "Authorization: Bearer sk_test_inside"
APP = """
from paddock.world.service import Service

class Notes(Service):
    name = "notes"
    def app(self):
        store = self.context.store
        async def app(scope, receive, send):
            if scope["type"] != "http":
                return
            message = await receive()
            store.put("note", scope["path"], {"id": scope["path"]})
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"kept"})
        return app
"""
PROGRAM = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = repr([(k.lower(), v) for k, v in self.headers.items()]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        self.rfile.read(size)
        self.do_GET()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
"""


def _post(body: bytes, *lines: str, host: str = "pay.example") -> bytes:
    return get("/v1/customers", host, KEY, *lines, method="POST") + body


def _blamed(box: Sandbox) -> list[Any]:
    settled = [step.settled for step in steps(box, "http") if step.settled is not None]
    return [one.result.get("fault_of") for one in settled if isinstance(one.result, dict)]


def _store(box: Sandbox, place: str) -> Path:
    return Home.find().root / "worlds" / box.sandbox_id / f"{place}.sqlite"


def test_a_broken_body_is_no_fault_of_the_stand_in(make_world: MakeWorld) -> None:
    box = make_world({"pay.example": "payments"})
    chunked = _post(b"5\r\nabcde\r\nZZ\r\n", "Transfer-Encoding: chunked", "Content-Type: a/b")
    cut = _post(b"abcde", LONG, "Content-Type: a/b")
    to = {"host": "pay.example", "port": 80}
    said = say_all(box, {"chunked": {**to, "data": chunked},
                         "cut": {**to, "data": cut, "is_done": True}})  # fmt: skip
    assert status(said["chunked"]) == 400
    assert _blamed(box) == [None, None]
    assert alerts(box, "world.failed") == []


def test_a_broken_body_is_no_fault_of_a_program_that_stands_in(
    make_world: MakeWorld, tmp_path: Path
) -> None:
    (tmp_path / "fake.py").write_text(PROGRAM)
    run = {"service": "command", "run": ["python3", "fake.py"], "port": 9000}
    box = make_world({"pay.example": run})
    cut = _post(b"abcde", "Content-Length: 500000", "Content-Type: a/b")
    chunked = _post(b"5\r\nabcde\r\nZZ\r\n", "Transfer-Encoding: chunked", "Content-Type: a/b")
    to = {"host": "pay.example", "port": 80}
    say_all(box, {"cut": {**to, "data": cut, "is_done": True}, "chunked": {**to, "data": chunked}})
    assert _blamed(box) in ([None, None], [None])
    assert alerts(box, "world.failed") == []


def test_a_body_that_does_not_come_is_no_fault_of_the_stand_in(make_world: MakeWorld) -> None:
    box = make_world({"pay.example": {"service": "payments", "timeout": "1s"}})
    slow = _post(b"abcde", LONG, "Content-Type: a/b")
    assert status(say(box, host="pay.example", port=80, data=slow)) == 408
    assert _blamed(box) == [None]
    assert alerts(box, "world.failed") == []


@pytest.mark.parametrize("name", ["x-paddock-step", "X-Paddock-Step", "x_paddock_step"])
def test_an_agent_cannot_name_the_step_of_its_changes(
    make_world: MakeWorld, tmp_path: Path, name: str
) -> None:
    (tmp_path / "notes.py").write_text(APP)
    box = make_world({"pay.example": {"service": "app", "app": "notes:Notes"}})
    lines = [f"{name}: 4711"]
    said = say(box, host="pay.example", port=80, data=get("/a", "pay.example", *lines))
    assert b"kept" in said
    with contextlib.closing(sqlite3.connect(_store(box, "pay.example"))) as database:
        rows = database.execute("SELECT DISTINCT step FROM changes WHERE kind = 'note'").fetchall()
    assert rows == [(steps(box, "http")[0].number,)]


def test_a_program_that_stands_in_gets_one_step_and_it_is_true(
    make_world: MakeWorld, tmp_path: Path
) -> None:
    (tmp_path / "fake.py").write_text(PROGRAM)
    run = {"service": "command", "run": ["python3", "fake.py"], "port": 9000}
    box = make_world({"pay.example": run})
    lines = ["x-paddock-step: 4711", "X_Paddock_Step: 4712", "x-paddock: block"]
    said = say(box, host="pay.example", port=80, data=get("/a", "pay.example", *lines))
    heard = eval(said.rpartition(b"\r\n\r\n")[2])
    told = [one for one in heard if one[0].startswith(("x-paddock", "x_paddock"))]
    assert told == [("x-paddock-step", str(steps(box, "http")[0].number))]


def test_what_an_approver_writes_is_what_a_stand_in_does(make_world: MakeWorld) -> None:
    rules = "rules:\n  - {id: pays, match: {kind: http, method: POST}, decide: ask}\n"
    box = make_world({"pay.example": "payments"}, rules=rules)
    body = b"email=mallory%40example.com"
    head = [KEY, f"Content-Length: {len(body)}", "Content-Type: application/x-www-form-urlencoded"]
    data = get("/v1/customers", "pay.example", *head, method="POST") + body

    def edit(words: dict[str, Any]) -> dict[str, Any]:
        return {**words, "body": {"email": "ada@example.com"}}

    said = edited(box, edit, host="pay.example", port=80, data=data)
    assert json.loads(said.rpartition(b"\r\n\r\n")[2])["email"] == "ada@example.com"
    listed = say(box, host="pay.example", port=80, data=get("/v1/customers", "pay.example", KEY))
    assert b"mallory" not in listed


def test_an_edit_to_another_stand_in_is_answered_by_that_one(
    make_world: MakeWorld, tmp_path: Path
) -> None:
    (tmp_path / "fake.py").write_text(PROGRAM)
    run = {"service": "command", "run": ["python3", "fake.py"], "port": 9000}
    rules = "rules:\n  - {id: pays, match: {kind: http, method: POST}, decide: ask}\n"
    box = make_world({"pay.example": "payments", "other.example": run}, rules=rules)
    data = _post(b"a=b", "Content-Length: 3", "Content-Type: application/x-www-form-urlencoded")

    def edit(words: dict[str, Any]) -> dict[str, Any]:
        return {**words, "host": "other.example"}

    said = edited(box, edit, host="pay.example", port=80, data=data)
    assert b"('host', 'other.example')" in said
    assert eventually(lambda: len(steps(box, "http")) == 2)
