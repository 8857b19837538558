"""A candidate over the past: exactly what it decides otherwise, with limits along the times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.model.action import Action, Stage, Verdict
from paddock.policy.analysis.candidate import DecisionChange, RecordedAction, replay
from paddock.policy.decide import Policy
from paddock.policy.rules import Rule
from unit.policy.cases import (
    actions,
    policy_of,
    policy_with,
    recorded_action,
    rule_lists,
    run,
    tool,
)


def record(policy: Policy, found: list[Action], times: list[float] | None = None,
           run_id: str = "") -> list[RecordedAction]:  # fmt: skip
    at = times or [float(number) for number in range(len(found))]
    return [
        recorded_action(step, action, policy.decide(action), at=at[step], run=run_id)
        for step, action in enumerate(found)
    ]


PERMISSIVE = policy_with("")


def test_only_what_is_decided_otherwise_is_told() -> None:
    past = record(PERMISSIVE, [run("/bin/ls"), run("/usr/bin/pip"), tool("t")])
    candidate = policy_with("- {id: x, match: {kind: exec, program: pip}, decide: block, why: No.}")
    changes = replay(candidate, past)
    assert [(one.step, one.before.verdict, one.after.verdict) for one in changes] == [
        (1, Verdict.ALLOW, Verdict.BLOCK)
    ]
    assert changes[0].after.why == "No."
    assert changes[0].after.verdict.strictness > changes[0].before.verdict.strictness


def test_what_a_candidate_lets_through_is_called_looser() -> None:
    strict = policy_with("- {id: x, match: {kind: tool}, decide: block}")
    changes = replay(PERMISSIVE, record(strict, [tool("t")]))
    assert len(changes) == 1
    assert changes[0].after.verdict.strictness < changes[0].before.verdict.strictness


def limited(per: str) -> Policy:
    limit = f"{{sum: args.n, max: 10, per: {per}}}"
    return policy_with(f"- {{id: x, match: {{kind: tool}}, limit: {limit}, decide: block}}")


def changed(changes: list[DecisionChange]) -> list[int]:
    return [one.step for one in changes]


def test_a_window_moves_along_the_recorded_times() -> None:
    spending = [tool("t", n=6), tool("t", n=4), tool("t", n=1), tool("t", n=1)]
    past = record(PERMISSIVE, spending, [0.0, 30.0, 59.0, 61.0])
    # At 59 s the window holds 10; at 61 s the first 6 have left it.
    assert changed(replay(limited("1m"), past)) == [2]
    assert changed(replay(limited("run"), past)) == [2, 3]


def test_what_the_candidate_blocks_spends_nothing() -> None:
    past = record(PERMISSIVE, [tool("t", n=9), tool("t", n=9), tool("t", n=1)])
    assert changed(replay(limited("1h"), past)) == [1]


def test_limits_over_a_run_begin_anew_with_each_run_and_others_do_not() -> None:
    first = record(PERMISSIVE, [tool("t", n=9)], run_id="a")
    second = record(PERMISSIVE, [tool("t", n=9)], run_id="b")
    assert replay(limited("run"), [*first, *second]) == []
    assert [one.run for one in replay(limited("1h"), [*first, *second])] == ["b"]


def test_a_write_that_becomes_a_draft_is_a_change() -> None:
    tools = "{w: {effect: write}}"
    past = record(policy_with("", tools=tools), [tool("w")])
    changes = replay(policy_with("", stage="draft", tools=tools), past)
    assert [one.after.is_draft for one in changes] == [True]


@given(rule_lists(), st.lists(actions(), max_size=4), st.sampled_from(list(Stage)))
def test_a_policy_without_limits_changes_nothing_about_its_own_past(
    found: tuple[Rule, ...], past: list[Action], stage: Stage
) -> None:
    policy = policy_of(tuple(rule for rule in found if rule.limit is None), stage)
    assert replay(policy, record(policy, past)) == []
