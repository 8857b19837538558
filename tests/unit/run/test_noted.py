"""At which steps the files are written down, where steps in flight together come in any order."""

from __future__ import annotations

import random

from cases import for_each
from paddock.run.recording import Noted


def _read_back(written: dict[int, str], step: int) -> str:
    return written[max(one for one in written if one <= step)]


def test_files_that_stay_are_written_down_once() -> None:
    noted = Noted()
    assert noted.missing(1, "a") == [1]
    assert noted.missing(2, "a") == []
    assert noted.missing(3, "b") == [3]
    assert noted.missing(4, "b") == []


def test_earlier_step_that_is_looked_at_later_has_its_own() -> None:
    noted = Noted()
    noted.missing(1, "a")
    assert noted.missing(3, "b") == [3]
    assert noted.missing(2, "b") == [2]


def test_later_step_does_not_inherit_what_came_between() -> None:
    noted = Noted()
    noted.missing(1, "a")
    assert noted.missing(3, "a") == []
    assert noted.missing(2, "b") == [2, 3]


@for_each("seed", range(50))
def test_each_step_is_read_back_as_it_was_looked_at(seed: int) -> None:
    chance = random.Random(seed)
    steps = list(range(1, 40))
    looked = {step: chance.choice("aaab") for step in steps}
    order = sorted(steps, key=lambda step: step + chance.uniform(0, 4))
    noted, written = Noted(), dict[int, str]()
    for step in order:
        for one in noted.missing(step, looked[step]):
            assert one not in written
            written[one] = looked[one]
    assert {step: _read_back(written, step) for step in steps if step >= min(written)} == looked
