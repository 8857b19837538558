"""`paddock policy explain`: every way to name an action, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unit.cli.conftest import Call

FILE = """\
version: 1
agent: a
stage: narrow
tools:
  refund: {effect: write, reversible: true}
rules:
  - {id: no-pip, match: {kind: exec, program: [pip]}, decide: block, why: Pinned.}
  - {id: no-keys, match: {kind: file, path: "/home/user/.ssh/**"}, decide: block, why: Keys.}
  - {id: no-r, match: {kind: code, language: r}, decide: block, why: No R.}
  - {id: api, match: {kind: http, host: api.example.com, method: GET, path: "/v1/**"},
     decide: allow, why: Reads of the API.}
  - {id: mail, match: {kind: connect, host: mail.example.com, port: 25}, decide: allow, why: Mail.}
  - {id: name, match: {kind: dns, name: "*.example.com"}, decide: allow, why: Names.}
  - {id: llm, match: {kind: model, provider: acme}, decide: allow, why: Ours.}
  - {id: some-refunds, match: {kind: tool, name: refund}, decide: allow, why: Small ones.}
  - {id: budget, match: {kind: tool, name: refund}, limit: {sum: args.amount, max: 100, per: 24h},
     decide: ask, why: Budget.}
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("words", "verdict", "by"),
    [
        (["--exec", "pip install x"], "block", "no-pip"),
        (["--exec", "/usr/bin/pip 'a b'"], "block", "no-pip"),
        (["--exec", "ls -l"], "allow", "default"),
        (["--file-write", "/home/user/.ssh/id"], "block", "no-keys"),
        (["--file-read", "/home/user/.ssh/id"], "block", "no-keys"),
        (["--file-read", "/home/user/a"], "allow", "default"),
        (["--code", "r"], "block", "no-r"),
        (["--http", "get", "https://api.example.com/v1/users?x=1"], "allow", "api"),
        (["--http", "POST", "https://api.example.com/v1/users"], "block", "default"),
        (["--http", "GET", "http://other.example.com"], "block", "default"),
        (["--connect", "mail.example.com:25"], "ask", "stage:narrow"),
        (["--dns", "a.example.com"], "allow", "name"),
        (["--dns", "example.org"], "block", "default"),
        (["--model", "acme/large"], "allow", "llm"),
        (["--tool", "refund", "--args", '{"amount": 5}'], "allow", "some-refunds"),
        (["--tool", "refund", "--args", '{"amount": 101}'], "ask", "budget"),
        (["--tool", "unknown"], "block", "undeclared"),
        (["--action", '{"kind": "exec", "argv": ["pip", "x"]}'], "block", "no-pip"),
        (["--action", '{"kind": "tool", "name": "refund", "args": {"amount": 1}}'], "allow",
         "some-refunds"),
        (["--action", '{"kind": "tool", "name": "refund", "arguments": {"amount": 1},'
          ' "is_reversible": false}'], "ask", "stage:narrow"),
    ],
)  # fmt: skip
def test_action_is_decided_as_the_file_says(
    words: list[str], verdict: str, by: str, call: Call
) -> None:
    said = call("policy", "explain", "--json", *words)
    assert said.code == 0, said.err
    decision = said.json["decision"]
    assert (decision["verdict"], decision["decided_by"]) == (verdict, by)
    assert call("policy", "explain", *words).out.startswith(f"{verdict}: ")


def test_every_rule_is_named_with_where_it_parted(call: Call) -> None:
    out = call("policy", "explain", "--exec", "pip install x").out
    assert "+ no-pip" in out
    assert "- no-keys" in out
    assert "is about file, not exec" in out
    assert "narrow: not subject to it" in out


def test_what_was_spent_counts(call: Call) -> None:
    words = ["policy", "explain", "--json", "--tool", "refund", "--args", '{"amount": 50}']
    assert call(*words).json["decision"]["verdict"] == "allow"
    assert call(*words, "--spent", "budget=51").json["decision"]["decided_by"] == "budget"


def test_another_stage_can_be_tried(call: Call) -> None:
    words = ["policy", "explain", "--json", "--tool", "refund", "--args", '{"amount": 5}']
    assert call(*words, "--stage", "observe").json["decision"]["verdict"] == "block"
    assert call(*words, "--stage", "draft").json["decision"]["is_draft"] is True


def test_action_can_come_from_the_input(call: Call) -> None:
    action = json.dumps({"kind": "exec", "argv": ["pip"]}).encode()
    said = call("policy", "explain", "--action", "-", "--json", stdin=action)
    assert said.json["decision"]["decided_by"] == "no-pip"


@pytest.mark.parametrize("text", ["ls; pip x", "ls | pip", "ls && pip", "(pip)", "pip > f", "a&b"])
def test_words_for_a_shell_are_refused_because_each_program_is_decided_by_itself(
    text: str, call: Call
) -> None:
    said = call("policy", "explain", "--exec", text)
    assert said.code == 2
    assert "is for a shell" in said.err


def test_signs_inside_quotes_are_words(call: Call) -> None:
    said = call("policy", "explain", "--json", "--exec", "echo 'a;b|c' '#x'")
    assert said.json["action"]["arguments"]["argv"] == ["echo", "a;b|c", "#x"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--exec", ""],
        ["--exec", "''"],
        ["--exec", "'"],
        ["--exec", "ls", "--tool", "x"],
        ["--exec", "ls", "--args", "{}"],
        ["--tool", "refund", "--args", "{"],
        ["--tool", "refund", "--args", "[]"],
        ["--tool", "refund", "--args", "[" * 100_000],
        ["--action", "{}"],
        ["--action", "[1]"],
        ["--action", '{"kind": "magic"}'],
        ["--action", '{"kind": ["exec"]}'],
        ["--action", '{"kind": "tool", "arguments": []}'],
        ["--action", '{"kind": "tool", "arguments": {}, "effect": "x"}'],
        ["--action", '{"kind": "tool", "args": 1}'],
        ["--action", "-"],
        ["--http", "GET", "example.com"],
        ["--http", "GET", "https://[x"],
        ["--http", "GET", "https://a:99999/"],
        ["--connect", "host"],
        ["--connect", ":25"],
        ["--connect", "host:x"],
        ["--model", "acme"],
        ["--model", "/"],
        ["--exec", "ls", "--stage", "wild"],
        ["--exec", "ls", "--spent", "budget"],
        ["--exec", "ls", "--spent", "budget=-1"],
        ["--exec", "ls", "--spent", "nothing=1"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_mistake_is_a_sentence_and_ends_with_two(words: list[str], call: Call) -> None:
    said = call("policy", "explain", *words)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("path", ["relative", "/a/../b", "", "/\x1b[2J"])
def test_path_that_rules_cannot_compare_is_explained_and_not_raised(path: str, call: Call) -> None:
    said = call("policy", "explain", "--file-write", path)
    assert said.code == 0
    assert "\x1b" not in said.out
