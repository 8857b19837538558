"""Whatever a tool was given or returns can be recorded."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.journal.canonical import canonical
from paddock.journal.plain_values import as_json


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: Any


class Place(msgspec.Struct, omit_defaults=True, rename={"town": "city"}):
    town: str
    country: str = "de"


class Whole(msgspec.Struct):
    b: str
    a: int = 0


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@for_each(
    ("value", "expected"),
    [
        (2**63, "9223372036854775808"),
        (-(2**53), -(2**53)),
        (float("nan"), "nan"),
        (b"\xff\x00", {"base64": "/wA="}),
        ("\ud800x", "\\ud800x"),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ({3, 1, 2}, [1, 2, 3]),
        (Colour.RED, "red"),
        (Point(1, Point(2, ())), {"x": 1, "y": {"x": 2, "y": []}}),
        (Place("Ulm"), {"city": "Ulm"}),
        (Place("Wien", "at"), {"city": "Wien", "country": "at"}),
        (Whole("x"), {"b": "x", "a": 0}),
        (Hostile(), "<Hostile>"),
        ((1, True, None), [1, True, None]),
    ],
)
def test_values_that_json_does_not_have_are_written_as_text(value: Any, expected: Any) -> None:
    assert as_json(value) == expected
    canonical(as_json(value))


def test_huge_integer_and_a_value_that_contains_itself_can_be_recorded() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    canonical(as_json({"loop": loop, "huge": 10**20_000}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=10,
    )
)
def test_every_value_can_be_recorded_and_recording_it_again_changes_nothing(value: Any) -> None:
    once = as_json(value)
    canonical(once)
    assert as_json(once) == once
