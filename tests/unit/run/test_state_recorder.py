"""At which steps the files are written down, where steps in flight together come in any order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cases import for_each
from paddock.model.events import FilesRecorded
from paddock.run.state_recorder import RecordedTree, StateRecorder
from paddock.state.trees.recorder import Recorded
from unit.run.replay.test_recorded_run import recorded_run


def _read_back(written: dict[int, str], step: int) -> str:
    return written[max(one for one in written if one <= step)]


def test_files_that_stay_are_written_down_once() -> None:
    noted = RecordedTree()
    assert noted.missing(1, "a") == [1]
    assert noted.missing(2, "a") == []
    assert noted.missing(3, "b") == [3]
    assert noted.missing(4, "b") == []


def test_earlier_step_that_is_looked_at_later_has_its_own() -> None:
    noted = RecordedTree()
    noted.missing(1, "a")
    assert noted.missing(3, "b") == [3]
    assert noted.missing(2, "b") == [2]


def test_later_step_does_not_inherit_what_came_between() -> None:
    noted = RecordedTree()
    noted.missing(1, "a")
    assert noted.missing(3, "a") == []
    assert noted.missing(2, "b") == [2, 3]


@for_each("seed", range(50))
def test_each_step_is_read_back_as_it_was_looked_at(seed: int) -> None:
    chance = random.Random(seed)
    steps = list(range(1, 40))
    looked = {step: chance.choice("aaab") for step in steps}
    order = sorted(steps, key=lambda step: step + chance.uniform(0, 4))
    noted, written = RecordedTree(), dict[int, str]()
    for step in order:
        for one in noted.missing(step, looked[step]):
            assert one not in written
            written[one] = looked[one]
    assert {step: _read_back(written, step) for step in steps if step >= min(written)} == looked


class LiveFiles(StateRecorder):
    """Writes its notes into a dictionary, and finds other files than any record has."""

    def __init__(self, written: dict[int, str]) -> None:
        def record(event: FilesRecorded, step: int) -> None:
            written[step] = event.tree

        super().__init__(
            cast(Any, SimpleNamespace(world=None)), cast(Any, SimpleNamespace(record=record))
        )

    async def look(self, step: int | None = None, *, is_final: bool = False) -> Recorded:
        return Recorded("live", (), 0)


@pytest.mark.parametrize("late", [2, 3, 4])
def test_step_of_a_past_has_its_recorded_files_also_after_the_fork_went_live(
    tmp_path: Path, late: int
) -> None:
    written: dict[int, str] = {}
    recorder = LiveFiles(written)
    recorder.follow(recorded_run(tmp_path, {1: "a", 3: "b"}, count=5), until=5)
    for step in sorted((1, 2, 3, 4, 5), key=lambda step: (step == late, step)):
        asyncio.run(recorder.before(cast(Any, SimpleNamespace(step=step))))
    found = {step: _read_back(written, step) for step in (1, 2, 3, 4, 5)}
    assert found == {1: "a", 2: "a", 3: "b", 4: "b", 5: "live"}
