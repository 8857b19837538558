"""What is said about files that are well-formed: unreachable rules, doubts, and SARIF."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cases import for_each
from paddock.model.action import Action, Stage, Verdict
from paddock.policy.analysis.coverage import unreachable
from paddock.policy.analysis.lint import LintFinding, check, sarif
from paddock.policy.analysis.review import CODES, Level
from paddock.policy.file import load
from paddock.policy.problems import PolicyError
from paddock.policy.rules import Rule
from unit.policy.cases import SUPPORT_BOT, actions, file_with, http, policy_of, rule_lists


def codes(text: str, level: Level | None = None) -> list[str]:
    return [one.code for one in check(text) if level in (None, one.level)]


TOOLS = "{t: {effect: write}, u: {effect: admin}}"


@for_each(
    ("wide", "narrow"),
    [
        ("{kind: tool}", "{kind: tool, name: t}"),
        ("{kind: tool, name: [t, u]}", "{kind: tool, name: t}"),
        ("{kind: tool, name: '*'}", "{kind: tool, name: t, effect: write}"),
        ("{kind: exec}", "{kind: exec, program: pip}"),
        ("{kind: exec, program: pip}", "{kind: exec, program: /usr/bin/pip}"),
        ("{kind: exec, program: 'p*'}", "{kind: exec, program: [pip, pipx]}"),
        ("{kind: exec, argv: [git]}", "{kind: exec, argv: [git, push]}"),
        ("{kind: exec, argv: [git, '**', -f]}", "{kind: exec, argv: [git, push, -f]}"),
        ("{kind: file, path: '/a/**'}", "{kind: file, path: '/a/b/*'}"),
        ("{kind: file, path: '/**'}", "{kind: file, path: '/a/*'}"),
        ("{kind: http, host: '*.test'}", "{kind: http, host: A.TEST, method: GET}"),
        ("{kind: [http, connect]}", "{kind: http, host: a.test}"),
        ("{kind: connect, port: [1, 2]}", "{kind: connect, port: 2}"),
    ],
)
@for_each("order", [1, -1])
def test_a_rule_that_a_stricter_one_covers_is_an_error(wide: str, narrow: str, order: int) -> None:
    rules = [f"- {{id: wide, match: {wide}, decide: block}}",
             f"- {{id: narrow, match: {narrow}, decide: ask}}"]  # fmt: skip
    text = file_with("\n".join(rules[::order]), tools=TOOLS)
    found = [one for one in check(text) if one.code == "unreachable"]
    assert [one.rule_id for one in found] == ["narrow"]
    with pytest.raises(PolicyError, match="wide"):
        load(text)


@for_each(
    ("wide", "narrow"),
    [
        ("match: {kind: tool}, decide: ask", "match: {kind: tool, name: t}, decide: block"),
        ("match: {kind: tool}, when: args.a == 1, decide: block",
         "match: {kind: tool}, decide: ask"),
        ("match: {kind: tool}, limit: {count: 1, max: 1, per: run}, decide: block",
         "match: {kind: tool}, decide: ask"),
        ("match: {kind: exec}, unless: {program: ls}, decide: block",
         "match: {kind: exec, program: x}, decide: ask"),
        ("match: {kind: tool, name: t}, decide: block", "match: {kind: tool}, decide: ask"),
        ("match: {kind: exec, program: /bin/pip}, decide: block",
         "match: {kind: exec, program: pip}, decide: ask"),
        ("match: {kind: file, path: '/a/*'}, decide: block",
         "match: {kind: file, path: '/a/**'}, decide: ask"),
        ("match: {kind: http, host: a.test}, decide: block",
         "match: {kind: [http, connect], host: a.test}, decide: ask"),
    ],
)  # fmt: skip
def test_a_rule_that_can_still_decide_is_not_called_unreachable(wide: str, narrow: str) -> None:
    text = file_with(f"- {{id: wide, {wide}}}\n- {{id: narrow, {narrow}}}", tools=TOOLS)
    assert "unreachable" not in codes(text)


def test_of_two_equal_rules_the_later_one_is_told() -> None:
    rule = "match: {kind: tool}, decide: ask"
    found = check(file_with(f"- {{id: a, {rule}}}\n- {{id: b, {rule}}}"))
    assert [one.rule_id for one in found if one.code == "unreachable"] == ["b"]


def test_a_condition_does_not_save_a_rule_that_a_later_one_repeats_without_it() -> None:
    rules = """
- {id: a, match: {kind: tool}, when: args.n == 1, decide: ask}
- {id: b, match: {kind: tool}, decide: ask}
"""
    found = check(file_with(rules))
    assert [one.rule_id for one in found if one.code == "unreachable"] == ["a"]


@pytest.mark.parametrize("verdict", ["simulate", "ask", "fault"])
def test_a_grant_is_not_hidden_by_a_rule_that_needs_it(verdict: str) -> None:
    rules = f"""
- {{id: a, match: {{kind: http, host: a.test}}, decide: allow}}
- {{id: b, match: {{kind: http}}, decide: {verdict}}}"""
    policy = load(file_with(rules))
    assert policy.decide(http("a.test")).verdict.value == verdict
    assert policy.decide(http("b.test")).verdict is Verdict.BLOCK


@given(rule_lists(max_size=6), actions(), st.sampled_from(list(Stage)))
def test_taking_an_unreachable_rule_away_changes_no_verdict(
    found: tuple[Rule, ...], action: Action, stage: Stage
) -> None:
    hidden = {number for number, _ in unreachable(found)}
    kept = tuple(rule for number, rule in enumerate(found) if number not in hidden)
    before, after = policy_of(found, stage).decide(action), policy_of(kept, stage).decide(action)
    if "cannot be evaluated" in before.why:
        return  # a hidden rule that fails blocks; that is no reason to keep it
    assert (after.verdict, after.is_draft) == (before.verdict, before.is_draft)


def test_a_long_file_is_read_without_comparing_every_pair() -> None:
    rules = "\n".join(
        f"- {{id: r{n}, match: {{kind: exec, program: p{n}}}, decide: block}}" for n in range(1500)
    )
    assert len(load(file_with(rules)).rules) == 1500


@for_each(
    ("rules", "code", "level"),
    [
        ("- {id: a, match: {kind: tool, name: t}, decide: ask}", "no-why", Level.WARNING),
        ("- {id: a, match: {kind: tool, name: t}, decide: ask}", "no-examples", Level.NOTE),
        ("- {id: a, match: {kind: tool}, decide: allow}", "allow-admin", Level.WARNING),
        ("- {id: a, match: {kind: exec, program: pip}, decide: block}", "program-by-name",
         Level.NOTE),
        ("- {id: a, match: {kind: exec, program: rm -rf}, decide: block}",
         "program-with-arguments", Level.WARNING),
        ("- {id: a, match: {kind: exec, argv: rm -rf}, decide: block}",
         "program-with-arguments", Level.WARNING),
        ("- {id: a, match: {kind: exec, program: git}, decide: allow}", "allow-contained",
         Level.WARNING),
        ("- {id: a, match: {kind: http, host: a.test}, decide: ask}", "needs-allow", Level.WARNING),
        ("- {id: a, match: {kind: tool, name: x}, decide: ask}", "undeclared-tool", Level.ERROR),
        ("- {id: a, match: {kind: tool}, decide: ask}\n"
         "- {id: a, match: {kind: exec}, decide: ask}", "duplicate-id", Level.ERROR),
        ("- {id: a, match: {kind: tool}, decide: asc}", "invalid", Level.ERROR),
        ("- {id: a, match: {kind: exec}, decide: ask, examples: {not_match: [{argv: [y]}]}}",
         "example-fails", Level.ERROR),
    ],
)  # fmt: skip
def test_each_doubt_is_found(rules: str, code: str, level: Level) -> None:
    text = file_with(rules, tools=TOOLS)
    found = [one for one in check(text) if one.code == code]
    assert found
    assert {one.level for one in found} == {level}
    assert all(one.line > 4 and one.hint for one in found)


def test_an_effect_that_falls_to_read_is_noted() -> None:
    tools = "{t: {effect: {write: args.n > 1, read: true}}}"
    assert "effect-falls-to-read" in codes(file_with("", tools=tools))
    tools = "{t: {effect: {write: true}}}"
    assert "effect-falls-to-read" not in codes(file_with("", tools=tools))


def test_a_careful_file_has_nothing_said_against_it() -> None:
    rules = """
- id: refunds
  match: {kind: tool, name: t}
  when: args.amount > 5000
  decide: ask
  why: Large refunds need a person.
  examples:
    match: [{args: {amount: 5001}}]
    not_match: [{args: {amount: 5000}}]
"""
    assert check(file_with(rules, tools=TOOLS)) == []


@given(rule_lists())
def test_a_file_loads_exactly_when_no_error_is_found(found: tuple[Rule, ...]) -> None:
    from paddock.policy.file import dump

    text = dump(policy_of(found, Stage.BROAD))
    has_errors = any(one.level is Level.ERROR for one in check(text))
    try:
        load(text)
    except PolicyError:
        assert has_errors
    else:
        assert not has_errors


# The parts of SARIF 2.1.0 that a log of ours uses, with what the standard demands of them.
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "text": {"type": "object", "required": ["text"],
                 "properties": {"text": {"type": "string", "minLength": 1}}},
        "run": {
            "type": "object",
            "required": ["tool", "results"],
            "properties": {
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "tool": {"type": "object", "required": ["driver"], "properties": {
                    "driver": {"type": "object", "required": ["name"], "properties": {
                        "rules": {"type": "array", "uniqueItems": True, "items": {
                            "type": "object", "required": ["id"],
                            "properties": {"shortDescription": {"$ref": "#/$defs/text"}}}}}}}},
                "results": {"type": "array", "items": {
                    "type": "object",
                    "required": ["message", "ruleId", "level", "locations"],
                    "properties": {
                        "message": {"$ref": "#/$defs/text"},
                        "level": {"enum": ["none", "note", "warning", "error"]},
                        "ruleIndex": {"type": "integer", "minimum": 0},
                        "locations": {"type": "array", "items": {
                            "type": "object", "required": ["physicalLocation"], "properties": {
                                "physicalLocation": {
                                    "type": "object", "required": ["artifactLocation", "region"],
                                    "properties": {"region": {"type": "object", "properties": {
                                        "startLine": {"type": "integer", "minimum": 1},
                                        "startColumn": {"type": "integer", "minimum": 1}}}}}}}},
                    }}},
            },
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("text", [SUPPORT_BOT, "a: no", "", SUPPORT_BOT.replace("ask", "asc")])
def test_findings_as_sarif_are_what_the_standard_demands(text: str) -> None:
    findings = check(text)
    log = json.loads(json.dumps(sarif(findings, "my.yaml")))
    assert list(Draft202012Validator(SARIF).iter_errors(log)) == []
    run = log["runs"][0]
    assert len(run["results"]) == len(findings)
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert location["uri"] == "my.yaml"


def test_every_code_has_a_description() -> None:
    assert all(text.endswith(".") for text in CODES.values())
    assert isinstance(check(SUPPORT_BOT)[0], LintFinding)
