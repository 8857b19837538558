"""In which order steps are told that lie inside each other."""

from __future__ import annotations

import pytest

from paddock.cli.render.live_steps import Steps
from paddock.model.action import Outcome
from paddock.model.events import ProgramEnded, ProgramStarted, Record
from unit.cli.past import decided, proposed, settled
from unit.cli.render.test_live_run import told


def begun(number: int, kind: str, parent: int | None = 1) -> list[Record]:
    return [told(number, proposed(kind, {}, parent)), told(number, decided())]


def ended(number: int) -> Record:
    return told(number, settled())


def shown(records: list[Record]) -> list[int]:
    steps, numbers = Steps(), []
    for one in records:
        if (step := steps.take(one)) is not None:
            numbers.append(step.number)
            inner = steps.within(step)
            numbers += [] if inner is None else [inner.number]
    return numbers + [step.number for step in steps.rest()]


def program(number: int, pid: int) -> list[Record]:
    """A program that a program starts: settled as soon as it is let through."""
    return [
        told(number, proposed("exec", {"argv": ["sleep"], "pid": pid}, 1)),
        told(number, decided()),
        told(number, settled("done", {"let_through": True})),
        told(number, ProgramStarted("/bin/sleep", pid=pid)),
    ]


def test_child_program_is_told_when_it_ends_with_the_time_that_it_ran() -> None:
    steps = Steps()
    exits = [
        told(2, ProgramEnded(pid=pid, duration_us=pid * 1000))
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
    assert (left.number, left.outcome, left.duration_us) == (2, Outcome.DONE, None)


def test_the_request_around_a_question_to_a_model_is_told_first() -> None:
    both = [*begun(2, "http"), *begun(3, "model", 2), ended(3), ended(2)]
    assert shown(both) == [2, 3]
    assert shown(both[:-1]) == [2, 3]


@pytest.mark.parametrize("kind", ["tool", "exec", "connect"])
def test_what_lies_in_anything_else_is_told_when_it_ends(kind: str) -> None:
    assert shown([*begun(2, kind), *begun(3, "model", 2), ended(3), ended(2)]) == [3, 2]
    assert shown([*begun(2, "http"), *begun(3, "http", 2), ended(3), ended(2)]) == [3, 2]


@pytest.mark.parametrize("parent", [None, 7])
def test_a_parent_that_is_none_holds_nothing_back(parent: int | None) -> None:
    assert shown([*begun(2, "http"), *begun(3, "model", parent), ended(3), ended(2)]) == [3, 2]
