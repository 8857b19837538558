"""Why an action is decided as it is: every rule is named, with the part where it parted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.action import Action, Effect, Stage, Verdict
from paddock.policy.analysis.explanation import RulePart, explain
from paddock.policy.file import load
from paddock.policy.rules import Rule
from unit.policy.cases import (
    SUPPORT_BOT,
    actions,
    http,
    policy_of,
    policy_with,
    rule_lists,
    run,
    tool,
)


def parts(action: Action, **spent: int) -> dict[str, RulePart]:
    explanation = explain(load(SUPPORT_BOT), action, {"refund-budget": spent.get("spent", 0)})
    return {one.rule_id: one.part for one in explanation.rules}


def test_each_rule_says_where_it_parted_from_the_action() -> None:
    small = parts(tool("issue_refund", Effect.WRITE, amount=100))
    assert small == {"no-package-installs": RulePart.KIND, "big-refunds": RulePart.WHEN,
                     "refund-budget": RulePart.LIMIT}  # fmt: skip
    large = parts(tool("issue_refund", Effect.WRITE, amount=6000), spent=15000)
    assert (large["big-refunds"], large["refund-budget"]) == (RulePart.MATCHED, RulePart.MATCHED)
    assert parts(tool("issue_refund"))["big-refunds"] is RulePart.FAILED
    assert parts(tool("search_tickets"))["big-refunds"] is RulePart.FIELD
    assert parts(run("/bin/ls"))["no-package-installs"] is RulePart.FIELD


def test_unless_is_told_as_the_reason() -> None:
    policy = policy_with("- {id: x, match: {kind: exec}, unless: {program: git}, decide: block}")
    assert explain(policy, run("/usr/bin/git")).rules[0].part is RulePart.UNLESS


@given(rule_lists(), actions(), st.sampled_from(list(Stage)))
def test_what_is_explained_is_what_is_decided(
    found: tuple[Rule, ...], action: Action, stage: Stage
) -> None:
    policy = policy_of(found, stage)
    explanation = explain(policy, action)
    assert explanation.decision == policy.decide(action)
    if explanation.decision.decided_by in ("undeclared", "error"):
        return
    hits = {hit.rule_id for hit in explanation.decision.hits}
    told = {
        one.rule_id for one in explanation.rules if one.part in (RulePart.MATCHED, RulePart.FAILED)
    }
    assert hits == told


@pytest.mark.parametrize("action", [tool("issue_refund", amount=1), tool("nope"), http("a.test"),
                                    run("/usr/bin/pip"), tool("issue_refund")])  # fmt: skip
def test_an_explanation_is_lines_for_people_and_json_for_programs(action: Action) -> None:
    explanation = explain(load(SUPPORT_BOT), action)
    text = "\n".join(explanation.lines("a call"))
    assert text.startswith(explanation.decision.verdict)
    for rule in ("no-package-installs", "big-refunds", "refund-budget"):
        assert rule in text
    plain = json.loads(json.dumps(explanation.as_json()))
    assert plain["decision"]["verdict"] == explanation.decision.verdict
    assert len(plain["rules"]) == 3


def test_the_part_of_the_stage_and_of_a_yes_is_told() -> None:
    policy = load(SUPPORT_BOT)
    asked = explain(policy, tool("issue_refund", amount=6000))
    assert asked.decision.verdict is Verdict.ASK
    assert any("a yes" in line and "draft" in line for line in asked.lines("a call"))
    assert "becomes a draft" in explain(policy, tool("issue_refund", amount=1)).stage
    assert "stays inside" in explain(policy, run("/bin/ls")).stage
