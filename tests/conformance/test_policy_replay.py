"""`paddock policy replay` with the file of a run changes nothing, whatever the run did: questions
that were answered in every way, limits over runs and over days, faults, stand-ins, models, tools,
drafts, refusals of the doors themselves, forks.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.origin import running
from paddock import Tools, open_run, tool
from paddock.cli.main import _run
from paddock.doors.machine.engine import Engine
from paddock.gate.approvals import Approval, Approvals
from paddock.gate.run_gate import gate_store
from paddock.journal.log import RunLog
from paddock.policy.file import load
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.session import FinishedRun, run

AGENTS = Path(__file__).parent / "run" / "agents"
FILE = """\
version: 1
agent: {agent}
stage: {stage}
network:
  allow: ["api.test:80"]
  hosts: {{api.test: "{place}"}}
world:
  api.anthropic.com: {{service: model, script: {{otherwise: "answer {{{{counter.x}}}}"}}}}
  api.stripe.com: payments
faults:
  - {{id: busy, match: {{kind: http, host: api.test, path: /flaky}}, fault: {{status: 429}},
     first: 1}}
  - {{id: lost, match: {{kind: http, host: api.stripe.com, method: POST, path: /v1/refunds}},
     fault: {{status: 500}}, first: 1}}
  - {{id: no-model, match: {{kind: model}}, fault: {{status: 529}}, first: 1}}
rules:
  - {{id: people, match: {{kind: http, host: api.test, path: "/ask/**"}}, decide: ask, why: Look.}}
  - {{id: run-budget, match: {{kind: http, host: api.test, path: "/ask/**"}},
     limit: {{sum: int(body.amount), max: 100, per: run}}, decide: block, why: Spent.}}
  - {{id: day-budget, match: {{kind: http, host: api.test, path: /pay}},
     limit: {{sum: int(body.amount), max: 100, per: 24h}}, decide: block, why: Spent today.}}
  - {{id: world-budget, match: {{kind: http, host: api.stripe.com, method: POST}},
     limit: {{count: 1, max: 3, per: 24h}}, decide: block, why: Enough.}}
  - {{id: model-requests, match: {{kind: http, host: api.anthropic.com}},
     limit: {{count: 1, max: 4, per: run}}, decide: block, why: Enough.}}
  - {{id: few-programs, match: {{kind: exec, program: "true"}},
     limit: {{count: 1, max: 2, per: run}}, decide: block, why: Enough.}}
  - {{id: no-deletes, match: {{kind: http, method: DELETE}}, decide: block, why: No.}}
approvals: {{timeout: 2s, by: [store]}}
"""
AGENT = """
import socket, subprocess, urllib.error, urllib.request, json
from wire import ask, pay

def post(path, method="POST", **body):
    head = {"content-type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request("http://api.test" + path, data, head, method=method)
    attempt(lambda: urllib.request.urlopen(request, timeout=30).read())

def attempt(do):
    try:
        do()
    except (OSError, urllib.error.URLError) as error:
        print(type(error).__name__, flush=True)

for answer in ("deny", "approve", "edit", "expire", "approve", "approve"):
    post("/ask/" + answer, amount=40 if answer == "approve" else 60)
for _ in range(3):
    post("/pay", amount=30)
for _ in range(2):
    post("/flaky", amount=1)
post("/gone", "DELETE")
for _ in range(3):
    attempt(lambda: pay("POST", "/v1/customers", name="ada"))
    attempt(lambda: pay("POST", "/v1/refunds", charge="ch_1"))
for number in range(6):
    attempt(lambda: ask(f"question {number}"))
for _ in range(4):
    attempt(lambda: subprocess.run(["/bin/true"]))
attempt(lambda: urllib.request.urlopen("http://elsewhere.test/", timeout=20))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    attempt(lambda: udp.sendto(b"x", ("192.0.2.7", 9)))
"""
TOOLS = """\
version: 1
agent: {agent}
stage: broad
tools:
  search: {{effect: read}}
  refund: {{effect: {{write: 'args.amount > 0', read: 'args.amount == 0'}}}}
rules:
  - {{id: people, match: {{kind: tool, name: refund}}, when: args.amount > 50, decide: ask,
     why: Look.}}
  - {{id: budget, match: {{kind: tool, name: refund}},
     limit: {{sum: args.amount, max: 100, per: 24h}}, decide: block, why: Spent.}}
faults:
  - {{id: odd, match: {{kind: tool, name: search}}, fault: {{error: Odd.}}, every: 2}}
approvals: {{timeout: 5s, by: [store]}}
"""


class Person:
    """Answers questions by the path that they are about, or by the amount."""

    def __init__(self) -> None:
        self._approvals = Approvals(gate_store(Engine.current().home))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _answer(self) -> None:
        while not self._is_over.is_set():
            for one in self._approvals.all():
                self._consider(one)
            time.sleep(0.02)

    def _consider(self, one: Approval) -> None:
        arguments = one.content["arguments"]
        match arguments.get("path"):
            case "/ask/deny":
                self._approvals.deny(one.approval_id, "ann")
            case "/ask/edit":
                edited = {**arguments, "path": "/ask/edited", "body": {"amount": 10}}
                self._approvals.edit(one.approval_id, "ann", edited)
            case "/ask/expire":
                pass
            case _:
                self._approvals.approve(one.approval_id, "ann")


class Heard:
    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None: ...


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    (place / "agent.py").write_text(AGENT)
    with running() as origin:
        text = FILE.format(agent=tmp_path.name, stage="broad", place=origin.place)
        (place / "paddock.yaml").write_text(text)
        yield place


def ran(project: Path, **words: Any) -> FinishedRun:
    with Person():
        return run(order_of(["python3", "agent.py"], cwd=project, **words), Heard())


def replayed(file: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert _run("policy", ["replay", str(file), *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["actions"] > 0
    return found


def decided_by(name: str) -> set[str]:
    steps = RunLog(Engine.current().home.runs / name).steps()
    return {step.decided_by for step in steps if step.decided_by is not None}


def test_same_file_changes_nothing_about_any_kind_of_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / "paddock.yaml"
    first, second = ran(project), ran(project)
    assert decided_by(first.run) >= {
        "people", "run-budget", "world-budget", "model-requests", "few-programs", "no-deletes",
        "busy", "lost", "no-model", "network", "world",
    }  # fmt: skip
    assert "day-budget" in decided_by(second.run)  # because of what the first had spent
    drafted = ran(project, stage="draft")
    with Person():
        (forked,) = fork(second.directory, ForkOptions(at=12))
    for words in (
        [first.run],
        [second.run],
        [first.run, second.run],
        [drafted.run, "--stage", "draft"],
        [forked.run],
    ):
        assert replayed(file, *words, capsys=capsys)["changes"] == [], words


@tool
def search(text: str) -> str:
    """Finds something."""
    return text


@tool
def refund(amount: int) -> int:
    """Pays money back."""
    return amount


def test_same_file_changes_nothing_about_calls_of_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(TOOLS.format(agent=tmp_path.name))
    names = []
    for _ in range(2):
        with Person(), open_run(file) as gate:
            tools = Tools(gate, [search, refund])
            for text in ("a", "b", "c"):
                tools.call("search", {"text": text})
            for amount in (0, 40, 60, 40, 200):
                tools.call("refund", {"amount": amount})
            names.append(gate.run)
    assert decided_by(names[0]) >= {"people", "budget", "odd", "default"}
    assert decided_by(names[1]) != decided_by(names[0])  # nothing was left of the budget
    for words in (names, names[:1], names[1:], ["--agent", tmp_path.name]):
        assert replayed(file, *words, capsys=capsys)["changes"] == [], words


def test_attempt_that_a_sandbox_without_a_network_refuses_is_looser_only_with_one(
    make_box: MakeBox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "paddock.yaml"
    inside = "{id: inside, match: {kind: [exec, file, code]}, decide: allow, why: Inside.}"
    file.write_text(f"version: 1\nagent: a\nstage: broad\nrules: [{inside}]\n")
    box = make_box(policy=load(file.read_text()))
    script = "import socket; socket.create_connection(('192.0.2.7', 8443), 5)"
    box.commands.run(f'python3 -c "{script}" || true')
    box.kill()
    assert replayed(file, box.sandbox_id, capsys=capsys)["changes"] == []
    file.write_text(file.read_text() + 'network: {allow: ["192.0.2.7:8443/tcp"]}\n')
    (change,) = replayed(file, box.sandbox_id, capsys=capsys)["changes"]
    assert (change["change"], change["action"]["kind"]) == ("looser", "connect")
