"""Always: a proposal that lifts the asking for exactly one call, in a file that still loads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paddock.gate.approvals import Approval, Approvals, Question, digest_of
from paddock.gate.exactly import exactly
from paddock.gate.proposals import Proposal, Proposals, asking_terms, propose
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.model.errors import Conflict, InvalidInput, NotFound
from paddock.policy.decide import Policy
from paddock.policy.emit import emit
from paddock.policy.expressions import compile_expression
from paddock.policy.file import load
from paddock.policy.rules import as_plain
from paddock.policy.subject import NAMES, Subject
from unit.gate.gates import REFUNDS, refund

FILE = """\
version: 1
agent: a
stage: {stage}
tools:
  t: {{effect: {effect}, reversible: true}}
  u: {{effect: write}}
{rules}
"""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53), 1 << 53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), JSON, max_size=4)


def file(rules: str = "", stage: str = "broad", effect: str = "write") -> str:
    lines = "".join(f"  {line}\n" for line in rules.strip().splitlines())
    return FILE.format(stage=stage, effect=effect, rules=f"rules:\n{lines}" if lines else "")


def call(name: str = "t", effect: Effect = Effect.WRITE, **arguments: Any) -> Action:
    return Action(Kind.TOOL, name, arguments, effect, is_reversible=name == "t")


def approved(
    approvals: Approvals, policy: Policy, action: Action, *, with_terms: bool = True
) -> Approval:
    """A question about the action under the policy, and ann's yes."""
    decision = policy.decide(action)
    assert decision.verdict is Verdict.ASK
    terms = asking_terms(policy, action, decision) if with_terms else {}
    digest = digest_of(action, policy.digest, "run-1")
    question = Question("run-1", policy.agent, 1, action, decision, None, policy.digest, digest,
                        30.0, terms)  # fmt: skip
    return approvals.approve(approvals.ask(question).approval_id, "ann")


def with_proposal(text: str, proposal: Proposal) -> Policy:
    """The file with the proposed rules: in place of those of the same id, else at the end."""
    plain = as_plain(load(text).terms)
    by_id = {rule["id"]: rule for rule in [*plain.get("rules", []), *proposal.rules]}
    return load(emit({**plain, "rules": list(by_id.values())}))


ASKING = {
    "plain": "- {id: r, match: {kind: tool, name: t}, decide: ask, why: Because.}",
    "condition": "- {id: r, match: {kind: tool, name: t}, when: args.n > 3, decide: ask}",
    "or": "- {id: r, match: {kind: tool}, when: args.n > 3 || args.n < 0, decide: ask}",
    "comment": '- {id: r, match: {kind: tool}, when: "args.n > 3 // big", decide: ask}',
    "glob": "- {id: r, match: {kind: tool, name: [t*, u]}, decide: ask}",
    "unless": "- {id: r, match: {kind: tool}, unless: {name: u}, decide: ask}",
    "examples": (
        "- {id: r, match: {kind: tool, name: t}, when: args.n > 3, decide: ask,"
        " examples: {match: [{args: {n: 5, to: ada}}, {args: {n: 9}}],"
        " not_match: [{args: {n: 1}}]}}"
    ),
    "two": (
        "- {id: r, match: {kind: tool, name: t}, when: args.n > 3, decide: ask}\n"
        "- {id: s, match: {kind: tool, name: t}, when: args.n > 4, decide: ask}"
    ),
}


@pytest.mark.parametrize("rules", ASKING.values(), ids=ASKING)
def test_file_with_the_proposal_loads_and_lets_exactly_the_call_pass(
    approvals: Approvals, rules: str
) -> None:
    text = file(rules)
    action = call(n=5, to="ada")
    new = with_proposal(text, propose(approved(approvals, load(text), action), "ann"))
    assert new.decide(action).verdict is Verdict.ALLOW
    for other in (
        call(n=6, to="ada"),
        call(n=5, to="eve"),
        call(n=5),
        call(n=5, to="ada", cc="eve"),
        call(n="5", to="ada"),
        call(n=5, to=["ada"]),
        call(n=5, to="ada "),
        call("u", n=5, to="ada"),
    ):
        assert new.decide(other).verdict is load(text).decide(other).verdict, other


def test_second_always_keeps_the_first_exception(approvals: Approvals) -> None:
    text = file(ASKING["condition"])
    for number in (5, 6):
        policy = load(text)
        proposal = propose(approved(approvals, policy, call(n=number)), "ann")
        text = emit(as_plain(with_proposal(text, proposal).terms))
    verdicts = [load(text).decide(call(n=number)).verdict.value for number in (5, 6, 7)]
    assert verdicts == ["allow", "allow", "ask"]


def test_nothing_is_granted_by_proposing(approvals: Approvals) -> None:
    policy = load(file(ASKING["plain"]))
    Proposals(approvals.store).add(approved(approvals, policy, call(n=1)), "ann")
    assert policy.decide(call(n=1)).verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("stage", "name", "effect", "verdict"),
    [
        ("narrow", "t", "write", Verdict.ALLOW),
        ("broad", "t", "admin", Verdict.ALLOW),
        ("narrow", "u", "write", Verdict.ASK),  # it cannot be undone: the stage asks anyway
        ("approve", "t", "write", Verdict.ASK),
    ],
)
def test_ask_of_the_stage_gives_a_grant_of_exactly_the_call(
    approvals: Approvals, stage: str, name: str, effect: str, verdict: Verdict
) -> None:
    text = file(stage=stage, effect=effect)
    action = call(name, Effect(effect), n=1)
    proposal = propose(approved(approvals, load(text), action), "ann")
    (rule,) = proposal.rules
    assert (rule["decide"], rule["match"]["name"]) == ("allow", name)
    new = with_proposal(text, proposal)
    assert new.decide(action).verdict is verdict
    assert new.decide(call(name, Effect(effect), n=2)).verdict is Verdict.ASK
    assert bool(proposal.notes) == (verdict is Verdict.ASK)


def test_rule_and_stage_that_both_ask_are_both_answered(approvals: Approvals) -> None:
    text = file(ASKING["plain"], stage="narrow")
    proposal = propose(approved(approvals, load(text), call(n=1)), "ann")
    assert [rule["decide"] for rule in proposal.rules] == ["ask", "allow"]
    new = with_proposal(text, proposal)
    assert new.decide(call(n=1)).verdict is Verdict.ALLOW
    assert new.decide(call(n=2)).verdict is Verdict.ASK


def test_yaml_says_who_when_and_why_and_can_be_read_back(approvals: Approvals) -> None:
    policy = load(file(ASKING["condition"]))
    given = approved(approvals, policy, call(n=5, note="a: b # c\n\x1b[2J\u202e'\""))
    text = propose(given, "ann\n- id: evil\x1b[0m").as_yaml()
    assert text.isascii()
    assert text.isprintable() or set(text) - {"\n"} <= set(map(chr, range(0x20, 0x7F)))
    assert given.approval_id in text
    assert text.startswith("# Proposed by ann")
    head = "version: 1\nagent: a\nstage: broad\ntools: {t: {effect: write}}\n"
    assert load(head + text).rules[0].id == "r"
    assert len(load(head + text).rules) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"key": "x {{secret:TOKEN}}"}, "secret"),
        ({"{{secret:TOKEN}}": 1}, "secret"),
        ({"a": [{"b": "{{secret:T}}"}]}, "secret"),
        ({"text": "x" * 5000}, "longer than"),
        ({"a": "\ud800"}, "not text"),
    ],
)
def test_call_that_cannot_be_written_down_exactly_gives_no_rule(
    approvals: Approvals, arguments: dict[str, Any], says: str
) -> None:
    policy = load(file(ASKING["plain"]))
    with pytest.raises(InvalidInput, match=says):
        propose(approved(approvals, policy, call(**arguments)), "ann")


def test_limit_is_not_undermined(approvals: Approvals) -> None:
    rules = (
        "- {id: r, match: {kind: tool, name: t}, limit: {count: 1, max: 2, per: 1h}, decide: ask}"
    )
    policy = load(file(rules))
    action = call(n=1)
    decision = policy.decide(action, {"r": 2})
    assert decision.verdict is Verdict.ASK
    terms = asking_terms(policy, action, decision)
    digest = digest_of(action, policy.digest, "run-1")
    question = Question("run-1", "a", 1, action, decision, None, policy.digest, digest, 30.0, terms)
    given = approvals.approve(approvals.ask(question).approval_id, "ann")
    with pytest.raises(InvalidInput, match="limit was reached"):
        propose(given, "ann")
    bare = approvals.approve(approvals.ask(replace(question, terms={})).approval_id, "ann")
    with pytest.raises(InvalidInput, match="limit was reached"):
        propose(bare, "ann", policy)


def test_file_stands_in_for_what_the_question_does_not_say(approvals: Approvals) -> None:
    text = file(ASKING["condition"])
    given = approved(approvals, load(text), call(n=5), with_terms=False)
    with pytest.raises(InvalidInput, match="--file"):
        propose(given, "ann")
    with pytest.raises(InvalidInput, match="not the one under which it was asked"):
        propose(given, "ann", load(text.replace("> 3", "> 4")))
    proposal = propose(given, "ann", load(text))
    assert with_proposal(text, proposal).decide(call(n=5)).verdict is Verdict.ALLOW


@pytest.mark.parametrize("answer", ["deny", "edit", "none"])
def test_only_a_plain_yes_can_become_a_rule(approvals: Approvals, answer: str) -> None:
    policy = load(REFUNDS)
    action = refund(9000)
    decision = policy.decide(action)
    digest = digest_of(action, policy.digest, "run-1")
    one = approvals.ask(
        Question("run-1", "a", 1, action, decision, None, policy.digest, digest, 30.0)
    )
    if answer == "deny":
        one = approvals.deny(one.approval_id, "ann")
    elif answer == "edit":
        one = approvals.edit(one.approval_id, "ann", {"amount": 1})
    with pytest.raises(Conflict, match="not approved"):
        propose(one, "ann", policy)


def test_proposals_are_kept_listed_by_agent_and_discarded(approvals: Approvals) -> None:
    proposals = Proposals(approvals.store)
    policy = load(file(ASKING["plain"]))
    made = [proposals.add(approved(approvals, policy, call(n=n)), "ann") for n in (1, 2)]
    assert proposals.all() == made
    assert proposals.all("a") == made
    assert proposals.all("b") == []
    proposals.discard(made[0].proposal_id)
    assert proposals.all() == made[1:]
    with pytest.raises(NotFound):
        proposals.discard(made[0].proposal_id)


def holds(action: Action, other: Action) -> bool:
    """Whether the expression for one call holds for another."""
    compiled = compile_expression(exactly(action), NAMES)
    return compiled.holds(Subject(other, other.effect).scope)


def on(arguments: dict[str, Any]) -> Action:
    return Action(Kind.TOOL, "t", arguments)


@settings(deadline=None, max_examples=100)
@given(ARGUMENTS)
def test_expression_holds_for_the_call_itself(arguments: dict[str, Any]) -> None:
    assume(len(exactly(on(arguments))) <= 2000)
    assert holds(on(arguments), on(arguments))


@settings(deadline=None, max_examples=100)
@given(ARGUMENTS, ARGUMENTS)
def test_expression_holds_for_no_other_arguments(
    arguments: dict[str, Any], other: dict[str, Any]
) -> None:
    assume(len(exactly(on(arguments))) <= 2000)
    assume(other != arguments)  # 1 and 1.0 are the same number to CEL as well
    assert not holds(on(arguments), on(other))


def test_true_is_not_one_and_text_is_not_a_number() -> None:
    for left, right in ((True, 1), (False, 0), ("1", 1), (None, 0), ("", None), ([], {})):
        assert not holds(on({"a": left}), on({"a": right}))
        assert not holds(on({"a": right}), on({"a": left}))


def test_expression_holds_for_no_other_tool_and_no_other_kind() -> None:
    assert not holds(on({}), replace(on({}), name="u"))
    assert not holds(on({}), replace(on({}), kind=Kind.MODEL))
