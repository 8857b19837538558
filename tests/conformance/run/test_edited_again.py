"""What an approver made of an action is part of its answer: a replay gives it again, and a fork
begins before or behind both, never between them."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from paddock.doors.machine.engine import Engine
from paddock.gate.approvals import Approval, Approvals
from paddock.gate.run_gate import gate_store, signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.action import Kind
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.run.session import FinishedRun, run

AGENTS = Path(__file__).with_name("agents")
FILE = """
version: 1
agent: asking
stage: broad
world: {api.stripe.com: payments}
rules:
  - id: people-first
    match: {kind: http, host: api.stripe.com, method: POST}
    when: args.body.name != "odd"
    decide: ask
    why: A person looks at it.
  - id: odd-names
    match: {kind: http, host: api.stripe.com, method: POST}
    when: args.body.name == "odd"
    decide: ask
    why: An odd name.
approvals: {timeout: 20s, by: [store]}
"""
AGENT = """
from wire import pay
print(pay("POST", "/v1/customers", name="ada")["name"], flush=True)
print(pay("POST", "/v1/customers", name="bob")["name"], flush=True)
print([one["name"] for one in pay("GET", "/v1/customers")["data"]], flush=True)
"""
INTO = {"ada": "odd", "odd": "eve", "eve": "eve", "bob": "bob"}


class Editor:
    """Makes other names of some, and says yes to the rest."""

    def __init__(self) -> None:
        self._approvals = Approvals(gate_store(Engine.current().home))
        self._is_over = threading.Event()
        self.seen: list[str] = []
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def __enter__(self) -> Editor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _answer(self) -> None:
        while not self._is_over.is_set():
            for one in self._approvals.all():
                self._edit(one)
            time.sleep(0.02)

    def _edit(self, one: Approval) -> None:
        body = one.content["arguments"].get("body")
        name = body.get("name") if isinstance(body, dict) else None
        if name not in INTO:
            return  # of another test: all workers share one home
        self.seen.append(name)
        if INTO[name] == name:
            self._approvals.approve(one.approval_id, "ann")
        else:
            edited = {**one.content["arguments"], "body": {"name": INTO[name]}}
            self._approvals.edit(one.approval_id, "ann", edited)


class Heard:
    def __init__(self) -> None:
        self.out = b""

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None:
        self.out += data


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[FinishedRun, bytes]:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    (place / "paddock.yaml").write_text(FILE)
    (place / "agent.py").write_text(AGENT)
    heard = Heard()
    with Editor() as editor:
        ended = run(order_of(["python3", "agent.py"], cwd=place), heard)
    assert editor.seen == ["ada", "odd", "eve", "bob"]
    assert heard.out.startswith(b"eve\nbob\n")
    return ended, heard.out


def test_an_edited_action_is_replayed_with_the_answer_of_what_was_made_of_it(
    recorded: tuple[FinishedRun, bytes],
) -> None:
    ended, said = recorded
    heard = Heard()
    with Editor() as editor:
        again = replay(ended.directory, watch=heard)
    assert again.divergence is None, again.divergence.text if again.divergence else ""
    assert (heard.out, editor.seen) == (said, [])
    assert told(again) == told(ended)
    assert verify(again.directory, signing_key(Engine.current().home).public).ok
    assert replay(again.directory).divergence is None


def test_a_fork_behind_an_edit_has_it_in_its_past_and_one_at_it_asks_anew(
    recorded: tuple[FinishedRun, bytes],
) -> None:
    ended, said = recorded
    rows = RecordedRun(ended.directory).steps
    first, second, third, bob, _ = (row.number for row in rows if row.kind == "http")
    heard = Heard()
    with Editor() as editor:
        behind = fork(ended.directory, ForkOptions(at=bob), watch=heard)[0]
    assert behind.divergence is None
    assert (heard.out, editor.seen) == (said, ["bob"])
    assert told(behind) == told(ended)
    assert fork(behind.directory, ForkOptions(at="last"))[0].divergence is None
    with Editor() as editor:
        between = fork(ended.directory, ForkOptions(at=third))[0]
    assert between.divergence is None
    assert editor.seen == ["ada", "odd", "eve", "bob"]
    lineage = RunLog(between.directory).opened.lineage
    assert lineage is not None and lineage.at == first
    assert [row.within for row in rows if row.number in (first, second, third)] == [
        None, first, second,
    ]  # fmt: skip


def told(ended: FinishedRun) -> list[tuple[int, object, object, object]]:
    """Each step, what was proposed, and what came of it."""
    return [
        (step.number, step.arguments, step.outcome, step.result.get("edited_as"))
        for step in RunLog(ended.directory).steps()
        if step.settled and step.kind is Kind.HTTP
    ]
