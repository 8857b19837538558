"""In which order steps are told that lie inside each other."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.cli.run_steps import Steps
from paddock.journal.records import Record, Type
from unit.cli.test_run_text import told


def begun(number: int, kind: str, parent: Any = 1) -> list[Record]:
    body = {"kind": kind, "name": "n", "arguments": {}, "effect": "read", "parent": parent}
    decided = {"verdict": "allow", "decided_by": "x", "why": ""}
    return [told(number, Type.PROPOSED, body), told(number, Type.DECIDED, decided)]


def ended(number: int) -> Record:
    return told(number, Type.SETTLED, {"outcome": "done"})


def shown(records: list[Record]) -> list[int]:
    steps, numbers = Steps(), []
    for one in records:
        if (step := steps.take(one)) is not None:
            numbers.append(step.number)
            inner = steps.within(step)
            numbers += [] if inner is None else [inner.number]
    return numbers + [one.number for one in steps.rest()]


def program(number: int, pid: int) -> list[Record]:
    """A program that a program starts: settled as soon as it is let through."""
    proposed, decided = begun(number, "exec")
    body = {**proposed.body, "arguments": {"argv": ["sleep"], "pid": pid}}
    settled = {"outcome": "done", "result": {"let_through": True}}
    return [
        told(number, Type.PROPOSED, body), decided, told(number, Type.SETTLED, settled),
        told(number, Type.OBSERVED, {"what": "exec", "pid": pid}),
    ]  # fmt: skip


def test_child_program_is_told_when_it_ends_with_the_time_that_it_ran() -> None:
    steps = Steps()
    exits = [
        told(2, Type.OBSERVED, {"what": "exit", "pid": pid, "duration_us": pid * 1000})
        for pid in (8, 7)  # of a program without a step of its own, and of the step's
    ]
    seen = [steps.take(one) for one in [*program(2, 7), *exits]]

    assert seen[:-1] == [None] * 5
    assert seen[-1] is not None
    assert seen[-1].duration_us == 7000
    assert steps.rest() == []


def test_child_program_that_outlives_the_run_is_told_without_a_time() -> None:
    steps = Steps()
    for one in program(2, 7):
        assert steps.take(one) is None
    assert steps.oldest() is not None
    [left] = steps.rest()
    assert (left.number, left.outcome, left.duration_us) == (2, "done", None)


def test_the_request_around_a_question_to_a_model_is_told_first() -> None:
    both = [*begun(2, "http"), *begun(3, "model", 2), ended(3), ended(2)]
    assert shown(both) == [2, 3]
    assert shown(both[:-1]) == [2, 3]


@pytest.mark.parametrize("kind", ["tool", "exec", "connect"])
def test_what_lies_in_anything_else_is_told_when_it_ends(kind: str) -> None:
    assert shown([*begun(2, kind), *begun(3, "model", 2), ended(3), ended(2)]) == [3, 2]
    assert shown([*begun(2, "http"), *begun(3, "http", 2), ended(3), ended(2)]) == [3, 2]


@pytest.mark.parametrize("parent", [None, [2], {"a": 2}, "2", 7])
def test_a_parent_that_is_none_holds_nothing_back(parent: Any) -> None:
    assert shown([*begun(2, "http"), *begun(3, "model", parent), ended(3), ended(2)]) == [3, 2]
