"""Conditions over what a run left behind: what they mean, and that none of them runs away."""

from __future__ import annotations

from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.policy.expressions import ExpressionError
from paddock.run.scenarios.expressions import (
    check_pattern,
    does_match,
    json_condition,
    world_condition,
)

WORLD: dict[str, dict[str, Any]] = {
    "api.stripe.com": {"refunds": [{"amount": 1200}], "charges": [{"amount": 1200}, {"amount": 5}]},
    "my-mail.example:2525": {"messages": [{"to": "a@b.example"}]},
    "stripe.com": {"refunds": []},
}


def holds(source: str) -> bool:
    return world_condition(source, list(WORLD)).holds(WORLD)


@for_each(
    "source",
    [
        "api.stripe.com.refunds.exists(r, r.amount == 1200)",
        "api.stripe.com.refunds.size() == 1 && api.stripe.com.charges.size() == 2",
        "api.stripe.com.charges[1].amount == 5",
        "size(api.stripe.com.refunds) == 1",
        "stripe.com.refunds.size() == 0",
        "my-mail.example:2525.messages.all(m, m.to == 'a@b.example')",
        "world['api.stripe.com'].refunds[0].amount == 1200",
        "api.stripe.com['refunds'].size() == 1",
        "api.stripe.com.disputes.size() == 0",  # none was ever made
        "!api.stripe.com.refunds.exists(r, r.amount > 5000)",
        "api.stripe.com.charges.all(c, api.stripe.com.refunds.exists(r, r.amount >= c.amount))",
        "'api.stripe.com.refunds' == \"api.stripe.\" + 'com.refunds'",  # in a text it is a text
    ],
)
def test_a_condition_that_is_true_holds(source: str) -> None:
    assert holds(source)


@pytest.mark.parametrize(
    "source",
    [
        "api.stripe.com.refunds.exists(r, r.amount == 7)",
        "stripe.com.refunds.size() == 1",
        "api.stripe.com.disputes.size() == 1",
    ],
)
def test_a_condition_that_is_false_does_not_hold(source: str) -> None:
    assert not holds(source)


def test_a_slip_in_a_kind_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(ExpressionError, match="has no refnds; did you mean refunds"):
        holds("!api.stripe.com.refnds.exists(r, r.amount > 5000)")


def test_a_field_that_is_not_there_cannot_be_told() -> None:
    with pytest.raises(ExpressionError):
        holds("api.stripe.com.refunds[0].amont == 1200")


def test_what_is_no_truth_value_cannot_be_told() -> None:
    with pytest.raises(ExpressionError, match="not true or false"):
        holds("api.stripe.com.refunds.size()")


def test_a_stand_in_that_the_run_did_not_have_cannot_be_told() -> None:
    condition = world_condition("api.stripe.com.refunds.size() == 0", ["api.stripe.com"])
    with pytest.raises(ExpressionError, match="has no api"):
        condition.holds({})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("api.stripe.org.refunds.size() == 1", "about no stand-in"),
        ("notapi.stripe.com.refunds.size() == 1", "about no stand-in"),
        ("api.stripe.com.refunds.exists(", "api.stripe.com.refunds.exists"),
        ("api.stripe.com.refunds.reduce(r, 1)", "there is no function reduce"),
        ("world.size(" * 300, "longer than"),
    ],
)
def test_what_is_no_condition_on_the_world_is_refused(source: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words.replace("(", r"\(")):
        world_condition(source, ["api.stripe.com"])


def test_a_world_that_is_too_large_to_filter_cannot_be_told() -> None:
    many = {"api.stripe.com": {"charges": [{"amount": n, "id": str(n)} for n in range(3000)]}}
    condition = world_condition(
        "api.stripe.com.charges.filter(c, c.amount > 5).size() == 3", ["api.stripe.com"]
    )
    with pytest.raises(ExpressionError, match="too large"):
        condition.holds(many)


def test_a_condition_may_look_through_thousands_of_documents() -> None:
    many = {"api.stripe.com": {"charges": [{"amount": n, "id": str(n)} for n in range(5000)]}}
    condition = world_condition(
        "api.stripe.com.charges.exists(c, c.amount == 4999)", ["api.stripe.com"]
    )
    assert condition.holds(many)


@pytest.mark.parametrize(
    ("source", "does_hold"),
    [
        ("$.total == 3", True),
        ("$.items.all(x, x > 0)", True),
        ("$.total == 4", False),
        ("$.price == '$3'", True),
        ("size($.items) == 2 && $.total > 1.5", True),
    ],
)
def test_a_dollar_stands_for_the_document(source: str, does_hold: bool) -> None:
    document = {"total": 3, "items": [1, 2], "price": "$3"}
    assert json_condition(source)(document) is does_hold


def test_a_list_can_be_a_document() -> None:
    assert json_condition("$.size() == 2 && $[0] == 1")([1, 2])


def test_no_pattern_takes_more_than_linear_time() -> None:
    assert not does_match(r"^(a+)+$", "a" * 200_000 + "!")


@pytest.mark.parametrize("pattern", ["(", r"(?=a)", r"(a)\1", "a{1000000}"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="no regular expression"):
        check_pattern(pattern)
