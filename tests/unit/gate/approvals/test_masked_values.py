"""What an approver leaves as it was shown is what it really was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gate.approvals.argument_edits import restored
from paddock.journal.secrets.mask import Masker

SECRET = "hunter2-hunter2"
MASK = Masker({"T": SECRET})
_LEAVES = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", SECRET, f"x {SECRET}"])
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", SECRET]), inner, max_size=3)
    ),
)


@given(VALUES)
def test_what_was_not_edited_comes_back_whole(value: Any) -> None:
    assert restored(MASK.mask(value), MASK.mask(value), value) == value


@given(st.dictionaries(st.sampled_from(["b", SECRET, "c"]), VALUES, max_size=3), VALUES)
def test_edit_of_one_key_leaves_the_others_real(value: dict[str, Any], new: Any) -> None:
    edited = {**MASK.mask(value), "new": new}
    assert restored(edited, MASK.mask(value), value) == {**value, "new": new}


@pytest.mark.parametrize(
    ("edited", "shown", "real", "meant"),
    [
        (["{{secret:T}}"], ["{{secret:T}}", "x"], [SECRET, "x"], [SECRET]),
        (["n", "{{secret:T}}", "x"], ["{{secret:T}}", "x"], [SECRET, "x"], ["n", SECRET, "x"]),
        (["{{secret:T}}", "y"], ["{{secret:T}}", "x"], [SECRET, "x"], [SECRET, "y"]),
        ({"a": 1}, {"a": True}, {"a": True}, {"a": 1}),
        ({"a": 1.5}, {"a": "9007199254740993"}, {"a": 9007199254740993}, {"a": 1.5}),
        ({"b": None}, {"a": "{{secret:T}}"}, {"a": SECRET}, {"b": None}),
        ("{{secret:T}} and more", "{{secret:T}}", SECRET, "{{secret:T}} and more"),
    ],
)
def test_edits(edited: Any, shown: Any, real: Any, meant: Any) -> None:
    found = restored(edited, shown, real)
    assert found == meant
    assert repr(found) == repr(meant)  # True is not 1


def test_placeholder_under_another_key_does_not_move_the_secret() -> None:
    shown, real = {"token": "{{secret:T}}", "note": "hi"}, {"token": SECRET, "note": "hi"}
    edited = {"token": "none", "note": "{{secret:T}}"}
    assert restored(edited, shown, real) == edited
