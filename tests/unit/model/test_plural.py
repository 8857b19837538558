"""Counted things in words."""

from __future__ import annotations

from cases import for_each
from paddock.model.plural import many


@for_each(
    ("count", "text"),
    [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (1001, "1001 steps")],
)
def test_only_one_is_singular(count: int, text: str) -> None:
    assert many(count, "step") == text


def test_plural_that_is_not_formed_with_s_is_given() -> None:
    assert many(1, "boundary", "boundaries") == "1 boundary"
    assert many(2, "boundary", "boundaries") == "2 boundaries"
