"""Scenarios with real agents in real sandboxes: the whole way from the file to the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clients.scenarios.support import SCENARIO, project
from paddock.cli.commands.test import main

GOOD = """\
expect:
  files:
    out/report.md: {equals: "refunded 1200: the cup was broken"}
    agent.py: {contains: urllib}
    ticket.txt: {contains: cup}
    out/other: {exists: false}
  world:
    - api.stripe.com.refunds.exists(r, r.amount == 1200)
    - api.stripe.com.charges.all(c, c.refunded)
  actions:
    must:
      - {kind: http, host: api.stripe.com, method: POST, path: /v1/refunds, count: 1}
      - {kind: exec, program: echo}
    must_not:
      - {host: evil.example}
      - {kind: exec, program: [curl, wget]}
  steps: {max: 40}
  alerts: []
  invariants: hold
  output: {contains: done}
"""
BAD = """\
faults: [{id: lost, match: {kind: http, path: /v1/refunds}, fault: {after: 504}}]
expect:
  exit: 0
  files: {out/report.md: {contains: refunded}}
  world: [api.stripe.com.refunds.size() == 0]
  actions: {must_not: [{kind: http, path: /v1/refunds}]}
  verdicts: {gave_up: 0}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return project(tmp_path / "project")


def played(
    place: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, Any]]:
    code = main(["--json", *words, str(place)])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, found


def test_an_agent_that_does_as_expected_passes_in_every_case(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a.scenario.yaml").write_text(SCENARIO + "matrix: {seed: [1, 2]}\n" + GOOD)
    junit, page = tmp_path / "junit.xml", tmp_path / "page.html"
    words = ["--junit", str(junit), "--html", str(page), "-j", "2"]
    code, found = played(place, capsys, *words)
    assert (code, found["counts"]) == (0, {"passed": 2}), found
    assert ElementTree.parse(junit).getroot().get("tests") == "2"
    assert "2 passed" in page.read_text()
    assert not (place / "ticket.txt").exists()  # it was in the sandbox only


def test_an_agent_that_does_otherwise_fails_with_the_step_and_how_to_look(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a.scenario.yaml").write_text(SCENARIO + BAD)
    code, found = played(place, capsys)
    assert code == 1
    (run,) = found["cases"][0]["runs"]
    failures = {one["where"]: one for one in run["failures"]}
    assert set(failures) == {
        "expect.exit",
        "expect.files.out/report.md.exists",
        "expect.world[0]",
        "expect.actions.must_not[0]",
        "expect.verdicts.gave_up",
    }
    assert "HTTP Error 504" in failures["expect.exit"]["found"]
    step = failures["expect.actions.must_not[0]"]["step"]
    assert failures["expect.actions.must_not[0]"]["look"] == (
        f"paddock show {run['run']} --step {step}"
    )


@pytest.mark.parametrize(
    ("agent", "expect", "standing", "said"),
    [
        ("[sleep, '60']", "{exit: any}", "failed", "did not end by itself"),
        ("[no-such-program]", "{exit: any}", "broken", "was not found"),
        ("[sh, -c, exit 3]", "{exit: [3]}", "passed", ""),
    ],
)
def test_an_agent_that_does_not_end_by_itself_never_passes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    agent: str,
    expect: str,
    standing: str,
    said: str,
) -> None:
    text = f"version: 1\nname: a\nagent: {agent}\ntimeout: 2s\nexpect: {expect}\n"
    (tmp_path / "a.scenario.yaml").write_text(text)
    _, found = played(tmp_path, capsys)
    (case,) = found["cases"]
    assert case["standing"] == standing, case
    assert said in json.dumps(case["runs"])


def test_an_agent_that_hangs_on_chance_is_shown_with_its_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import os, sys; sys.exit(os.urandom(1)[0] % 2)"
    text = f"version: 1\nname: a\nagent: [python3, -c, '{program}']\nrepeat: 12\n"
    (tmp_path / "a.scenario.yaml").write_text(text)
    first = played(tmp_path, capsys)[1]["cases"][0]["rate"]
    assert 0 < first["passed"] < first["runs"] == 12
    assert 0 < first["low"] < first["passed"] / 12 < first["high"] < 1
    assert played(tmp_path, capsys)[1]["cases"][0]["rate"] == first  # the seed is the same


def test_a_scenario_in_python_checks_what_the_run_came_to(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "scenarios_refund.py").write_text("""\
from paddock.run.scenarios import scenario

WORDS = {"agent": ["python3", "agent.py"], "files": {"ticket.txt": "x"}, "timeout": "60s"}

@scenario(**WORDS)
def well(result):
    (refund,) = result.world["api.stripe.com"]["refunds"]
    assert refund["amount"] == 1200
    assert len(result.actions(kind="http", method="POST")) == 2
    assert result.files["out/report.md"].startswith("refunded")

@scenario(**WORDS)
def badly(result):
    assert result.exit_code == 7, "seven was wanted"
""")
    code, found = played(place, capsys)
    assert code == 1
    assert [one["standing"] for one in found["cases"]] == ["passed", "failed"], found
    (failure,) = found["cases"][1]["runs"][0]["failures"]
    assert failure["found"].startswith("seven was wanted")
