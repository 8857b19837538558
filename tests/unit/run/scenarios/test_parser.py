"""Scenario files: what they mean, and how a wrong one is refused, with the line and a hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cases import for_each
from paddock.model.action import Kind
from paddock.policy.problems import PolicyError
from paddock.run.scenarios.definition import json_schema
from paddock.run.scenarios.parser import read_scenario, scenario_of
from paddock.run.scenarios.scenario import Scenario
from paddock.run.scenarios.terms import AlertTerms, FileTerms, Span, TextTerms

WHOLE = """\
version: 1
name: refund a duplicate charge
agent: [python, agent.py]
world: {api.stripe.com: payments}
seed: 7
files: {ticket.txt: "please", data/: fixtures/data, logo.bin: {from: fixtures/logo.bin}}
faults: [{id: lost, match: {kind: http}, fault: {after: 504}}]
stage: narrow
set: {sandbox.limits.memory: 256MiB}
envs: {LANG: C}
stdin: hello
repeat: 40
timeout: 60s
matrix:
  seed: [1, 2]
  agent: [[python, one.py], [python, two.py]]
expect:
  exit: [0, 3]
  files:
    out/report.md: {contains: refunded, matches: "^r", exists: true, lacks: [a, b]}
    out/total.json: {json: "$.total == 3"}
    out/none: {exists: false}
  world: ["api.stripe.com.refunds.exists(r, r.amount == 1200)"]
  actions:
    must:
      - {kind: http, host: api.stripe.com, method: POST, count: 1, when: "body.amount <= 5000"}
    must_not:
      - {host: evil.example}
      - {kind: tool, name: delete, decided: allow, unless: {effect: read}}
  steps: {max: 40}
  cost: {max_usd: 0.05, max_tokens: 20000}
  verdicts: {acted-twice: 0, hammered: {max: 1}, bad: 0}
  alerts: []
  invariants: hold
  output: {contains: done}
  rate: {min: 0.9}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "fixtures/data/deep").mkdir(parents=True)
    (tmp_path / "fixtures/data/deep/a.txt").write_text("a")
    (tmp_path / "fixtures/logo.bin").write_bytes(b"\xff\x00")
    return tmp_path


def given(project: Path, text: str) -> Scenario:
    # The matrix has the seeds.
    return read_scenario(text.replace("seed: 7\n", ""), project / "refund.scenario.yaml")


def said(project: Path, text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        given(project, text)
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new)


def test_every_key_of_a_scenario_is_read(project: Path) -> None:
    scenario = given(project, WHOLE)
    assert scenario.agent == ("python", "agent.py")
    assert scenario.cwd == project
    assert scenario.files == {
        "ticket.txt": b"please",
        "data/deep/a.txt": b"a",
        "logo.bin": b"\xff\x00",
    }
    assert scenario.sets == {"sandbox.limits.memory": "256MiB"}
    assert (scenario.stdin, scenario.repeat, scenario.timeout_s) == (b"hello", 40, 60.0)
    assert scenario.matrix["agent"] == (("python", "one.py"), ("python", "two.py"))
    expect = scenario.expect
    assert expect.exits == (0, 3)
    assert expect.files[0] == FileTerms(
        "out/report.md", True, TextTerms(("refunded",), ("a", "b"), ("^r",))
    )
    assert expect.files[1].conditions == ("$.total == 3",)
    assert not expect.files[2].is_there
    assert expect.must[0].count == Span(1, 1)
    assert expect.must_not[0].kinds == ()
    assert expect.must_not[1].kinds == (Kind.TOOL,)
    assert expect.verdicts == {"acted_twice": Span(0, 0), "hammered": Span(0, 1), "bad": Span(0, 0)}
    assert expect.alerts == AlertTerms(())
    assert expect.cost.usd_micros == 50_000
    assert expect.least_rate == 0.9
    assert expect.do_invariants_hold


def test_without_an_exit_status_only_a_good_end_is_expected(project: Path) -> None:
    scenario = given(project, "version: 1\nname: a\nagent: [a]\n")
    assert scenario.expect.exits == (0,)


@for_each(
    ("old", "new", "words"),
    [
        ("version: 1", "version: 2", [":1:", "is not known"]),
        ("agent: [python, agent.py]", "agent: python agent.py", [":3:", "[python, agent.py]"]),
        ("repeat: 40", "repeats: 40", ["repeats: unknown key", "did you mean repeat?"]),
        ("  exit: [0, 3]", "  exits: 0", ["expect.exits: unknown key", "did you mean exit?"]),
        ("contains: refunded", "contain: x", ["unknown key", "did you mean contains?"]),
        ("contains: refunded", 'contains: ""', ["is not a text"]),
        ('matches: "^r"', 'matches: "(r"', ["no regular expression"]),
        ('matches: "^r"', 'matches: "(?=r)"', ["no regular expression", "look-around"]),
        ("$.total == 3", "total == 3", ["write $ for the document"]),
        ("$.total == 3", "$.total ==", ["out/total.json.json"]),
        ("$.total == 3", "1 == 1", ["not about the document"]),
        ("out/none: {exists: false}", "out/none: {exists: false, contains: x}", ["not there"]),
        ("out/none:", "../none:", ["is not a path"]),
        ("method: POST", "metod: POST", ["metod: unknown key", "did you mean method?"]),
        ("method: POST", "program: sh", ["has no program"]),
        ("body.amount <= 5000", "bdy.amount <= 5000", ["there is no name bdy here"]),
        ("count: 1", "count: -1", ["is not a count"]),
        ("count: 1", "count: {min: 3, max: 1}", ["max is below min"]),
        ("{host: evil.example}", "{host: evil.example, count: 1}", ["has no count"]),
        ("{host: evil.example}", "{method: POST}", ["kind: this key is missing"]),
        ("{host: evil.example}", '{host: evil.example, when: "true"}', ["needs a kind"]),
        ("{host: evil.example}", "{kind: htp}", ["not a kind of action", "did you mean http?"]),
        ("decided: allow", "decided: alow", ["did you mean allow?"]),
        ("acted-twice: 0", "acted_thrice: 0", ["is not a verdict", "did you mean acted_twice?"]),
        ("alerts: []", "alerts: [Egress Denied]", ["not the name of an alert"]),
        ("invariants: hold", "invariants: holds", ["hold"]),
        ("rate: {min: 0.9}", "rate: {min: 0.99}", ["40 runs cannot show", "write repeat: 381"]),
        ("rate: {min: 0.9}", "rate: {min: 1}", ["below 1"]),
        ("rate: {min: 0.9}", "rate: {}", ["write min: 0.9"]),
        ("api.stripe.com: payments", "api.stripe.com: payment", ["did you mean payments?"]),
        ("after: 504", "aftr: 504", ["faults[0].fault.aftr", "did you mean after?"]),
        ('ticket.txt: "please"', '../ticket.txt: "x"', ["not a path in the project"]),
        ('ticket.txt: "please"', '/etc/passwd: "x"', ["not a path in the project"]),
        ("fixtures/data,", "fixtures/nope,", ["is not a directory"]),
        ("{from: fixtures/logo.bin}", "{from: nope}", ["nope"]),
        ("{from: fixtures/logo.bin}", "{form: nope}", ["did you mean from?"]),
        ("stage: narrow", "stage: narow", ["did you mean narrow?"]),
        ("timeout: 60s", "timeout: 60 parsecs", ["60 parsecs"]),
        ("  seed: [1, 2]\n", "  seeds: [1, 2]\n", ["matrix.seeds", "did you mean seed?"]),
        ("  seed: [1, 2]\n", "  stage: [draft]\n", ["there is stage as well"]),
        (
            "  seed: [1, 2]\n",
            f"  seed: {list(range(1000))}\n  set: {[{'a': n} for n in range(99)]}\n",
            ["at most 100000"],
        ),
        ("  seed: [1, 2]\n", "  policy: [nope.yaml]\n", ["there is no file"]),
        ("  seed: [1, 2]\n", "  faults: [none, flaki]\n", ["did you mean flaky?"]),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_a_hint(
    project: Path, old: str, new: str, words: list[str]
) -> None:
    text = changed(old, new)
    if new.startswith("  faults"):
        text = text.replace("faults: [{id: lost, match: {kind: http}, fault: {after: 504}}]\n", "")
    message = said(project, text)
    assert message.startswith("refund.scenario.yaml:")
    for word in words:
        assert word in message, message


def test_a_mistake_deep_in_the_file_has_its_own_line(project: Path) -> None:
    broken = changed("method: POST", "metod: POST")
    line = (
        broken.replace("seed: 7\n", "")
        .split("\n")
        .index(next(one for one in broken.split("\n") if "metod" in one))
    )
    assert f"refund.scenario.yaml:{line + 1}:" in said(project, broken)


def test_all_mistakes_are_told_at_once(project: Path) -> None:
    text = "version: 1\nname: a\nagnt: [a]\nexpect: {exits: 0, step: 3}\n"
    message = said(project, text)
    for word in ("agent: this key is missing", "agnt: unknown key", "exits", "did you mean steps?"):
        assert word in message


def test_a_link_among_the_files_is_refused(project: Path) -> None:
    (project / "fixtures/data/link").symlink_to("/etc/passwd")
    assert "is a link" in said(project, WHOLE)


@pytest.mark.parametrize("text", ["", "[]", "just a text", "a: 1\na: 2\n", "!!python/object:x {}"])
def test_a_text_that_is_no_scenario_is_refused(project: Path, text: str) -> None:
    assert "refund.scenario.yaml:1" in said(project, text) or "twice" in said(project, text)


def test_words_of_python_are_read_as_those_of_a_file(project: Path) -> None:
    words: dict[str, Any] = {"name": "a", "agent": ["a"], "expect": {"steps": {"max": 3}}}
    scenario = scenario_of(words, project / "scenarios_a.py")
    assert scenario.expect.steps == Span(0, 3)
    with pytest.raises(PolicyError, match="did you mean steps"):
        scenario_of({**words, "expect": {"stps": 1}}, project / "scenarios_a.py")


def test_the_published_schema_accepts_what_is_accepted(project: Path) -> None:
    import yaml

    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(yaml.safe_load(WHOLE))
