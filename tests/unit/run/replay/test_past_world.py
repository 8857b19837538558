"""Which stand-ins a fork can have back as they were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cases import for_each
from paddock.run.replay.past_world import _is_undone


@for_each(
    ("moved", "at", "is_undone"),
    [
        ([(None, 0), (2, 3), (3, 5), (4, 8)], 3, False),
        ([(2, 3), (4, 8), (3, 9)], 4, False),  # step 4 ended before step 3
        ([(2, 3), (4, 8), (3, 9), (5, 10)], 4, False),
        ([(2, 3), (3, 5), (4, 1)], 3, True),
        ([(2, 3), (3, 1), (4, 5)], 4, False),  # taken back in the past that the fork has
        ([(2, 3), (3, 9), (4, 1), (5, 12)], 3, True),
    ],
)
def test_stand_in_is_undone_where_its_position_falls_in_the_journal(
    moved: list[tuple[int | None, int]], at: int, is_undone: bool
) -> None:
    notes = [(step, {"api.example": position, "other": 1}) for step, position in moved]
    tape: Any = SimpleNamespace(world_positions=notes)
    assert _is_undone(tape, at, "api.example") is is_undone
