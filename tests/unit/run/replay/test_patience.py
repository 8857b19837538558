"""A step is held for as long as others took in the record, and a while longer."""

from __future__ import annotations

import asyncio

from paddock.run.matching.recorded_step import RecordedStep
from paddock.run.replay.patience import Patience
from unit.run.matching.samples import http, recorded

# The first is proposed at 0 s and answered at 14 s; the second works 12 s before it asks.
MOMENTS = {1: 0.0, 2: 12.0, 3: 12.5, 4: 14.0, 5: 20.0}
FIRST = recorded(http(), 1, proposed_n=1, settled_n=4)
SECOND = recorded(http(), 2, proposed_n=2, settled_n=3)
THIRD = recorded(http(), 3, proposed_n=5, settled_n=None)


def held(more_s: float = 10.0) -> Patience:
    return Patience(MOMENTS, more_s)


def test_an_answer_is_held_as_long_as_it_took_in_the_record_and_longer() -> None:
    assert held().for_answer(FIRST) == 24.0
    assert held(1.0).for_answer(SECOND) == 1.5


def test_a_step_that_comes_too_early_waits_for_those_that_were_slow_to_come() -> None:
    waits_for: tuple[RecordedStep, ...] = (SECOND,)
    assert held().for_turn(THIRD, waits_for) == 30.0  # from what was before it on
    assert held().for_turn(None, (FIRST, SECOND)) == 24.0
    assert held().for_turn(THIRD, ()) == 10.0


def test_a_record_without_moments_leaves_the_usual_patience() -> None:
    empty = Patience({}, 10.0)
    assert empty.for_answer(FIRST) == empty.for_turn(THIRD, (FIRST,)) == 10.0


def test_who_waits_is_told_whether_something_moved() -> None:
    async def waited() -> tuple[bool, bool]:
        moved = asyncio.Event()
        late = await held().waits(moved, 0.01)
        moved.set()
        return late, await held().waits(moved, 5.0)

    assert asyncio.run(waited()) == (False, True)
