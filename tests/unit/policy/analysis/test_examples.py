"""Examples of rules: what they leave out comes from the rule, and one that fails is told."""

from __future__ import annotations

from cases import for_each
from paddock.policy.file import load
from paddock.policy.problems import PolicyError
from unit.policy.cases import file_with


def holds(rule: str, examples: str) -> bool:
    text = file_with(f"- {{id: x, {rule}, decide: block, examples: {examples}}}")
    try:
        load(text)
    except PolicyError as error:
        assert all("examples" in one.path for one in error.problems), str(error)
        return False
    return True


@for_each(
    ("rule", "examples"),
    [
        ("match: {kind: exec, program: pip}",
         "{match: [{argv: [pip, x]}, {program: /a/pip}, {}], not_match: [{program: ls}]}"),
        ("match: {kind: exec, program: pip, argv: ['*', install]}",
         "{match: [{argv: [pip, install]}, {}], not_match: [{argv: [pip, list]}, {argv: [ls]}]}"),
        ("match: {kind: exec, path: '/tmp/**'}",
         "{match: [{program: /tmp/a}, {}], not_match: [{program: /usr/bin/a}]}"),
        ("match: {kind: exec}, unless: {program: git}",
         "{match: [{argv: [ls]}], not_match: [{argv: [git, push]}]}"),
        ("match: {kind: tool, name: t}, when: args.n > 1",
         "{match: [{args: {n: 2}}], not_match: [{args: {n: 1}}, {name: u, args: {n: 2}}]}"),
        ("match: {kind: tool, effect: write}",
         "{match: [{name: t}, {name: t, effect: write}], not_match: [{name: t, effect: read}]}"),
        ("match: {kind: file, operation: write, path: '/a/**'}",
         "{match: [{path: /a/b}, {}], not_match: [{operation: read}, {path: /b}]}"),
        ("match: {kind: http, host: '*.test', method: POST, path: '/v1/*'}",
         "{match: [{path: /v1/a}, {}], not_match: [{method: GET}, {host: a.b.test}]}"),
        ("match: {kind: http}, when: body.amount > 1",
         "{match: [{body: {amount: 2}}], not_match: [{body: {amount: 1}}]}"),
        ("match: {kind: connect, port: [22, 8000-8010]}",
         "{match: [{port: 8005}, {}], not_match: [{port: 80}]}"),
        ("match: {kind: dns, name: a.test}", "{match: [{}], not_match: [{name: b.test}]}"),
        ("match: {kind: model, model: 'big-*'}", "{match: [{}], not_match: [{model: small}]}"),
        ("match: {kind: code, language: bash}", "{match: [{}], not_match: [{language: python}]}"),
        ("match: {kind: [http, connect], host: a.test}",
         "{match: [{}, {kind: connect}], not_match: [{kind: connect, host: b.test}]}"),
        ("match: {kind: tool}, when: context.model == 'x'",
         "{match: [{name: t, context: {model: x}}]}"),
        ("match: {kind: tool}, limit: {sum: args.n, max: 3, per: run}",
         "{match: [{name: t, args: {n: 1}}]}"),
    ],
)  # fmt: skip
def test_examples_that_are_right_are_accepted(rule: str, examples: str) -> None:
    assert holds(rule, examples)


@for_each(
    ("rule", "examples"),
    [
        ("match: {kind: exec, program: pip}", "{match: [{argv: [ls]}]}"),
        ("match: {kind: exec, program: pip}", "{not_match: [{argv: [pip]}]}"),
        ("match: {kind: exec, program: pip}", "{match: [{kind: tool}]}"),
        ("match: {kind: exec, program: pip}", "{match: [{words: [pip]}]}"),
        ("match: {kind: exec, program: pip}", "{match: [{argv: pip}]}"),
        ("match: {kind: exec, argv: [git]}", "{match: [{argv: [1]}]}"),
        ("match: {kind: tool}, when: args.n > 1", "{not_match: [{name: t}]}"),
        ("match: {kind: tool}, when: args.n > 1", "{match: [{name: t, args: {n: x}}]}"),
        ("match: {kind: tool}, limit: {sum: args.n, max: 3, per: run}",
         "{match: [{name: t, args: {n: -1}}]}"),
        ("match: {kind: tool}", "{match: [{name: t, effect: destroy}]}"),
        ("match: {kind: tool}", "{match: [{name: t, args: [1]}]}"),
        ("match: {kind: file, path: /a}", "{match: [{path: /b/../a}]}"),
    ],
)  # fmt: skip
def test_examples_that_are_wrong_are_told(rule: str, examples: str) -> None:
    assert not holds(rule, examples)
