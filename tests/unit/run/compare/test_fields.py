"""Where two JSON values differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.run.compare.fields import MAX_FIELDS, MAX_VALUE, differences

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def told(here: Any, there: Any) -> list[dict[str, Any]]:
    return [one.as_json() for one in differences(here, there)]


@given(JSON)
def test_value_does_not_differ_from_itself(value: Any) -> None:
    assert differences(value, value) == []


def test_differences_are_told_with_the_path_to_them() -> None:
    here = {"a": {"b": [1, 2, {"c": 3}]}, "same": 1, "gone": None}
    there = {"a": {"b": [1, 5, {"c": 4}, 6]}, "same": 1, "new": []}
    assert told(here, there) == [
        {"at": "a.b[1]", "a": 2, "b": 5},
        {"at": "a.b[2].c", "a": 3, "b": 4},
        {"at": "a.b[3]", "b": 6},
        {"at": "gone", "a": None},
        {"at": "new", "b": []},
    ]


@pytest.mark.parametrize(("here", "there"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, 0)])
def test_values_of_different_types_are_different(here: Any, there: Any) -> None:
    assert len(told({"x": here}, {"x": there})) == 1


def test_json_inside_of_a_text_is_compared_as_json() -> None:
    here, there = '{"amount": 1200, "id": 1}', '{"id": 1, "amount": 1300}'
    assert told({"body": here}, {"body": there}) == [{"at": "body.amount", "a": 1200, "b": 1300}]


def test_texts_that_are_the_same_json_in_other_words_are_told_as_texts() -> None:
    assert told({"body": '{"a":1}'}, {"body": '{"a": 1}'}) == [
        {"at": "body", "a": '{"a":1}', "b": '{"a": 1}'}
    ]


def test_long_texts_are_shown_from_where_they_part() -> None:
    same = "x" * 50_000
    [one] = differences(f"{same}HERE{same}", f"{same}THERE{same}")
    assert "HERE" in one.here
    assert "THERE" in one.there
    assert len(one.here) < MAX_VALUE + 200
    [full] = differences(f"{same}HERE", f"{same}THERE", is_full=True)
    assert full.here == f"{same}HERE"


def test_how_many_are_told_is_bounded() -> None:
    here, there = ({str(at): [at, side] for at in range(5000)} for side in (0, 1))
    assert len(differences(here, there)) == MAX_FIELDS
    assert len(differences(here, there, is_full=True)) == 5000


def test_value_that_is_nested_deeply_is_compared() -> None:
    here: Any = 1
    there: Any = 2
    for _ in range(300):
        here, there = {"x": here}, {"x": there}
    assert len(differences(here, there)) == 1
