"""`paddock policy explain`: every way to name an action, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases import for_each
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


@for_each(
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


# What the doors say of their actions: effect, whether it can be undone, whether it stays inside.
DOORS = {
    "exec": ({"argv": ["/bin/ls", "-l"]}, "ls", "write", True, True),
    "file": ({"operation": "remove", "path": "/home/user/a"}, "remove", "write", True, True),
    "code": ({"language": "python", "code": "1"}, "python", "write", True, True),
    "http": ({"method": "POST", "host": "API.example.com", "path": "/v1/x", "body": {"a": 1}},
             "POST api.example.com", "write", False, False),
    "connect": ({"host": "mail.example.com", "port": 25}, "mail.example.com:25", "write", False,
                False),
    "dns": ({"name": "a.example.com"}, "a.example.com", "read", True, False),
    "model": ({"provider": "acme", "model": "large"}, "large", "read", True, False),
    "tool": ({"name": "refund", "args": {"amount": 1}}, "refund", "write", True, False),
}  # fmt: skip


@pytest.mark.parametrize("kind", DOORS)
def test_action_from_its_fields_is_the_one_that_its_door_proposes(kind: str, call: Call) -> None:
    fields, name, effect, is_reversible, is_contained = DOORS[kind]
    words = ["policy", "explain", "--json", "--action"]
    text = json.dumps({"kind": kind, **fields})
    action = call(*words, text).json["action"]
    assert (action["name"], action["effect"]) == (name, effect)
    assert (action["is_reversible"], action["is_contained"]) == (is_reversible, is_contained)
    Path("action.json").write_text(text)
    assert call(*words, "@action.json").json["action"] == action
    assert call(*words, "-", stdin=text.encode()).json["action"] == action
    # What is printed is an action as well.
    again = call(*words, json.dumps({"action": action})).json
    assert again == call(*words, text).json


NETWORK = """\
version: 1
agent: a
stage: broad
network: {allow: ["api.stripe.com:443", "api.openai.com:443"]}
rules:
  - {id: big, match: {kind: http, path: /v1/refunds}, when: int(body.amount) > 500, decide: ask,
     why: Big.}
  - {id: no-large, match: {kind: model, model: large}, decide: block, why: Small ones.}
"""


@for_each(
    ("words", "by"),
    [
        (["--body", '{"amount": 100}'], "network"),
        (["--body", '{"amount": 501}'], "big"),
        (["--body", "amount=501&currency=eur"], "big"),
        (["--body", "amount=500"], "network"),
        (["--body", "@body.json"], "big"),
        (["--body", '{"amount": 501}', "-H", "Content-Type: text/plain"], "big"),
        (["--body", "-"], "big"),
        ([], "big"),  # a rule on a body blocks what has none
    ],
)
def test_body_of_a_request_is_read_as_the_network_door_reads_it(
    words: list[str], by: str, file: Path, call: Call
) -> None:
    file.write_text(NETWORK)
    Path("body.json").write_text('{"amount": 501}')
    url = "POST https://api.stripe.com/v1/refunds"
    said = call("policy", "explain", "--json", "--http", url, *words, stdin=b"amount=900")
    assert said.json["decision"]["decided_by"] == by, said.json


def test_request_to_a_model_is_explained_as_a_question_to_it(file: Path, call: Call) -> None:
    file.write_text(NETWORK)
    said = call("policy", "explain", "--json", "--model", "openai/large").json
    assert (said["action"]["kind"], said["decision"]["decided_by"]) == ("model", "no-large")
    assert said["action"]["arguments"]["path"] == "/v1/chat/completions"


def test_file_may_stand_behind_a_request(call: Call) -> None:
    Path("other.yaml").write_text(NETWORK)
    for words in (["POST", "https://api.stripe.com/"], ["POST https://api.stripe.com/"]):
        said = call("policy", "explain", "--json", "--http", *words, "other.yaml")
        assert said.json["decision"]["decided_by"] == "network", said.err


def test_file_without_a_network_is_said_to_reach_nothing(call: Call) -> None:
    out = call("policy", "explain", "--dns", "a.example.com").out
    assert "note: the file has no network section" in out
    assert "note:" not in call("policy", "explain", "--exec", "ls").out


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


@for_each(
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
        ["--action", "@missing.json"],
        ["--action", '{"kind": "http", "methd": "GET", "host": "a.example"}'],
        ["--action", '{"kind": "http"}'],
        ["--action", '{"kind": "http", "host": "a.example", "url": "https://b.example/"}'],
        ["--action", '{"kind": "connect", "host": "a.example"}'],
        ["--action", '{"kind": "file", "operation": "eat", "path": "/a"}'],
        ["--action", '{"kind": "exec", "argv": []}'],
        ["--http", "GET", "example.com"],
        ["--http", "GET https://a.example/ x y"],
        ["--http", "GET https://a.example/a\nb"],
        ["--http", "GET https://a.example/é"],
        ["--http", "GET https://me:pw@a.example/"],
        ["--http", "GET https://a.example/", "-H", "nothing"],
        ["--http", "GET https://a.example/", "-H", "Content-Length: 7"],
        ["--http", "GET https://a.example/", "-H", "a: b\r\nc: d"],
        ["--exec", "ls", "--body", "x"],
        ["--exec", "ls", "-H", "a: b"],
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


@pytest.mark.parametrize(
    ("action", "says"),
    [("@missing.json", "paddock: --action: missing.json: No such file or directory"),
     ('{"method": "POST"}', "paddock: --action: kind is missing")],
)  # fmt: skip
def test_wrong_action_is_told_in_one_sentence(call: Call, action: str, says: str) -> None:
    assert call("policy", "explain", "--action", action).err.startswith(says)
