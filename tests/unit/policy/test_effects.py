"""The effect of a tool's call: no argument turns a write into a read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.action import Effect, Verdict
from paddock.policy.decide import Policy
from unit.policy.cases import policy_with, tool

WIDE, WIDE_KEY = ("".join(chr(ord(one) + 0xFEE0) for one in word) for word in ("update", "mode"))
# What is not foreseen is a read. The weakest form, and so the one to attack.
WEAK = """{records: {effect: {write: 'args.mode == "update"', read: true}},
  flags: {effect: {admin: args.force == true, write: args.count > 3, read: true}}}"""
# What is not foreseen is a write, or nothing at all.
STRONG = """{records: {effect: {write: true}},
  gates: {effect: {admin: 'args.mode == "drop"', write: 'args.mode == "set"',
                   read: 'args.mode == "get"'}}}"""


@pytest.fixture(scope="module")
def weak() -> Policy:
    return policy_with("", stage="observe", tools=WEAK)


@pytest.fixture(scope="module")
def strong() -> Policy:
    return policy_with("", stage="observe", tools=STRONG)


def test_the_effect_is_that_of_the_strictest_condition_that_holds(weak: Policy) -> None:
    assert weak.effect(tool("records", mode="get")) is Effect.READ
    assert weak.effect(tool("records", mode="update")) is Effect.WRITE
    assert weak.effect(tool("flags", force=False, count=1)) is Effect.READ
    assert weak.effect(tool("flags", force=False, count=4)) is Effect.WRITE
    assert weak.effect(tool("flags", force=True, count=4)) is Effect.ADMIN


@for_each(
    "mode",
    [
        "UPDATE", "Update", " update", "update\n", "\tupdate ", WIDE, WIDE.upper(),
        ["update"], [["update"]], ["UPDATE"], ("update",),
    ],
)  # fmt: skip
def test_a_value_that_a_generous_tool_takes_for_the_write_is_one(weak: Policy, mode: Any) -> None:
    assert weak.effect(tool("records", mode=mode)) is Effect.WRITE
    assert weak.decide(tool("records", mode=mode)).verdict is Verdict.BLOCK


@for_each(
    "arguments",
    [
        {},
        {"Mode": "update"},
        {"MODE": "get"},
        {"mode": "get", "Mode": "update"},
        {"Mode": "update", "mode": "get"},
        {"mode": "get", " mode": "update"},
        {"mode": "get", WIDE_KEY: "update"},
        {"mode": 1 << 80},
        {"mode": float("nan")},
        {"mode": b"update"},
        {"mode": {1: 2}},
        {"mode": "\ud800"},
    ],
)
def test_arguments_that_cannot_be_told_apart_count_as_the_strictest(
    weak: Policy, arguments: dict[str, Any]
) -> None:
    assert weak.effect(tool("records", **arguments)) is Effect.WRITE


@for_each("force", [True, "true", "True", "TRUE ", 1, "1", "yes", "on", ["true"]])
def test_truth_by_another_name_is_truth(weak: Policy, force: Any) -> None:
    assert weak.effect(tool("flags", force=force, count=1)) is Effect.ADMIN


@for_each("count", ["4", " 4 ", "4.5", 4.5, ["4"], None, "many", [], {}])
def test_a_number_that_is_text_or_none_at_all_does_not_slip_below_the_limit(
    weak: Policy, count: Any
) -> None:
    assert weak.effect(tool("flags", force=False, count=count)) is not Effect.READ


@pytest.mark.parametrize("mode", ["get", "list", "updated", "up date", "", "\u0443pdate"])
def test_a_value_that_no_tool_takes_for_the_write_stays_a_read(weak: Policy, mode: str) -> None:
    assert weak.effect(tool("records", mode=mode)) is Effect.READ


@pytest.mark.parametrize("mode", ["Get!", "delete", "", "GETS", 3, None, ["get", "set"]])
def test_arguments_that_fit_no_effect_are_blocked(strong: Policy, mode: Any) -> None:
    decision = strong.decide(tool("gates", mode=mode))
    assert (decision.verdict, decision.decided_by) == (Verdict.BLOCK, "error")
    assert "no effect of gates fits" in decision.why


def test_what_is_decided_on_is_what_the_tool_gets_also_with_doubled_keys(weak: Policy) -> None:
    arguments = json.loads('{"mode": "get", "mode": "update"}')
    assert weak.effect(tool("records", **arguments)) is Effect.WRITE
    assert arguments == {"mode": "update"}


@given(st.sampled_from(list(Effect)), st.sampled_from(["get", "update"]))
def test_the_effect_is_never_looser_than_the_call_declares(declared: Effect, mode: str) -> None:
    policy = policy_with("", tools=WEAK)
    found = policy.effect(tool("records", declared, mode=mode))
    order = [Effect.READ, Effect.WRITE, Effect.ADMIN]
    assert order.index(found) >= order.index(declared)


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["update", "UPDATE", "get"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["mode", "Mode", "x"]), _values, max_size=3))
def test_whenever_the_write_is_named_anywhere_under_its_key_it_is_no_read(
    arguments: dict[str, Any],
) -> None:
    policy = policy_with("", tools=WEAK)
    found = policy.effect(tool("records", **arguments))
    if arguments.get("mode") == "update" or "mode" not in arguments:
        assert found is Effect.WRITE
