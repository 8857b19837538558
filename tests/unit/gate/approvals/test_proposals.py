"""Always: a proposal that lifts the asking for exactly one call, in a file that still loads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.doors.network.sample_request import SampleRequest, actions_of
from paddock.gate.approvals import Approval, Approvals, Question, digest_of
from paddock.gate.approvals.call_pattern import pattern_of
from paddock.gate.approvals.proposals import Proposal, Proposals, asking_terms, propose
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.model.errors import Conflict, InvalidInput, NotFound
from paddock.policy.analysis.lint import check
from paddock.policy.analysis.review import Level
from paddock.policy.decide import Policy
from paddock.policy.expressions import compile_expression
from paddock.policy.file import load
from paddock.policy.file.writer import emit
from paddock.policy.subject import NAMES, Subject
from paddock.policy.terms import as_plain
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
    compiled = compile_expression(pattern_of(action).whole, NAMES)
    return compiled.holds(Subject(other, other.effect).scope)


def on(arguments: dict[str, Any]) -> Action:
    return Action(Kind.TOOL, "t", arguments)


@given(ARGUMENTS)
def test_expression_holds_for_the_call_itself(arguments: dict[str, Any]) -> None:
    assume(len(pattern_of(on(arguments)).whole) <= 2000)
    assert holds(on(arguments), on(arguments))


@given(ARGUMENTS, ARGUMENTS)
def test_expression_holds_for_no_other_arguments(
    arguments: dict[str, Any], other: dict[str, Any]
) -> None:
    assume(len(pattern_of(on(arguments)).whole) <= 2000)
    assume(other != arguments)  # 1 and 1.0 are the same number to CEL as well
    assert not holds(on(arguments), on(other))


def test_true_is_not_one_and_text_is_not_a_number() -> None:
    for left, right in ((True, 1), (False, 0), ("1", 1), (None, 0), ("", None), ([], {})):
        assert not holds(on({"a": left}), on({"a": right}))
        assert not holds(on({"a": right}), on({"a": left}))


def test_expression_holds_for_no_other_tool() -> None:
    assert not holds(on({}), replace(on({}), name="u"))


# ---- requests ------------------------------------------------------------------------------------

REQUESTS = """\
version: 1
agent: a
stage: {stage}
network: {{allow: ["api.stripe.com:443", "other.example:443"]}}
rules:
  - id: refunds
    match: {{kind: {kind}, host: "**.stripe.com", method: POST}}
    {more}
    decide: ask
    why: Money goes out.
    examples: {{match: [{{host: api.stripe.com, path: /v1/x, body: {{amount: 9}}}},
                       {{host: api.stripe.com, path: /v1/charges/c1/refund, body: {{amount: 9}}}}]}}
"""


def request(path: str = "/v1/charges/ch_123/refund", host: str = "api.stripe.com", method: str =
            "POST", **body: Any) -> Action:  # fmt: skip
    sample = SampleRequest(method, f"https://{host}{path}", body=json.dumps(body).encode())
    return actions_of(sample).request


APPROVED = request(amount=2000, currency="eur", charge="ch_123")


@pytest.mark.parametrize(
    ("more", "stage"),
    [("", "broad"), ("when: int(body.amount) > 5", "broad"), ("unless: {path: /v1/x/y}", "broad"),
     ("", "narrow"), ("when: int(body.amount) > 5 // small", "narrow")],
)  # fmt: skip
def test_rule_for_requests_is_short_valid_and_lets_pass_what_is_alike(
    approvals: Approvals, more: str, stage: str
) -> None:
    text = REQUESTS.format(kind="http", more=more or "# any", stage=stage)
    proposal = propose(approved(approvals, load(text), APPROVED), "ann")
    new = with_proposal(text, proposal)
    before = load(text)
    is_lifted = stage == "broad"  # a write that cannot be undone is asked about below it
    for alike in (APPROVED, request("/v1/charges/ch_9/refund", amount=2000, currency="eur"),
                  request(amount=6, currency="eur", charge="ch_7", note="x")):  # fmt: skip
        assert new.decide(alike).verdict == ("allow" if is_lifted else "ask"), alike
    for other in (
        request(amount=2001, currency="eur"),
        request(amount=2000, currency="usd"),
        request("/v1/charges/ch_123/capture", amount=2000, currency="eur"),
        request("/v1/charges", amount=2000, currency="eur"),
        request(host="files.stripe.com", amount=2000, currency="eur"),
        request(host="other.example", amount=2000, currency="eur"),
        request(method="PUT", amount=2000, currency="eur"),
    ):
        assert new.decide(other).verdict is before.decide(other).verdict, other
    assert not [one for one in check(emit(as_plain(new.terms))) if one.level is Level.ERROR]


def test_amount_of_no_known_currency_is_a_number_in_the_note() -> None:
    request = {"host": "a.example", "method": "POST", "path": "/pay", "body": {"amount": 6000}}
    notes = pattern_of(Action(Kind.HTTP, "POST", request)).notes
    assert "Amounts up to 6000 are not asked about any more." in notes


def test_rule_for_requests_reads_well_and_says_where_it_is_broader(approvals: Approvals) -> None:
    text = REQUESTS.format(kind="http", more="# any", stage="broad")
    given = approved(approvals, load(text), APPROVED)
    lines = propose(given, "ann").as_yaml().splitlines()
    assert lines[1:5] == [
        "# The path was /v1/charges/ch_123/refund; each * stands for any other id.",
        "# Amounts up to 20.00 EUR are not asked about any more.",
        "# These fields of the body may have any value: charge.",
        "# Port, query, headers and further fields of the body may be any.",
    ]
    shown = "\n".join(lines)
    assert 'unless: {host: api.stripe.com, path: "/v1/charges/*/refund"}' in shown
    assert "when: \"int(body.amount) > 2000 || body.currency != 'eur'\"" in shown
    assert len(lines) <= 24


def test_rule_about_just_such_requests_goes_on_asking_about_the_rest(
    approvals: Approvals,
) -> None:
    text = REQUESTS.format(kind="http", more="# any", stage="broad").partition("    examples")[0]
    text = text.replace('"**.stripe.com"', "api.stripe.com, path: /v1/refunds")
    given = approved(approvals, load(text), request("/v1/refunds", amount=5, currency="eur"))
    (rule,) = propose(given, "ann").rules
    assert rule["when"] == "int(body.amount) > 5 || body.currency != 'eur'"
    assert "unless" not in rule


def test_rule_for_requests_with_a_path_in_escapes_means_that_path_alone(
    approvals: Approvals,
) -> None:
    text = REQUESTS.format(kind="[http, connect]", more="# any", stage="broad")
    text = text.partition("    examples")[0].replace(", method: POST", "")
    odd = request("/v1/a%20b", amount=1)
    new = with_proposal(text, propose(approved(approvals, load(text), odd), "ann"))
    assert new.decide(odd).verdict is Verdict.ALLOW
    assert new.decide(request("/v1/a%20c", amount=1)).verdict is Verdict.ASK


def test_program_is_alike_by_its_words_and_its_file(approvals: Approvals) -> None:
    text = file("- {id: r, match: {kind: exec, program: git}, decide: ask, why: Look.}")

    def git(pid: int, *words: str, path: str = "/usr/bin/git") -> Action:
        arguments = {"argv": ["git", *words], "cwd": "/w", "pid": pid, "program": "git",
                     "real_path": path}  # fmt: skip
        return Action(Kind.EXEC, "git", arguments, Effect.WRITE, is_contained=True)

    new = with_proposal(text, propose(approved(approvals, load(text), git(7, "push")), "ann"))
    assert new.decide(git(8, "push")).verdict is Verdict.ALLOW
    assert new.decide(git(8, "push", "--force")).verdict is Verdict.ASK
    assert new.decide(git(8, "push", path="/tmp/git")).verdict is Verdict.ASK
