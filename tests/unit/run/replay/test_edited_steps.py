"""A record that says an approver edited a step: the two are one, unless it says nonsense."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.gate.executors import Done, Live
from paddock.model.action import Action, Outcome
from paddock.model.events import Configured, Decided, Proposed
from paddock.run.replay.recorded_run import RecordedRun
from unit.run.recorded import agent, begin, post

CONFIGURED = Configured(argv=["python"])


def taped(home: Path, said: Any, parent: int, outcome: Outcome = Outcome.REFUSED) -> RecordedRun:
    """A request that came to `outcome`, another one that came of step `parent`, and a third."""
    gate = begin(home, "r1")
    gate.record(CONFIGURED)
    settled = [Done(record={"edited_as": said}, outcome=outcome), Done(), Done()]

    async def all_of_them() -> None:
        await gate.cross(agent("python"), _giving(Done(record={"exit_code": 0})))
        for outer, done in zip((1, parent, 1), settled, strict=True):
            await gate.cross(replace(post(), parent=outer), _giving(done))

    asyncio.run(all_of_them())
    gate.close()
    return RecordedRun(home / "runs" / "r1")


def _giving(done: Done) -> Live:
    async def live(action: Action) -> Done:
        return done

    return live


def test_what_was_made_of_a_step_is_within_it_and_ends_it(tmp_path: Path) -> None:
    tape = taped(tmp_path, 3, 2)
    assert [row.within for row in tape.steps] == [None, None, 2, None]
    assert tape.steps[1].settled_n == tape.steps[2].settled_n
    found = tape.edited(2)
    assert found is not None and found[0].step == 3
    assert [type(entry.event) for entry in found[1]] == [Proposed, Decided]


@pytest.mark.parametrize("step", [3, 4])
def test_numbers_inside_earlier_answers_are_known(tmp_path: Path, step: int) -> None:
    tape = taped(tmp_path, 3, 2)
    assert tape.inner_steps_from(step) == ({3} if step == 3 else set())


@pytest.mark.parametrize("said", [2, 1, 4, 99, "3", None, True])
def test_a_record_that_names_another_step_links_nothing(tmp_path: Path, said: Any) -> None:
    tape = taped(tmp_path, said, 2)
    assert tape.edited(2) is None
    assert [row.within for row in tape.steps] == [None] * 4


def test_what_an_action_was_answered_links_nothing(tmp_path: Path) -> None:
    tape = taped(tmp_path, 3, 2, Outcome.DONE)
    assert tape.edited(2) is None
