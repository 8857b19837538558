"""A sandbox's network while it is used: other terms, stages, approvals, secrets. What holds for one
connection at a time is in the unit tests of the door."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.origin import Origin, running
from conformance.waiting import eventually
from paddock import Sandbox
from paddock.gate.approvals import Approval, Approvals
from paddock.gate.run_gate import gate_store
from paddock.journal.log import RunLog
from paddock.model.steps import Step
from paddock.state.home import Home

DIRECT = "env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY"
PROXIED = "env http_proxy=http://198.18.0.1:3128"
JSON = "-H 'Content-Type: application/json'"
VALUE = "sk_test_3a8e5c0d97b2"


@pytest.fixture
def origin() -> Iterator[Origin]:
    with running() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Origin]:
    with running() as server:
        yield server


class _Ticks(socketserver.ThreadingTCPServer):
    """Says something ten times a second to whoever asks, and knows when they are gone."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Ticking)
        self.has_ended = threading.Event()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Ticking(socketserver.BaseRequestHandler):
    server: _Ticks

    def handle(self) -> None:
        self.request.recv(65536)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        with contextlib.suppress(OSError):
            self.request.sendall(head)
            while not self.server.has_ended.wait(0.1):
                self.request.sendall(b"5\r\ntick\n\r\n")
        self.server.has_ended.set()


@pytest.fixture
def ticks() -> Iterator[_Ticks]:
    with _Ticks() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.has_ended.set()
        server.shutdown()


def _curl(box: Sandbox, words: str, lead: str = DIRECT) -> tuple[int, str]:
    """The status that curl saw (0 without an answer), and the body."""
    command = f"{lead} curl -s -m 20 -o /tmp/out -w '%{{http_code}}' {words}; echo; cat /tmp/out"
    out = box.commands.run(f"rm -f /tmp/out; {command} 2>/dev/null || true").stdout
    status, _, body = out.partition("\n")
    return int(status), body


def _steps(box: Sandbox, kind: str) -> list[Step]:
    steps = RunLog(Home.find().runs / box.sandbox_id).steps()
    return [step for step in steps if step.kind == kind]


def _policy(directory: Path, network: dict[str, Any], *rules: dict[str, Any], **more: Any) -> str:
    inside = {"id": "inside", "match": {"kind": ["exec", "file", "code"]}, "decide": "allow"}
    words = {"version": 1, "agent": "tester", "stage": "broad", "network": network, **more}
    path = directory / "paddock.yaml"
    path.write_text(json.dumps({**words, "rules": [inside, *rules]}))
    return str(path)


def _reach(place: str, *entries: str) -> dict[str, Any]:
    names = {entry.partition(":")[0] for entry in entries}
    return {"allow": list(entries), "hosts": dict.fromkeys(names, place)}


@pytest.mark.parametrize("lead", [DIRECT, PROXIED], ids=["redirected", "by the proxy"])
def test_an_answer_under_way_is_cut_when_its_host_is_no_longer_allowed(
    make_box: MakeBox, ticks: _Ticks, lead: str
) -> None:
    box = make_box(network=_reach(ticks.place, "api.example:80"))
    lines: list[str] = []
    command = f"{lead} curl -sN -m 60 http://api.example/stream"
    running = box.commands.run(command, background=True, on_stdout=lines.append)
    eventually(lambda: "tick" in "".join(lines))
    box.update_network(["other.example:80"])
    eventually(ticks.has_ended.is_set)
    with contextlib.suppress(Exception):
        running.wait()


def test_a_bare_connection_is_cut_when_it_is_allowed_in_another_way(
    make_box: MakeBox, ticks: _Ticks
) -> None:
    box = make_box(network=_reach(ticks.place, "db.example:5432/tcp"))
    lines: list[str] = []
    program = (
        "import socket\n"
        "s = socket.create_connection(('db.example', 5432)); s.sendall(b'x')\n"
        "print(len(s.recv(10)), flush=True)\n"
        "try:\n"
        "    while s.recv(100): pass\n"
        "except OSError: pass\n"
        "print('cut', flush=True)\n"
    )
    box.files.write("client.py", program)
    box.commands.run(["python3", "client.py"], background=True, on_stdout=lines.append)
    eventually(lambda: "10" in "".join(lines))
    assert box.alerts() == []
    box.update_network(["db.example:5432"], hosts={"db.example": ticks.place})
    eventually(lambda: "cut" in "".join(lines))
    eventually(lambda: [s for s in _steps(box, "connect") if s.settled is not None])
    (step,) = _steps(box, "connect")
    assert step.settled is not None
    assert step.result["bytes_out"] == 1
    assert step.result["bytes_in"] > 10


def test_a_bare_connection_that_is_open_when_the_sandbox_ends_is_counted(
    make_box: MakeBox, ticks: _Ticks
) -> None:
    box = make_box(network=_reach(ticks.place, "db.example:5432/tcp"))
    program = (
        "import socket, time\n"
        "s = socket.create_connection(('db.example', 5432)); s.sendall(b'x')\n"
        "print(len(s.recv(10)), flush=True); time.sleep(60)\n"
    )
    box.files.write("client.py", program)
    lines: list[str] = []
    box.commands.run(["python3", "client.py"], background=True, on_stdout=lines.append)
    eventually(lambda: "10" in "".join(lines))
    box.kill()
    (step,) = _steps(box, "connect")
    assert step.settled is not None
    assert step.result["bytes_out"] == 1
    assert step.result["bytes_in"] >= 10


@pytest.mark.parametrize("lead", [DIRECT, PROXIED], ids=["redirected", "by the proxy"])
def test_a_name_that_is_moved_leads_to_its_new_place_at_once(
    make_box: MakeBox, origin: Origin, other: Origin, lead: str
) -> None:
    box = make_box(network=_reach(origin.place, "api.example:80"))
    assert _curl(box, "http://api.example/1", lead)[0] == 200
    box.update_network(["api.example:80"], hosts={"api.example": other.place})
    assert _curl(box, "http://api.example/2", lead)[0] == 200
    assert [seen["path"] for seen in origin.seen] == ["/1"]
    assert [seen["path"] for seen in other.seen] == ["/2"]
    assert box.alerts() == []


def test_a_stage_that_only_reads_is_not_talked_into_a_write(
    make_box: MakeBox, origin: Origin, tmp_path: Path
) -> None:
    network = {**_reach(origin.place, "api.example:80"), "graphql": ["api.example/graphql"]}
    box = make_box(policy=_policy(tmp_path, network, stage="observe"))
    query = """-d '{"query":"{a}"}'"""
    for words in (
        f"-X DELETE {JSON} {query} http://api.example/v1/customers/5",
        f"{JSON} {query} http://api.example/v1/accounts/5/close",
        f"{JSON} {query} 'http://api.example/graphql?query=mutation%7Bdrop%7D'",
        f"""{JSON} -d '{{"query":"{{a}}","delete":true}}' http://api.example/graphql""",
        f"{JSON} {query} http://api.example/v1/accounts/5/close/graphql",
        "-H 'X-HTTP-Method-Override: DELETE' http://api.example/v1/customers/6",
    ):
        assert _curl(box, words)[0] == 403
    assert origin.seen == []
    assert _curl(box, f"{JSON} {query} http://api.example/graphql")[0] == 200
    assert _curl(box, "http://api.example/v1/customers/5")[0] == 200
    assert box.alerts() == []


KEY = {"KEY": {"from": "env:TEST_KEY", "to": ["api.example"], "as": "header:Authorization=Bearer"}}


def test_a_secret_does_not_leave_by_plain_http(
    make_box: MakeBox, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", VALUE)
    network = _reach(origin.place, "api.example:443")
    box = make_box(network=network, secrets=KEY)
    assert _curl(box, "http://api.example:443/")[0] == 403
    assert _curl(box, "http://api.example:443/", PROXIED)[0] == 403
    assert origin.seen == []
    box.update_network(["api.example:80"], hosts={})
    status, body = _curl(box, "http://api.example/")
    assert (status, "https only" in body) == (403, True)
    assert [one.name for one in box.alerts()] == ["secret.misplaced"]
    box.update_network(["api.example:80"], hosts={"api.example": origin.place})
    assert _curl(box, "http://api.example/")[0] == 200
    assert [seen["headers"]["authorization"] for seen in origin.seen] == [f"Bearer {VALUE}"]


ASK = {"id": "ask", "match": {"kind": "http", "method": "POST"}, "decide": "ask"}


@pytest.fixture
def asking(make_box: MakeBox, origin: Origin, tmp_path: Path) -> Sandbox:
    return make_box(policy=_policy(tmp_path, _reach(origin.place, "api.example:80"), ASK))


def _question(box: Sandbox) -> tuple[Approvals, Approval]:
    store = Approvals(gate_store(Home.find()))
    eventually(lambda: store.all(run=box.sandbox_id))
    (asked,) = store.all(run=box.sandbox_id)
    return store, asked


def _answered(box: Sandbox, words: str, answer: Callable[[Approvals, Approval], object]) -> str:
    """What curl got for a request that was asked about."""
    lines: list[str] = []
    command = f"{DIRECT} curl -s -m 20 -w ' %{{http_code}}' {words} http://api.example/pay"
    running = box.commands.run(command, background=True, on_stdout=lines.append)
    answer(*_question(box))
    running.wait()
    return "".join(lines)


def test_an_edited_request_is_the_one_that_is_sent_and_recorded(
    asking: Sandbox, origin: Origin
) -> None:
    def edit(store: Approvals, asked: Approval) -> None:
        arguments = {**asked.content["arguments"], "body": {"amount": 300}}
        store.edit(asked.approval_id, "ann", arguments)

    said = _answered(asking, f"""{JSON} -d '{{"amount":9000}}'""", edit)
    assert said.endswith(" 200")
    assert [seen["body"] for seen in origin.seen] == ['{"amount":300}']
    first, second = _steps(asking, "http")
    assert (first.outcome, second.outcome) == ("refused", "done")


def test_an_edit_of_headers_is_refused_in_a_sentence(asking: Sandbox, origin: Origin) -> None:
    def edit(store: Approvals, asked: Approval) -> None:
        headers = {**asked.content["arguments"]["headers"], "x-mode": "test"}
        store.edit(asked.approval_id, "ann", {**asked.content["arguments"], "headers": headers})

    said = _answered(asking, "-d a=1 -H 'X-Mode: live'", edit)
    assert said.endswith(" 403")
    assert "headers of a request cannot be edited." in said
    assert origin.seen == []


def test_an_answer_after_the_terms_changed_says_what_to_do(asking: Sandbox, origin: Origin) -> None:
    def answer(store: Approvals, asked: Approval) -> None:
        hosts = {"api.example": origin.place}
        asking.update_network(["api.example:80", "more.example:80"], hosts=hosts)
        store.approve(asked.approval_id, "ann")

    said = _answered(asking, "-d a=1", answer)
    assert said.endswith(" 403")
    assert "The terms changed while it was asked. Try it again." in said
    assert origin.seen == []


def test_a_request_whose_client_gave_up_is_not_sent_when_it_is_approved(
    asking: Sandbox, origin: Origin
) -> None:
    asking.commands.run(f"{DIRECT} curl -s -m 1 -d a=1 http://api.example/pay; sleep 0.5")
    store, asked = _question(asking)
    store.approve(asked.approval_id, "ann")
    eventually(lambda: [s for s in _steps(asking, "http") if s.settled is not None])
    assert origin.seen == []
    assert _curl(asking, "http://api.example/get")[0] == 200
