"""The paddock file: what it accepts, how it refuses the rest, and that it round-trips."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cases import for_each
from paddock.model.action import Effect, Stage
from paddock.model.errors import InvalidInput
from paddock.policy.decide import Policy
from paddock.policy.file import default_policy, dump, load
from paddock.policy.file.document import read
from paddock.policy.problems import PolicyError, Problem
from paddock.policy.terms import ApprovalTerms, SandboxTerms, Terms, json_schema
from paddock.policy.tools import ToolTerms
from unit.policy.cases import SUPPORT_BOT, TOOLS, file_with, rule_lists


def problems(text: str) -> list[Problem]:
    with pytest.raises(PolicyError) as caught:
        load(text)
    return caught.value.problems


def said(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        load(text)
    return str(caught.value)


def test_the_file_of_a_support_bot_says_what_it_looks_like() -> None:
    policy = load(SUPPORT_BOT)
    assert (policy.agent, policy.stage) == ("support-bot", Stage.DRAFT)
    assert policy.tools["search_tickets"].effect is Effect.READ
    assert not policy.tools["issue_refund"].is_reversible
    assert [rule.id for rule in policy.rules] == ["no-package-installs", "big-refunds",
                                                  "refund-budget"]  # fmt: skip
    assert policy.approvals == ApprovalTerms(900.0, ("terminal",))
    assert policy.sandbox.spec.limits.memory == 512 << 20
    assert policy.sandbox.spec.limits.time == 600.0


# What is refused, where, and what to write instead.


@for_each(
    ("broken", "line", "words"),
    [
        (("stage: draft ", "stage: drafts "), 3, ["'drafts' is not known", "mean draft"]),
        (("agent: support-bot", "agent: support bot"), 2, ["not a name"]),
        (("version: 1", "version: 2"), 1, ["write version: 1"]),
        (("version: 1", "version: '1'"), 1, ["write version: 1, without quotes"]),
        (("version: 1", "version: true"), 1, ["write version: 1"]),
        (("stage: draft ", "stage: readonly "), 3, ["mean observe?"]),
        (("stage: draft ", "stage: production "), 3, ["there are observe, draft, approve"]),
        (("effect: read", "effect: delete"), 6, ["mean write?"]),
        (("agent:", "agnet:"), 2, ["agnet: unknown key", "mean agent?"]),
        (("reversible", "reversable"), 7, ["reversable: unknown key", "mean reversible?"]),
        (("effect: read", "effect: reads"), 6, ["'reads' is not an effect", "mean read?"]),
        (("effect: read", "effect: {reed: true}"), 6, ["reed: unknown key", "mean read?"]),
        (("effect: read", "effect: {}"), 6, ["says of no effect"]),
        (("effect: read", "effect: {write: true, read: true}"), 6, ["never reached"]),
        (("effect: read", "effect: {read: 'nonsense('}"), 6, ["tools.search_tickets.effect.read"]),
        (("memory: 512MiB", "memory: 512MBB"), 4, ["sandbox.limits.memory", "such as 512MiB"]),
        (("memory: 512MiB", "memory: 1KiB"), 4, ["at least 32MiB"]),
        (("memory: 512MiB", "memory: 1"), 4, ["1 has no unit", "at least 32MiB", "as in 1GiB"]),
        (("memory: 512MiB", "memory: 1Gi"), 4, ["write 1GiB"]),
        (("disk: 1GiB", "disk: 100"), 4, ["at least 1MiB", "as in 100MiB"]),
        (("cpu: 1,", "cpu: 500m,"), 4, ["write 0.5 or 2, without quotes"]),
        (("limits: {", "envs: {A: true}, limits: {"), 4, ["envs: A: ", 'write "true", in quotes']),
        (("limits: {", "mounts: [a:/b], limits: {"), 4, ["write {source: ./data"]),
        (("sandbox:", "timeout: 1h\nsandbox:"), 4, ["belongs under sandbox or approvals"]),
        (("sandbox:", "permissions: {}\nsandbox:"), 4, ["mean rules?"]),
        (("time: 10m", "time: 10"), 4, ["10 has no unit", "write 10s, 10m or 10h"]),
        (("isolation: container", "isolation: docker"), 4, ["mean container?"]),
        (("match: {kind: exec", "match: {kind: shell"), 10, ["mean exec?"]),
        (("decide: block", "decision: block"), 11, ["mean decide?"]),
        (("why: Dep", "reason: Dep"), 12, ["mean why?"]),
        (("when: args.amount > 5000", "if: args.amount > 5"), 16, ["mean when?"]),
        (("when: args.amount > 5000", "when: args.amount = 5"), 16, ["write == for ="]),
        (("per: 24h", "per: 24"), 21, ["24 has no unit", "24h"]),
        (("per: 24h", "per: day"), 21, ["write 24h"]),
        (("timeout: 15m", "timeout: 15"), 23, ["15 has no unit", "write 15s, 15m or 15h"]),
        (("timeout: 15m", "timeout: 15 minutes"), 23, ["write 15m"]),
        (("timeout: 15m", "timeout: 1h30m"), 23, ["one number and one unit"]),
        (("by: [terminal]", "by: terminal"), 23, ["write by: [terminal]"]),
        (("memory:", "mem:"), 4, ["unknown key", "memory"]),
        (("isolation: container", "isolation: jail"), 4, ["'jail' is not known"]),
        (("kind: exec", "kind: exce"), 10, ["'exce' is not a kind", "mean exec?"]),
        (("program: [pip, npm, apt-get]", "programm: pip"), 10, ["mean program?"]),
        (("program: [pip, npm, apt-get]", "program: 3"), 10, ['write "3" for the text']),
        (("program: [pip, npm, apt-get]", "program: []"), 10, ["matches nothing"]),
        (("program: [pip, npm, apt-get]", "host: x.test"), 10, ["kind exec has no host"]),
        (("program: [pip, npm, apt-get]", "path: usr/bin"), 10, ["not an absolute path"]),
        (("program: [pip, npm, apt-get]", "path: /usr/../x"), 10, ["contains .."]),
        (("program: [pip, npm, apt-get]", "path: /usr/b**"), 10, ["whole segment"]),
        (("program: [pip, npm, apt-get]", "argv: [/bin/pip]"), 10, ["without a path"]),
        (("decide: block", "decide: deny"), 11, ["'deny' is not known", "mean block?"]),
        (("decide: block", "decide: reject"), 11, ["mean block?"]),
        (("decide: block", "decide: approve"), 11, ["mean ask?"]),
        (("decide: block", "decide: mock"), 11, ["mean simulate?"]),
        (("decide: block", "decide: permit"), 11, ["mean allow?"]),
        (("decide: block", "decide: simulate"), 11, ["cannot be simulated"]),
        (("    decide: block\n", ""), 9, ["decide: this key is missing", "write decide:"]),
        (("why: Dep", "fault: {error: x}\n    why: Dep"), 12, ["only a rule with decide: fault"]),
        (("argv: [pip, install, x]", "argv: [ls]"), 13, ["does not match it"]),
        (("argv: [python3, a.py]", "argv: [/opt/pip]"), 13, ["the rule matches it"]),
        (("argv: [python3, a.py]", "arg: [x]"), 13, ["exec has no arg", "mean argv?"]),
        (("match: [{argv", "matches: [{argv"), 13, ["mean match?"]),
        (("id: big-refunds", "id: refund-budget"), 19, ["used twice", "rules[1]"]),
        (("when: args.amount > 5000", "when: args.amount >"), 16, ["at character"]),
        (("when: args.amount > 5000", "when: arg.amount > 5"), 16, ["no name arg"]),
        (("when: args.amount > 5000", "when: args.amount.upper()"), 16, ["no function upper"]),
        (("when: args.amount > 5000", "when: true"), 16, ["is not text"]),
        (("name: issue_refund}\n    when", "name: issue_refnd}\n    when"), 15, ["no tool"]),
        (("sum: args.amount, ", ""), 21, ["either sum or count"]),
        (("sum: args.amount", "sum: args.amount, count: 1"), 21, ["either sum or count"]),
        (("max: 20000", "max: -1"), 21, ["a number of at least 0"]),
        (("max: 20000", "max: 1.5"), 21, ["whole number"]),
        (("per: 24h", "per: 24 hours"), 21, ["such as 30s, 10m"]),
        (("per: 24h", "per: 10ms"), 21, ["less than one second"]),
        (("timeout: 15m", "timeout: soon"), 23, ["approvals.timeout"]),
        (("by: [terminal]", "by: [telepathy]"), 23, ["approvals.by[0]", "'telepathy'"]),
        (("approvals:", "networks:"), 23, ["networks: unknown key", "mean network?"]),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_line_and_remedy(
    broken: tuple[str, str], line: int, words: list[str]
) -> None:
    assert broken[0] in SUPPORT_BOT
    text = SUPPORT_BOT.replace(broken[0], broken[1], 1)
    message = said(text)
    assert message.startswith("paddock.yaml:")
    assert line in [one.line for one in problems(text)], message
    assert all(word in message for word in words), message


def test_a_duration_without_a_unit_is_taken_from_a_journal_and_read_again() -> None:
    text = SUPPORT_BOT.replace("time: 10m", "time: 600")
    policy = load(text, is_recorded=True)
    assert policy.sandbox.spec.limits.time == 600.0
    assert load(dump(policy)).sandbox.spec.limits.time == 600.0


def test_all_mistakes_of_a_file_are_told_at_once_and_in_order() -> None:
    text = SUPPORT_BOT.replace("draft ", "drft ").replace("reversible", "revert").replace(
        "decide: block", "decide: deny").replace("per: 24h", "per: x")  # fmt: skip
    assert [one.line for one in problems(text)] == [3, 7, 11, 21]


def test_expressions_and_patterns_are_all_told_at_once() -> None:
    rules = """
- {id: a, match: {kind: tool}, when: x, decide: ask}
- {id: b, match: {kind: tool}, when: y, decide: ask}
- {id: c, match: {kind: file, path: a}, decide: ask}
"""
    assert [one.path for one in problems(file_with(rules))] == ["rules[0].when", "rules[1].when",
                                                               "rules[2].match.path"]  # fmt: skip


@pytest.mark.parametrize("text", ["", "# only a comment\n", "[]", "text", "1", "null", "{}"])
def test_a_file_that_says_nothing_is_refused(text: str) -> None:
    assert problems(text)


def test_a_file_without_rules_and_tools_is_refused_with_a_hint() -> None:
    found = problems("version: 1\nagent: a\nstage: broad\n")
    assert "no rules, tools, network or world" in found[0].message
    assert "write a rule" in (found[0].hint or "")


def test_an_allow_rule_with_a_limit_is_refused() -> None:
    rule = "- {id: a, match: {kind: tool}, limit: {count: 1, max: 3, per: run}, decide: allow}"
    assert "cannot allow" in said(file_with(rule))


@for_each("port", ["0", "65536", "x", "'90-80'", "'80-'", "'-80'", "80.5", "true"])
def test_what_is_no_port_is_refused(port: str) -> None:
    rule = f"- {{id: a, match: {{kind: connect, port: {port}}}, decide: allow}}"
    assert "port" in said(file_with(rule))


@pytest.mark.parametrize(
    "host", ["https://a.test", "a.test/x", "u@a.test", "a.test:443", "a b", "127.1"]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    rule = f"- {{id: a, match: {{kind: http, host: '{host}'}}, decide: allow}}"
    assert "not a host" in said(file_with(rule))


@pytest.mark.parametrize("host", ["[::1]", "0:0::1", "a.test."])
def test_a_host_in_a_spelling_that_is_never_compared_is_refused(host: str) -> None:
    rule = f"- {{id: a, match: {{kind: http, host: '{host}'}}, decide: block}}"
    assert "not how a host is compared" in said(file_with(rule))


def test_a_policy_error_is_invalid_input_and_survives_a_pool_of_processes() -> None:
    with pytest.raises(InvalidInput) as caught:
        load("version: 1\n", "my.yaml")
    error = caught.value
    assert isinstance(error, PolicyError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(error).startswith("my.yaml:1:1: ")


def test_a_broken_sandbox_is_told_with_its_place() -> None:
    text = SUPPORT_BOT.replace("time: 10m}}", "time: 10m}, mounts: [{source: /a, target: /etc}]}")
    assert "would cover" in said(text)
    text = SUPPORT_BOT.replace(
        "time: 10m}}", "time: 10m}, mounts: [{source: /a, target: /w}, {source: /b, target: /w}]}"
    )
    assert "used twice" in said(text)


def test_no_part_of_a_file_can_be_of_a_wrong_type_without_being_told() -> None:
    """Every value of the example is replaced by values of other types; nothing but PolicyError."""
    whole = read(SUPPORT_BOT).value
    for path in _paths(whole):
        for wrong in (None, True, -1, 1.5, "", "x", [], [1], {}, {"x": 1}):
            _load_or_complain(_with(whole, path, wrong))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())  # fmt: skip
    for key, inner in items:
        found += _paths(inner, (*path, key))
    return found


def _with(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(whole)
    inner = changed
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return changed


def _load_or_complain(value: Any) -> None:
    from paddock.policy.file.writer import emit

    try:
        policy = load(emit(value))
    except PolicyError as error:
        assert all(one.line >= 1 and one.message for one in error.problems)
    else:
        assert load(dump(policy)) == policy


# Round trips and digests.


@given(rule_lists(), st.sampled_from(list(Stage)))
def test_a_policy_round_trips_through_its_text(found: Any, stage: Stage) -> None:
    policy = Policy.of(Terms("a", stage, TOOLS, found))
    try:
        again = load(dump(policy))
    except PolicyError as error:
        # Rules that hide each other make no file; that is all that may be wrong with one.
        assert all("never decides" in one.message for one in error.problems), str(error)
        return
    assert again == policy
    assert again.digest == policy.digest


def test_the_example_round_trips() -> None:
    policy = load(SUPPORT_BOT)
    assert load(dump(policy)) == policy
    assert dump(load(dump(policy))) == dump(policy)


def test_texts_that_look_like_other_types_round_trip() -> None:
    rules = """
- id: a
  match: {kind: exec, argv: [["yes", "1", "", "**", "a: b"], ["no"]]}
  unless: {program: ["on", "1e5", "0x1"]}
  decide: block
  why: "no\\n\\u2028 \\U0001F600 'quoted' \\"twice\\" # no comment"
"""
    policy = load(file_with(rules))
    assert load(dump(policy)) == policy


def test_comments_order_and_style_do_not_change_the_digest() -> None:
    other = """\
# The same, written by somebody else.
rules:
- {id: refund-budget, decide: ask, limit: {per: 1440m, max: 20000, sum: args.amount},
   match: {name: [issue_refund], kind: [tool]}}
- id: big-refunds
  when: "args.amount > 5000"
  why: 'Refunds over 50.00 need a person.'
  decide: ask
  match:
    kind: tool
    name: issue_refund
- id: no-package-installs
  match: {kind: exec, program: [pip, npm, apt-get]}
  decide: block
  why: Dependencies are pinned in the template.
  examples: {match: [{argv: [pip, install, x]}], not_match: [{argv: [python3, a.py]}]}
tools: {issue_refund: {effect: write}, search_tickets: {effect: read}}
sandbox: {limits: {time: 10m, disk: 1GiB, memory: 512MiB, cpu: 1}, isolation: container}
stage: draft
agent: support-bot
version: 1
"""
    assert load(other).digest == load(SUPPORT_BOT).digest


@for_each(
    ("before", "after"),
    [("max: 20000", "max: 20001"), ("decide: block", "decide: ask"), ("5000", "5001"),
     ("stage: draft", "stage: broad"), ("[pip, npm, apt-get]", "[pip, npm]"), ("15m", "16m"),
     ("effect: read", "effect: write"), ("reversible: false", "reversible: true"),
     ("Refunds over", "All refunds over"), ("512MiB", "513MiB"), ("per: 24h", "per: run")],
)  # fmt: skip
def test_any_change_of_the_terms_changes_the_digest(before: str, after: str) -> None:
    assert load(SUPPORT_BOT.replace(before, after, 1)).digest != load(SUPPORT_BOT).digest


def test_two_policies_are_equal_when_their_terms_are() -> None:
    assert default_policy() == default_policy()
    assert default_policy("a") != default_policy("b")
    terms = Terms("a", Stage.DRAFT, {"t": ToolTerms("t", Effect.READ)}, sandbox=SandboxTerms())
    assert Policy.of(terms) == Policy.of(terms)


# The schema for editors.


def test_the_json_schema_accepts_the_example_and_refuses_an_unknown_key() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    whole = read(SUPPORT_BOT).value
    assert list(validator.iter_errors(whole)) == []
    closed: list[tuple[Any, ...]] = [
        (), ("tools", "issue_refund"), ("rules", 0), ("rules", 0, "match"), ("rules", 2, "limit"),
        ("approvals",), ("sandbox",), ("sandbox", "limits"),
    ]  # fmt: skip
    for path in closed:
        broken = _with(whole, (*path, "surprise"), 1)
        assert list(validator.iter_errors(broken)), path


@given(rule_lists(), st.sampled_from(list(Stage)))
def test_the_json_schema_accepts_every_file_that_is_written(found: Any, stage: Stage) -> None:
    text = dump(Policy.of(Terms("a", stage, TOOLS, found)))
    assert list(Draft202012Validator(json_schema()).iter_errors(read(text).value)) == []
