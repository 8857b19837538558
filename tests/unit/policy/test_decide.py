"""What is decided: the strictest of rules, custom and stage; anything odd means block."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.action import Action, Effect, Kind, Stage, Verdict
from paddock.policy.decide import Charge
from paddock.policy.file import default_policy, load
from paddock.policy.rules import Rule
from unit.policy.cases import (
    SUPPORT_BOT,
    actions,
    file_action,
    http,
    policy_of,
    policy_with,
    rule_lists,
    rules,
    run,
    tool,
)

NOT_ALLOW = tuple(one for one in Verdict if one is not Verdict.ALLOW)
stages = st.sampled_from(list(Stage))


def strictness(verdict: Verdict) -> int:
    return verdict.strictness


# The laws.


@given(rule_lists(), actions(), stages, st.randoms())
def test_the_order_of_rules_decides_nothing(
    found: tuple[Rule, ...], action: Action, stage: Stage, random: Any
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)
    assert policy_of(tuple(shuffled), stage).decide(action) == policy_of(found, stage).decide(
        action
    )


@given(rule_lists(), rules("new", verdicts=NOT_ALLOW), actions(), stages)
def test_adding_a_rule_that_does_not_allow_never_loosens(
    found: tuple[Rule, ...], new: Rule, action: Action, stage: Stage
) -> None:
    before = policy_of(found, stage).decide(action)
    after = policy_of((*found, new), stage).decide(action)
    assert strictness(after.verdict) >= strictness(before.verdict)
    if before.verdict is after.verdict is Verdict.ASK:
        assert strictness(after.once_approved) >= strictness(before.once_approved)


@given(rule_lists(), rules("new", verdicts=(Verdict.ALLOW,)), actions(), stages)
def test_adding_an_allow_rule_loosens_only_what_waited_for_a_grant(
    found: tuple[Rule, ...], new: Rule, action: Action, stage: Stage
) -> None:
    before = policy_of(found, stage).decide(action)
    after = policy_of((*found, new), stage).decide(action)
    if strictness(after.verdict) >= strictness(before.verdict):
        return
    # A grant: of the network, of a reversible write in narrow, of an admin action in broad.
    is_network = action.kind is Kind.HTTP and before.decided_by == "default"
    is_narrow = stage is Stage.NARROW and before.decided_by == "stage:narrow"
    is_admin = stage is Stage.BROAD and before.decided_by == "stage:broad"
    assert is_network or is_narrow or is_admin
    if is_narrow:
        assert after.effect is Effect.WRITE
    if is_admin:
        assert after.effect is Effect.ADMIN


@given(rule_lists(), rules("new", verdicts=(Verdict.ALLOW,)), actions(), stages)
def test_an_allow_rule_never_loosens_below_what_another_rule_wants(
    found: tuple[Rule, ...], new: Rule, action: Action, stage: Stage
) -> None:
    after = policy_of((*found, new), stage).decide(action)
    for hit in policy_of(found, stage).decide(action).hits:
        assert strictness(after.verdict) >= strictness(hit.verdict)


@given(rule_lists(), actions(), stages)
def test_nothing_goes_out_in_a_stage_that_would_not_in_the_stage_broad(
    found: tuple[Rule, ...], action: Action, stage: Stage
) -> None:
    broad = policy_of(found, Stage.BROAD).decide(action)
    staged = policy_of(found, stage).decide(action)
    assert staged.effect is broad.effect
    if staged.verdict is Verdict.ALLOW:
        assert broad.verdict is Verdict.ALLOW
    if staged.verdict is Verdict.ASK and staged.once_approved is Verdict.ALLOW:
        assert broad.verdict is Verdict.ALLOW or broad.once_approved is Verdict.ALLOW


@given(rule_lists(), actions(), stages)
def test_deciding_changes_nothing_and_gives_the_same_again(
    found: tuple[Rule, ...], action: Action, stage: Stage
) -> None:
    policy, before = policy_of(found, stage), copy.deepcopy(action)
    assert policy.decide(action) == policy.decide(action)
    assert action == before


@given(rule_lists(), actions(), stages)
def test_the_decision_is_at_least_as_strict_as_every_rule_that_matched(
    found: tuple[Rule, ...], action: Action, stage: Stage
) -> None:
    decision = policy_of(found, stage).decide(action)
    for hit in decision.hits:
        assert strictness(decision.verdict) >= strictness(hit.verdict)


# The stages.

FOUR_TOOLS = ("{r: {effect: read}, w: {effect: write}, u: {effect: write, reversible: true}, "
              "a: {effect: admin}}")  # fmt: skip
ALLOW_ALL = '- {id: all, match: {kind: tool, name: "*"}, decide: allow}'


@for_each(
    ("stage", "rule", "expected"),
    [
        ("observe", "", "allow block block block"),
        ("observe", ALLOW_ALL, "allow block block block"),
        ("draft", "", "allow draft draft draft"),
        ("draft", ALLOW_ALL, "allow draft draft draft"),
        ("approve", "", "allow ask ask ask"),
        ("approve", ALLOW_ALL, "allow ask ask ask"),
        ("narrow", "", "allow ask ask ask"),
        ("narrow", ALLOW_ALL, "allow ask allow ask"),
        ("broad", "", "allow allow allow ask"),
        ("broad", ALLOW_ALL, "allow allow allow allow"),
    ],
)
def test_each_stage_is_the_ceiling_it_says(stage: str, rule: str, expected: str) -> None:
    policy = policy_with(rule, stage=stage, tools=FOUR_TOOLS)
    decisions = [policy.decide(tool(name)) for name in "rwua"]
    assert " ".join("draft" if one.is_draft else one.verdict for one in decisions) == expected


@pytest.mark.parametrize("stage", list(Stage))
def test_what_stays_inside_the_fence_is_not_subject_to_the_stage(stage: Stage) -> None:
    policy = policy_with("", stage=stage)
    for action in (run("/bin/rm", "-rf"), file_action("write", "/x"), file_action("remove", "/x")):
        assert policy.decide(action).verdict is Verdict.ALLOW


def test_a_tool_cannot_escape_the_stage_by_calling_itself_contained() -> None:
    policy = policy_with("", stage="observe", tools="{w: {effect: write}}")
    action = Action(Kind.TOOL, "w", {}, Effect.WRITE, is_contained=True)
    assert policy.decide(action).verdict is Verdict.BLOCK


def test_a_request_cannot_escape_the_rules_by_calling_itself_contained() -> None:
    action = Action(Kind.HTTP, "x", {"host": "x.test"}, is_contained=True)
    assert policy_with("").decide(action).verdict is Verdict.BLOCK


def test_a_yes_in_the_stage_draft_gives_a_draft() -> None:
    rule = "- {id: q, match: {kind: tool, name: w}, decide: ask}"
    decision = policy_with(rule, stage="draft", tools=FOUR_TOOLS).decide(tool("w"))
    assert decision.verdict is Verdict.ASK
    assert decision.once_approved is Verdict.SIMULATE
    assert decision.is_draft


def test_a_yes_does_not_lift_what_another_rule_simulates_or_faults() -> None:
    rules_text = """
- {id: q, match: {kind: tool, name: w}, decide: ask}
- {id: s, match: {kind: tool, name: "*"}, when: args.n == 1, decide: simulate}
- {id: f, match: {kind: tool, name: "*"}, when: args.n == 2, decide: fault, fault: {error: No.}}
"""
    policy = policy_with(rules_text, tools=FOUR_TOOLS)
    simulated, failed = policy.decide(tool("w", n=1)), policy.decide(tool("w", n=2))
    assert (simulated.verdict, simulated.once_approved) == (Verdict.ASK, Verdict.SIMULATE)
    assert not simulated.is_draft
    assert (failed.verdict, failed.once_approved) == (Verdict.ASK, Verdict.FAULT)
    assert failed.fault == {"error": "No."}


# What is usual.


def test_an_undeclared_tool_is_blocked_even_where_a_rule_allows_everything() -> None:
    policy = policy_with('- {id: all, match: {kind: tool, name: "*"}, decide: allow}')
    decision = policy.decide(tool("rm_rf"))
    assert (decision.verdict, decision.decided_by) == (Verdict.BLOCK, "undeclared")


@pytest.mark.parametrize("name", ["T", "t ", " t", "t\n", "", "t\u200b", "\u0442"])
def test_a_name_that_only_looks_like_a_declared_tool_is_not_one(name: str) -> None:
    assert policy_with("").decide(tool(name)).decided_by == "undeclared"


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (Kind.HTTP, {"host": "a.test", "method": "GET", "path": "/"}),
        (Kind.CONNECT, {"host": "a.test", "port": 22}),
        (Kind.DNS, {"name": "a.test"}),
        (Kind.MODEL, {"provider": "p", "model": "m"}),
        (Kind.EXEC, {"program": "/bin/ls", "argv": ["ls"]}),  # not contained
    ],
)
def test_what_leaves_the_fence_needs_an_allow_rule(kind: Kind, arguments: dict[str, Any]) -> None:
    action = Action(kind, "a.test", arguments)
    assert policy_with("").decide(action).verdict is Verdict.BLOCK
    granted = policy_with(f"- {{id: g, match: {{kind: {kind}}}, decide: allow}}")
    assert granted.decide(action).verdict is Verdict.ALLOW


def test_simulating_a_host_does_not_open_it() -> None:
    policy = policy_with("- {id: s, match: {kind: http, host: a.test}, decide: simulate}")
    assert policy.decide(http("a.test")).verdict is Verdict.BLOCK


def test_without_a_file_only_what_stays_inside_is_allowed() -> None:
    policy = default_policy()
    assert policy.decide(run("/bin/ls")).decided_by == "contained"
    assert policy.decide(file_action("write", "/x")).verdict is Verdict.ALLOW
    for action in (tool("t"), http("a.test"), Action(Kind.CONNECT, "a.test", {"host": "a.test"})):
        assert policy.decide(action).verdict is Verdict.BLOCK


# Whatever goes wrong means block.


@for_each(
    "arguments", [{}, {"n": "5"}, {"n": None}, {"n": [5]}, {"n": True}, {"n": 1 << 70},
                  {"n": float("nan")}, {"n": b"5"}, {"n": {"n": 5}}],
)  # fmt: skip
@for_each("decide", ["allow", "ask", "block"])
def test_an_expression_that_fails_blocks_whatever_the_rule_decides(
    arguments: dict[str, Any], decide: str
) -> None:
    policy = policy_with(f"- {{id: q, match: {{kind: tool}}, when: args.n > 3, decide: {decide}}}")
    decision = policy.decide(tool(**arguments))
    assert (decision.verdict, decision.decided_by) == (Verdict.BLOCK, "q")
    assert "cannot be evaluated" in decision.why


def test_an_expression_that_gives_no_truth_value_blocks() -> None:
    policy = policy_with("- {id: q, match: {kind: tool}, when: args.n, decide: allow}")
    decision = policy.decide(tool(n=1))
    assert decision.verdict is Verdict.BLOCK
    assert "true or false" in decision.why


@pytest.mark.parametrize(
    "action",
    [
        Action(Kind.TOOL, "t", None),  # type: ignore[arg-type]
        Action(Kind.TOOL, None, {}),  # type: ignore[arg-type]
        Action(Kind.TOOL, ["t"], {}),  # type: ignore[arg-type]
        Action("tool", "t", {}),  # type: ignore[arg-type]
        Action(Kind.FILE, "read", {"path": 3}, is_contained=True),
        Action(Kind.EXEC, "", {}, is_contained=True),
        Action(Kind.TOOL, "t", {"n": 5}, "write"),  # type: ignore[arg-type]
    ],
)
def test_an_action_that_makes_no_sense_is_blocked_and_not_raised_about(action: Action) -> None:
    rules_text = """
- {id: a, match: {kind: tool}, when: args.n > 3, decide: allow}
- {id: b, match: {kind: file, path: /x}, decide: block}
- {id: c, match: {kind: exec, program: x}, decide: block}
"""
    assert policy_with(rules_text).decide(action).verdict is Verdict.BLOCK


def test_arguments_that_would_end_the_evaluator_are_blocked() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    policy = policy_with("- {id: q, match: {kind: tool}, when: args.n == 1, decide: ask}")
    assert policy.decide(tool(n=deep)).verdict is Verdict.BLOCK
    while isinstance(deep, list):  # taken apart by hand: freeing it whole would recurse
        deep = deep.pop()


def test_a_list_that_would_keep_a_loop_busy_is_blocked() -> None:
    loop = "args.n.all(x, args.n.exists(y, x == y))"
    policy = policy_with(f"- {{id: q, match: {{kind: tool}}, when: '{loop}', decide: ask}}")
    assert policy.decide(tool(n=list(range(20)))).verdict is Verdict.ASK
    decision = policy.decide(tool(n=list(range(3000))))
    assert decision.verdict is Verdict.BLOCK
    assert "too large" in decision.why


# Limits.

BUDGET = "- {id: b, match: {kind: tool}, limit: {sum: args.n, max: 10, per: 1h}, decide: block}"


@pytest.mark.parametrize(
    ("spent", "amount", "verdict"),
    [(0, 10, "allow"), (0, 11, "block"), (9, 1, "allow"), (10, 0, "allow"), (10, 1, "block"),
     (11, 0, "block")],
)  # fmt: skip
def test_a_limit_fires_when_more_would_be_spent_than_its_most(
    spent: int, amount: int, verdict: str
) -> None:
    assert policy_with(BUDGET).decide(tool(n=amount), {"b": spent}).verdict == verdict


@for_each(
    "amount", [-1, 1.0, 0.5, "1", None, [1], float("nan"), float("inf"), 10**16, 1 << 63, True]
)
def test_an_amount_that_cannot_be_counted_blocks_and_is_not_charged(amount: Any) -> None:
    policy = policy_with(BUDGET.replace("max: 10", "max: 1000000000000000"))
    assert policy.decide(tool(n=amount)).verdict is Verdict.BLOCK
    assert policy.amounts(tool(n=amount)) == ()


@pytest.mark.parametrize("spent", [-5, 1.5, None, "0"])
def test_an_unknown_sum_of_what_was_spent_blocks(spent: Any) -> None:
    assert policy_with(BUDGET).decide(tool(n=1), {"b": spent}).verdict is Verdict.BLOCK


def test_amounts_says_what_every_limit_that_is_met_would_be_charged() -> None:
    rules_text = """
- {id: sum, match: {kind: tool}, limit: {sum: args.n, max: 10, per: 1h}, decide: block}
- {id: count, match: {kind: tool}, limit: {count: 2, max: 10, per: run}, decide: ask}
- {id: other, match: {kind: tool}, when: args.n > 5, limit: {count: 1, max: 1, per: 1h},
   decide: ask}
"""
    policy = policy_with(rules_text)
    assert set(policy.amounts(tool(n=3))) == {Charge("sum", 3, 3600.0), Charge("count", 2, None)}
    assert policy.amounts(tool("unknown", n=3)) == ()


# Faults, reasons, identity.


def test_of_two_faults_the_one_whose_id_comes_first_is_told() -> None:
    rules_text = """
- {id: b, match: {kind: tool}, decide: fault, fault: {error: second}, when: "true"}
- {id: a, match: {kind: tool}, decide: fault, fault: {error: first, status: 503}, when: "true"}
"""
    decision = policy_with(rules_text).decide(tool())
    assert decision.fault == {"error": "first", "status": 503}
    assert [hit.rule_id for hit in decision.hits] == ["a", "b"]


def test_the_reason_is_that_of_the_rule_that_decided() -> None:
    decision = load(SUPPORT_BOT).decide(run("/usr/bin/pip", "install", "x"))
    assert decision.why == "Dependencies are pinned in the template."
    assert decision.decided_by == "no-package-installs"


def test_deciding_loads_neither_pydantic_nor_yaml() -> None:
    code = (
        "import sys, paddock.policy.decide, paddock.policy.analysis.explanation;"
        "import paddock.policy.analysis.candidate;"
        "from paddock.policy.file import default_policy;"
        "from paddock.model.action import Action, Kind;"
        "default_policy().decide(Action(Kind.TOOL, 't', {}));"
        "print([m for m in ('pydantic', 'yaml', 'cel', 'cel.cel') if m in sys.modules])"
    )
    assert _output(code) == "[]"


def test_expressions_come_without_the_command_line_of_their_package() -> None:
    code = (
        "import sys; from paddock.policy.file import load;"
        f"p = load({json.dumps(SUPPORT_BOT)});"
        "print([m for m in ('rich', 'typer', 'prompt_toolkit') if m in sys.modules]);"
        "import cel; print(cel.evaluate('1 + 1'), cel.Context is sys.modules['cel.cel'].Context)"
    )
    assert _output(code) == "[]\n2 True"


def _output(code: str) -> str:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()
