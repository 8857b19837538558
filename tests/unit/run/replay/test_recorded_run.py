"""What a replay reads of a recorded run: its files at each step, and its background traffic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput
from paddock.model.events import Configured, FilesNotRecorded, FilesRecorded
from paddock.policy.background import USUAL
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import PastOptions, rules_for
from unit.run.recorded import Crossed, agent, begin, cross, search

CONFIGURED = Configured(argv=["python", "agent.py"])


def recorded_run(
    home: Path,
    trees: Mapping[int, str] | None = None,
    *,
    count: int = 1,
    unrecorded: Mapping[int, str] | None = None,
    configured: Configured = CONFIGURED,
) -> RecordedRun:
    """Record a run of `count` steps, with files noted at some of them, and read it."""
    gate = begin(home, "r1")
    gate.record(configured)
    cross(gate, [Crossed(agent("python"), record={"exit_code": 0})])
    cross(gate, [Crossed(search(str(number))) for number in range(2, count + 1)])
    for step, tree in (trees or {}).items():
        gate.record(FilesRecorded(tree, 1), step)
    for step, error in (unrecorded or {}).items():
        gate.record(FilesNotRecorded(error), step)
    gate.close()
    return RecordedRun(home / "runs" / "r1")


def test_each_step_has_the_files_that_were_recorded_last_before_it(tmp_path: Path) -> None:
    run = recorded_run(tmp_path, {2: "a", 4: "b", 5: "c"}, count=6)
    assert run.trees_by_step() == {2: "a", 3: "a", 4: "b", 5: "c", 6: "c"}
    assert run.trees_by_step() == {step: run.tree_at(step) for step in (2, 3, 4, 5, 6)}
    assert run.tree_at(1) is None


def test_a_step_whose_files_were_not_recorded_does_not_have_those_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    run = recorded_run(tmp_path, {1: "a", 4: "b"}, count=4, unrecorded={2: "no room"})
    assert [run.why_unrecorded(step) for step in (1, 2, 3, 4)] == [
        None,
        "no room",
        "no room",
        None,
    ]


@pytest.mark.parametrize(
    ("declared", "more", "drops", "texts"),
    [
        (None, (), False, USUAL),
        (None, ("a.example",), False, (*USUAL, "a.example")),
        (None, (), True, ()),
        ([], (), False, ()),
        (["b.example"], ("a.example", "b.example"), False, ("b.example", "a.example")),
        (["b.example"], ("a.example",), True, ("a.example",)),
    ],
)
def test_background_traffic_is_the_usual_or_what_the_file_says_and_what_is_added(
    tmp_path: Path,
    declared: list[str] | None,
    more: tuple[str, ...],
    drops: bool,
    texts: tuple[str, ...],
) -> None:
    run = recorded_run(tmp_path, configured=Configured(argv=["true"], beside=declared))
    rules = rules_for(run, PastOptions(beside=more, drops_beside=drops))
    assert tuple(rule.text for rule in rules.beside) == texts


def test_a_record_that_declares_every_host_background_traffic_is_refused(tmp_path: Path) -> None:
    run = recorded_run(tmp_path, configured=Configured(argv=["true"], beside=["*"]))
    with pytest.raises(InvalidInput, match="every host"):
        rules_for(run, PastOptions())


def test_a_journal_without_a_configuration_is_no_run_of_an_agent(tmp_path: Path) -> None:
    begin(tmp_path, "r1").close()
    with pytest.raises(InvalidInput, match="no run of an agent"):
        RecordedRun(tmp_path / "runs" / "r1")
