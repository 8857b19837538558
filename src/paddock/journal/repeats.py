"""Refusals that came so often that they are counted: one record stands for many of them.

The record is a note of the step that was refused in the same way before it, and says how often that
came again, and when first and last. Several such notes of one step add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.model.values import dataclass

REFUSED_AGAIN = "refused again"
MARK = b'"what":"refused again"'  # in a line of a journal: most lines are not parsed


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often a refusal came again. Times are microseconds since 1970."""

    count: int
    first_at: int
    last_at: int

    def plus(self, other: Repeats | None) -> Repeats:
        """Both together."""
        if other is None:
            return self
        first_at, last_at = min(self.first_at, other.first_at), max(self.last_at, other.last_at)
        return Repeats(self.count + other.count, first_at, last_at)

    def as_body(self) -> dict[str, Any]:
        return {
            "what": REFUSED_AGAIN,
            "count": self.count,
            "first_at": self.first_at,
            "last_at": self.last_at,
        }


def repeats_in(body: Mapping[str, Any]) -> Repeats | None:
    """Return what a note says about repeated refusals; None if it is about something else."""
    if body.get("what") != REFUSED_AGAIN:
        return None
    count, first_at, last_at = (body.get(key) for key in ("count", "first_at", "last_at"))
    if type(count) is not int or type(first_at) is not int or type(last_at) is not int:
        return None  # no note that was written here
    return Repeats(max(count, 0), first_at, last_at)
