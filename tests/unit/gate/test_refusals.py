"""Refusals in a loop: a hundred steps, and one note that counts the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock.gate import refusals
from paddock.gate.executors import ActionRefused
from paddock.gate.gate import Gate
from paddock.gate.recorded_actions import recorded_actions
from paddock.gate.refusals import MAX_SINGLE
from paddock.journal.index.index import RunIndex
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.action import Action, Effect, Kind, Outcome, Receipt
from paddock.model.events import RefusedAgain
from paddock.model.steps import Step
from paddock.run.report import report_of
from unit.gate.gates import Tool, make_gate, refund

MORE = 50
ASKED_TOO_MUCH = 100_000


def cross_all(gate: Gate, *actions: Action) -> list[Receipt]:
    async def crossing() -> list[Receipt]:
        return [await gate.cross(one, Tool()) for one in actions]

    return asyncio.run(crossing())


def counted(directory: Path) -> dict[int, int]:
    steps = RunLog(directory).steps()
    return {step.number: step.repeats.count for step in steps if step.repeats is not None}


def steps_of(directory: Path) -> list[Step]:
    return list(RunLog(directory).steps())


def test_more_than_a_hundred_identical_refusals_become_one_record(
    tmp_path: Path, key: SigningKey
) -> None:
    gate = make_gate(tmp_path, key)
    receipts = cross_all(gate, *[refund(ASKED_TOO_MUCH)] * (MAX_SINGLE + MORE))
    assert {one.outcome for one in receipts} == {Outcome.REFUSED}
    assert {one.error for one in receipts} == {"Nobody gets that much."}
    assert all(isinstance(one.exception, ActionRefused) for one in receipts)
    assert {one.step for one in receipts[MAX_SINGLE:]} == {MAX_SINGLE}
    (later,) = cross_all(gate, refund(1))
    assert later.step == MAX_SINGLE + 1, "what was only counted has taken no number"
    gate.close()
    steps = steps_of(tmp_path / "run-1")
    assert len(steps) == MAX_SINGLE + 1
    (record,) = RunLog(tmp_path / "run-1").events(RefusedAgain)
    again = record.event
    assert isinstance(again, RefusedAgain)
    assert (record.step, again.count) == (MAX_SINGLE, MORE)
    assert again.first_at <= again.last_at <= record.at
    assert verify(tmp_path / "run-1", key.public).ok


def test_other_actions_in_between_do_not_matter_and_are_steps_of_their_own(
    tmp_path: Path, key: SigningKey
) -> None:
    gate = make_gate(tmp_path, key)
    actions: list[Action] = []
    for number in range(MAX_SINGLE + MORE):
        actions += [refund(ASKED_TOO_MUCH), refund(number), refund(ASKED_TOO_MUCH + number)]
    receipts = cross_all(gate, *actions)
    gate.close()
    assert sum(one.outcome is Outcome.DONE for one in receipts) == MAX_SINGLE + MORE
    # The first amount of the third kind is that of the first, so one more of those was refused.
    assert counted(tmp_path / "run-1") == {receipts[-3].step: MORE + 1}


@pytest.mark.parametrize(
    "change",
    [{"amount": ASKED_TOO_MUCH + 1}, {"customer": "bob"}, {"more": None}],
    ids=str,
)
def test_another_argument_is_another_refusal(
    tmp_path: Path, key: SigningKey, change: dict[str, Any]
) -> None:
    gate = make_gate(tmp_path, key)
    other = refund(**{"amount": ASKED_TOO_MUCH, **change})
    cross_all(gate, *[refund(ASKED_TOO_MUCH)] * MAX_SINGLE, other)
    gate.close()
    assert len(steps_of(tmp_path / "run-1")) == MAX_SINGLE + 1
    assert counted(tmp_path / "run-1") == {}


def test_another_reason_is_another_refusal(tmp_path: Path, key: SigningKey) -> None:
    gate = make_gate(tmp_path, key)
    action = Action(Kind.CONNECT, "h", {"host": "h", "port": 1}, Effect.WRITE)
    for number in range(2 * (MAX_SINGLE + MORE)):
        gate.refuse(action, "door", "no TLS" if number % 2 else "no name")
    gate.close()
    steps = steps_of(tmp_path / "run-1")
    assert len(steps) == 2 * MAX_SINGLE
    assert sorted(counted(tmp_path / "run-1").values()) == [MORE, MORE]


def test_programs_are_the_same_whatever_their_process_is(tmp_path: Path, key: SigningKey) -> None:
    gate = make_gate(tmp_path, key)
    for pid in range(MAX_SINGLE + MORE):
        arguments = {"program": "/bin/rm", "argv": ["rm"], "pid": pid}
        gate.refuse(Action(Kind.EXEC, "rm", arguments, Effect.WRITE), "no-rm", "no")
    gate.close()
    assert counted(tmp_path / "run-1") == {MAX_SINGLE: MORE}


def test_counts_are_everywhere_where_refusals_are(tmp_path: Path, key: SigningKey) -> None:
    gate = make_gate(tmp_path, key)
    cross_all(gate, *[refund(ASKED_TOO_MUCH)] * (MAX_SINGLE + MORE))
    gate.close()
    total = MAX_SINGLE + MORE
    report = report_of(tmp_path / "run-1")
    assert (report.verdicts, report.outcomes) == ({"block": total}, {"refused": total})
    assert report.repeats[MAX_SINGLE].count == MORE
    with RunIndex(tmp_path / "index.sqlite") as index:
        index.update(tmp_path / "run-1")
        run = index.run("run-1")
    assert (run.verdicts, run.outcomes, run.steps) == (
        {"block": total}, {"refused": total}, MAX_SINGLE,
    )  # fmt: skip
    assert len(list(recorded_actions(tmp_path / "run-1"))) == total


def test_a_count_does_not_wait_for_the_end_of_the_run(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed process takes with it is bounded in time."""
    monkeypatch.setattr(refusals, "WRITE_S", 0.0)
    gate = make_gate(tmp_path, key)
    cross_all(gate, *[refund(ASKED_TOO_MUCH)] * (MAX_SINGLE + 2))
    assert counted(tmp_path / "run-1") == {MAX_SINGLE: 2}
    gate.close()


def test_kinds_of_refusals_are_bounded_and_none_is_lost(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "_MAX_KNOWN", 2)
    gate = make_gate(tmp_path, key)
    cross_all(gate, *[refund(ASKED_TOO_MUCH)] * (MAX_SINGLE + MORE))
    cross_all(gate, *(refund(ASKED_TOO_MUCH + 1 + number) for number in range(5)))
    cross_all(gate, refund(ASKED_TOO_MUCH))
    gate.close()
    assert counted(tmp_path / "run-1") == {MAX_SINGLE: MORE}
    assert len(steps_of(tmp_path / "run-1")) == MAX_SINGLE + 6
