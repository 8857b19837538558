"""Which steps belong together: laws that hold for any two runs, and what a person expects."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.run.compare.alignment import MAX_CELLS, Row, Sign, align

SIGNS = st.lists(
    st.builds(Sign, st.integers(0, 6), st.integers(0, 3), st.integers(0, 1)), max_size=30
)


def signs(text: str) -> list[Sign]:
    """A letter a step; the same letter in another case is alike and not equal."""
    return [Sign(one, one.lower(), None) for one in text]


def drawn(here: str, there: str) -> tuple[str, str]:
    """Both texts below each other, with a dot for what is not there."""
    rows = align([Sign(o, o.lower(), o) for o in here], [Sign(o, o.lower(), o) for o in there])
    above = "".join("." if a is None else here[a] for a, _ in rows)
    return above, "".join("." if b is None else there[b] for _, b in rows)


@given(SIGNS, SIGNS)
def test_every_step_of_both_is_there_once_and_in_order(here: list[Sign], there: list[Sign]) -> None:
    rows = align(here, there)
    assert [a for a, _ in rows if a is not None] == list(range(len(here)))
    assert [b for _, b in rows if b is not None] == list(range(len(there)))
    assert (None, None) not in rows


@given(SIGNS)
def test_run_against_itself_is_a_diagonal(here: list[Sign]) -> None:
    assert align(here, here) == [(at, at) for at in range(len(here))]


@given(SIGNS, SIGNS)
def test_nothing_is_paired_that_has_nothing_in_common(here: list[Sign], there: list[Sign]) -> None:
    for a, b in align(here, there):
        if a is not None and b is not None:
            one, other = here[a], there[b]
            assert one.exact == other.exact or one.alike == other.alike or one.near == other.near


@pytest.mark.parametrize(
    ("here", "there", "above", "below"),
    [
        ("abcd", "abxcd", "ab.cd", "abxcd"),
        ("abcd", "abd", "abcd", "ab.d"),
        ("abcd", "abCd", "abcd", "abCd"),
        ("", "ab", "..", "ab"),
        ("ab", "cd", "ab..", "..cd"),
        ("abcabc", "abc", "abcabc", "abc..."),
        ("aab", "aaab", "aa.b", "aaab"),
    ],
)
def test_steps_are_aligned_as_a_person_would(here: str, there: str, above: str, below: str) -> None:
    assert drawn(here, there) == (above, below)


def test_pairs_that_are_known_hold_although_others_would_fit_better() -> None:
    assert align(signs("ab"), signs("ba"), [(0, 1)]) == [(None, 0), (0, 1), (1, None)]


def test_known_pairs_that_cross_are_not_all_believed() -> None:
    rows = align(signs("ab"), signs("ba"), [(0, 1), (1, 0)])
    assert sorted(a for a, _ in rows if a is not None) == [0, 1]


def whole(rows: list[Row], size_a: int, size_b: int) -> bool:
    return [a for a, _ in rows if a is not None] == list(range(size_a)) and [
        b for _, b in rows if b is not None
    ] == list(range(size_b))


def test_long_runs_are_cut_at_steps_that_occur_once() -> None:
    size = 2000
    assert size * size > MAX_CELLS
    here = [Sign(at, at % 7, 0) for at in range(size)]
    there = [one for at, one in enumerate(here) if at % 10]
    rows = align(here, there)
    assert whole(rows, size, len(there))
    pairs = [(here[a], there[b]) for a, b in rows if a is not None and b is not None]
    assert len(pairs) == len(there)
    assert all(one == other for one, other in pairs)


@pytest.mark.parametrize("kinds", [1, 3])
def test_long_runs_in_which_nothing_occurs_once_are_aligned_by_sort(kinds: int) -> None:
    chance = random.Random(kinds)
    here = [Sign(("a", at), chance.randrange(kinds), 0) for at in range(1500)]
    there = [Sign(("b", at), chance.randrange(kinds), 0) for at in range(1400)]
    rows = align(here, there)
    assert whole(rows, 1500, 1400)
    alike = [a for a, b in rows if a is not None and b is not None
             and here[a].alike == there[b].alike]  # fmt: skip
    assert len(alike) > 600


def test_run_made_so_that_each_cut_leaves_one_more_comes_to_an_end() -> None:
    here, there = [], []
    for level in range(400):  # an anchor shows only when those before it are cut off
        here += [Sign(level, level, 0), Sign(level + 1, level + 1, 0)]
        there += [Sign(level, level, 0), Sign(("x", level), ("x", level), 1)]
    assert whole(align(here, there), len(here), len(there))
