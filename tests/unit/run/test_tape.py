"""What is told of a recorded run to one that lives through it: its files, what goes on beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.journal.reader import Reader
from paddock.model.errors import InvalidInput
from paddock.policy.beside import USUAL
from paddock.run.matching.rows import Row
from paddock.run.replaying import rules_for
from paddock.run.tape import Tape
from unit.run.matching.samples import http, recorded

UNUSED = cast(Reader, None)


def tape(
    trees: Mapping[int, str], rows: tuple[Row, ...] = (), setting: Mapping[str, Any] | None = None
) -> Tape:
    by_step = {row.step: row for row in rows}
    return Tape("r", Path("r"), {}, setting or {}, rows, (0.0, 1.0), trees, None, (), (),
                UNUSED, {}, by_step, {})  # fmt: skip


def steps(*numbers: int) -> tuple[Row, ...]:
    return tuple(recorded(http(), number) for number in numbers)


def test_each_step_has_the_files_that_were_noted_last_before_it() -> None:
    made = tape({2: "a", 4: "b", 5: "c"}, steps(1, 2, 3, 4, 6))
    assert made.trees_by_step() == {2: "a", 3: "a", 4: "b", 6: "c"}
    assert made.trees_by_step() == {step: made.tree_at(step) for step in (2, 3, 4, 6)}


def test_a_step_whose_files_were_not_recorded_does_not_have_those_of_an_earlier_one() -> None:
    made = replace(tape({1: "a", 4: "b"}, steps(1, 2, 3, 4)), unrecorded={2: "no room"})
    assert [made.why_unrecorded(step) for step in (1, 2, 3, 4)] == [
        None,
        "no room",
        "no room",
        None,
    ]


@pytest.mark.parametrize(
    ("said", "more", "drops", "texts"),
    [
        (None, (), False, USUAL),
        (None, ("a.example",), False, (*USUAL, "a.example")),
        (None, (), True, ()),
        ([], (), False, ()),
        (["b.example"], ("a.example", "b.example"), False, ("b.example", "a.example")),
        (["b.example"], ("a.example",), True, ("a.example",)),
    ],
)
def test_what_is_beside_is_the_usual_or_what_the_file_says_and_what_is_added(
    said: list[str] | None, more: tuple[str, ...], drops: bool, texts: tuple[str, ...]
) -> None:
    made = tape({}, setting={} if said is None else {"beside": said})
    rules = rules_for(made, (), more, drops_beside=drops)
    assert tuple(one.text for one in rules.beside) == texts


def test_a_record_that_says_every_host_is_beside_is_refused() -> None:
    with pytest.raises(InvalidInput, match="every host"):
        rules_for(tape({}, setting={"beside": ["*"]}), ())
