"""Actions, decisions and receipts become bodies; whatever a tool returns can be recorded."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.journal.bodies import as_json, decided_body, proposed_body, settled_body
from paddock.journal.canonical import canonical
from paddock.model.action import (
    Action,
    Decision,
    Effect,
    Kind,
    Outcome,
    Receipt,
    RuleHit,
    Verdict,
)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: Any


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_action_keeps_all_that_policy_saw() -> None:
    action = Action(
        Kind.TOOL, "refund", {"amount": 5}, Effect.WRITE, is_reversible=False, parent=3,
        context={"tool_call_id": "c1"},
    )  # fmt: skip
    assert proposed_body(action) == {
        "kind": "tool",
        "name": "refund",
        "arguments": {"amount": 5},
        "effect": "write",
        "is_reversible": False,
        "is_contained": False,
        "parent": 3,
        "context": {"tool_call_id": "c1"},
    }


def test_decision_keeps_every_rule_that_matched() -> None:
    hit = RuleHit("big", Verdict.ASK, "large")
    body = decided_body(
        Decision(Verdict.ASK, "big", "large", Effect.WRITE, (hit,), True, {"status": 500})
    )
    assert body["hits"] == [{"rule_id": "big", "verdict": "ask", "why": "large"}]
    assert (body["is_draft"], body["fault"], body["verdict"]) == (True, {"status": 500}, "ask")


def test_receipt_keeps_result_error_and_cost() -> None:
    receipt = Receipt(Outcome.FAILED, 4, {"a": 1}, "boom", answered_by="ann", cost={"tokens": 3})
    body = settled_body(receipt)
    assert body == {
        "outcome": "failed", "result": {"a": 1}, "error": "boom", "answered_by": "ann",
        "cost": {"tokens": 3},
    }  # fmt: skip


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
