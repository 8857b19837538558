"""How many values JSON has is known before it is parsed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paddock.policy.json_bounds import has_few_values

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,[{"\\', max_size=6),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner),
)


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _containers(value: Any) -> int:
    """Empty lists and objects, which may count twice."""
    if isinstance(value, dict):
        return sum(map(_containers, value.values())) if value else 1
    if isinstance(value, list):
        return sum(map(_containers, value)) if value else 1
    return 0


@given(VALUES, st.sampled_from([None, 1]))
def test_values_are_counted_and_what_stands_in_texts_is_not(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    assert has_few_values(text, _count(value) + _containers(value))
    assert _count(value) == 1 or not has_few_values(text, _count(value) - 1)


def test_text_that_is_no_json_is_counted_to_its_end() -> None:
    for text in (b'"' * 50_001, b'"\\' * 50_000, b'"' + b"\\" * 50_001, b"[" * 50_000 + b'"'):
        has_few_values(text + b"," * 30, 20)
