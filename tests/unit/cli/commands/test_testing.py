"""`paddock test` up to the runs themselves: what is listed, chosen and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddock.cli.commands.test import main
from paddock.cli.render.scenarios import ScenarioProgress, result_lines, results_json
from paddock.model.errors import InvalidInput
from paddock.run.scenarios.checks import FailedCheck
from paddock.run.scenarios.play import CaseResult, ScenarioRun
from paddock.run.scenarios.scenario import Case, Scenario
from paddock.run.scenarios.terms import Expectations

TEXT = "version: 1\nname: refund\nagent: [python, agent.py]\nrepeat: 3\nmatrix: {seed: [1, 2]}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "a.scenario.yaml").write_text(TEXT)
    return tmp_path


def case(name: str, **words: object) -> Case:
    scenario = Scenario(name, ("a",), Path("/"), source="a.scenario.yaml", **words)  # type: ignore[arg-type]
    return Case(name, scenario, {})


FAILED = ScenarioRun(1, 0.5, "abc", (FailedCheck("expect.exit", "exit 0", "exit 1\x1b[2J", 1),))
PASSED = ScenarioRun(2, 0.5, "def")


def test_cases_are_listed_without_being_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--list", str(project)]) == 0
    said = capsys.readouterr().out
    assert "refund [seed=1]" in said and "2 cases, 6 runs" in said


def test_a_filter_looks_at_names_whatever_their_case(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--list", "--json", "-k", "REFUND", "-k", "seed=2", str(project)]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["name"], one["repeat"], one["point"]) == ("refund [seed=2]", 3, {"seed": "2"})


def test_a_filter_that_leaves_nothing_is_a_mistake(project: Path) -> None:
    with pytest.raises(InvalidInput, match="no case has 'nothing'"):
        main(["--list", "-k", "nothing", str(project)])


def test_a_wrong_scenario_is_a_mistake(project: Path) -> None:
    (project / "b.scenario.yaml").write_text("version: 1\n")
    with pytest.raises(InvalidInput, match=r"b\.scenario\.yaml:1"):
        main([str(project)])


@pytest.mark.parametrize("jobs", ["0", "-1", "65", "many"])
def test_jobs_are_a_small_number(project: Path, jobs: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--jobs", jobs, str(project)])
    assert caught.value.code == 2


def test_a_failure_says_what_was_expected_and_how_to_look() -> None:
    text = "\n".join(result_lines([CaseResult(case("a"), (FAILED,)), CaseResult(case("b"), ())]))
    assert "FAILED  a" in text
    assert "expected  exit 0" in text
    assert "found     exit 1\\x1b" in text
    assert "look      paddock show abc --step 1" in text
    assert text.endswith("2 cases: failed 1, skipped 1")


def test_a_flaky_case_is_shown_with_its_rate() -> None:
    result = CaseResult(case("a", repeat=2), (FAILED, PASSED))
    text = "\n".join(result_lines([result]))
    assert "1 of 2 (9-91 %)" in text and text.endswith("; 1 flaky")


def test_an_inconclusive_case_says_that_more_runs_are_needed() -> None:
    scenario = case("a", repeat=2, expect=Expectations(least_rate=0.3))
    text = "\n".join(result_lines([CaseResult(scenario, (FAILED, PASSED))]))
    assert "INCONCLUSIVE  a" in text and "repeat it more often" in text


def test_json_has_the_runs_and_their_failures() -> None:
    found = results_json([CaseResult(case("a", repeat=2), (FAILED, PASSED))])
    json.dumps(found)
    assert found["counts"] == {"failed": 1}
    (one,) = found["cases"]
    assert [run["run"] for run in one["runs"]] == ["abc", "def"]
    assert one["runs"][0]["failures"][0]["look"] == "paddock show abc --step 1"


def test_outside_of_a_terminal_each_run_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ScenarioProgress(2) as progress:
        progress.told(case("a\x1b[2J"), FAILED)
        progress.told(case("b", repeat=2), PASSED)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("failed a\\x1b[2J (abc)")
    assert lines[1].startswith("ok     b run 2 (def)")


def test_for_programs_nothing_is_shown_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    with ScenarioProgress(1, is_quiet=True) as progress:
        progress.told(case("a"), FAILED)
    assert capsys.readouterr() == ("", "")
