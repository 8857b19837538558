"""Cases that run: in any order, some at a time, and what is said of each in the end."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from paddock.cli.render.scenarios import result_lines, results_json
from paddock.model.errors import HostCannot
from paddock.run.scenarios.checks import FailedCheck
from paddock.run.scenarios.junit import junit_xml
from paddock.run.scenarios.page import results_page
from paddock.run.scenarios.play import CaseResult, CaseStatus, Play, ScenarioRun
from paddock.run.scenarios.preparation import Prepared, prepare
from paddock.run.scenarios.result import RunResult
from paddock.run.scenarios.scenario import Scenario
from paddock.run.scenarios.terms import Expectations
from unit.run.recorded import Crossed, agent, record


@dataclass(frozen=True)
class Ended:
    directory: Path


class Fakes:
    """Records a run for each order, with the exit status that is wanted for it. In place of a
    sandbox; everything after it is real."""

    def __init__(self, home: Path, exits: dict[str, list[int]]) -> None:
        self._home = home
        self._exits = exits
        self._lock = threading.Lock()
        self.seeds: list[str] = []
        self.most_at_once = self._now = 0
        self.meeting: threading.Barrier | None = None

    def __call__(self, prepared: Prepared) -> Ended:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            self.seeds.append(prepared.order.seed)
            number = len(self.seeds)
            exits = self._exits[prepared.case.name]
            code = exits.pop(0) if len(exits) > 1 else exits[0]
        if self.meeting is not None:
            self.meeting.wait(30)
        if code < 0:
            raise HostCannot("no more memory")
        first = Crossed(agent("python", "agent.py"), record={"exit_code": code})
        directory = record(self._home, f"run{number}", [first])
        with self._lock:
            self._now -= 1
        return Ended(directory)


def case(tmp_path: Path, name: str, **words: object) -> Prepared:
    scenario = Scenario(name, ("python", "agent.py"), tmp_path, source="a.scenario.yaml")
    (found,) = prepare([replace(scenario, **words)])  # type: ignore[arg-type]
    return found


def played(fakes: Fakes, *cases: Prepared, jobs: int = 1, is_fail_fast: bool = False) -> list[str]:
    results = Play(fakes, lambda case, attempt: None, jobs, is_fail_fast).through(cases)
    return [f"{one.case.name} {one.standing} {one.rate.passed}/{one.rate.runs}" for one in results]


def test_results_come_in_the_order_of_the_cases(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, {"a": [0], "b": [1], "c": [0]})
    cases = [case(tmp_path, name) for name in "abc"]
    assert played(fakes, *cases, jobs=3) == ["a passed 1/1", "b failed 0/1", "c passed 1/1"]


def test_so_many_run_at_a_time_as_there_are_jobs(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, {"a": [0]})
    fakes.meeting = threading.Barrier(4)  # nobody leaves before four are there
    assert played(fakes, case(tmp_path, "a", repeat=8), jobs=4) == ["a passed 8/8"]
    assert fakes.most_at_once == 4


def test_one_failure_of_many_runs_fails_a_case_without_a_rate(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, {"a": [0, 1, 0]})
    assert played(fakes, case(tmp_path, "a", repeat=4)) == ["a failed 3/4"]


@pytest.mark.parametrize(
    ("failures", "runs", "standing"),
    [(0, 40, "passed"), (1, 40, "inconclusive"), (20, 40, "failed"), (2, 200, "passed")],
)
def test_a_rate_is_decided_by_its_interval(
    tmp_path: Path, failures: int, runs: int, standing: str
) -> None:
    expect = Expectations(least_rate=0.9)
    scenario = Scenario("a", ("a",), tmp_path, repeat=runs, expect=expect)
    (prepared,) = prepare([scenario])
    attempts = tuple(
        ScenarioRun(n, 0.1, "r", () if n >= failures else (FailedCheck("a", "b", "c"),))
        for n in range(runs)
    )
    assert CaseResult(prepared.case, attempts).standing == standing


def test_each_run_of_a_case_has_its_own_chance_and_the_first_that_of_the_seed(
    tmp_path: Path,
) -> None:
    fakes = Fakes(tmp_path, {"a": [0]})
    played(fakes, case(tmp_path, "a", repeat=3, seed=7))
    assert fakes.seeds == ["7", "7.2", "7.3"]


def test_a_run_that_cannot_be_made_is_broken_and_ends_no_other(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, {"a": [-1], "b": [0]})
    cases = [case(tmp_path, "a"), case(tmp_path, "b")]
    assert played(fakes, *cases) == ["a broken 0/1", "b passed 1/1"]


def test_after_a_failure_nothing_begins_when_that_is_wanted(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, {"a": [0], "b": [1], "c": [0]})
    cases = [case(tmp_path, name) for name in "abc"]
    found = played(fakes, *cases, is_fail_fast=True)
    assert found == ["a passed 1/1", "b failed 0/1", "c skipped 0/0"]
    assert len(fakes.seeds) == 2


def test_a_case_that_was_cut_short_by_another_is_not_passed(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, {"a": [1], "b": [0]})
    cases = [case(tmp_path, "a"), case(tmp_path, "b", repeat=3)]
    assert played(fakes, *cases, is_fail_fast=True)[1] == "b skipped 0/0"


def test_a_check_of_python_that_is_not_satisfied_is_a_failure(tmp_path: Path) -> None:
    def check(result: RunResult) -> None:
        assert result.exit_code == 7, "seven was wanted"

    def crash(result: RunResult) -> None:
        raise KeyError("refunds")

    for check_function, said in ((check, "seven was wanted"), (crash, "KeyError: 'refunds'")):
        fakes = Fakes(tmp_path / check_function.__name__, {"a": [0]})
        prepared = case(tmp_path, "a", check=check_function)
        (result,) = Play(fakes, lambda case, attempt: None).through([prepared])
        assert result.standing is CaseStatus.FAILED
        (failure,) = result.attempts[0].failures
        assert said in failure.found


def results(tmp_path: Path) -> list[CaseResult]:
    nasty = FailedCheck("expect.output", "<b>]]>\x00\ud800 &", "\x1b[31mred\x07", 3)
    first = case(tmp_path, "passes [seed=1]")
    second = case(tmp_path, "fails <script>alert(1)</script>\x01", repeat=2)
    third = case(tmp_path, "broken")
    fourth = case(tmp_path, "skipped")
    return [
        CaseResult(first.case, (ScenarioRun(1, 0.5, "run1", steps=3, usd_micros=1200),)),
        CaseResult(
            second.case, (ScenarioRun(1, 0.5, "run2", (nasty,)), ScenarioRun(2, 0.5, "run3"))
        ),
        CaseResult(third.case, (ScenarioRun(1, 0.1, error="no more memory"),)),
        CaseResult(fourth.case, (), is_whole=False),
    ]


def test_junit_has_each_case_once_and_counts_that_agree(tmp_path: Path) -> None:
    root = ElementTree.fromstring(junit_xml(results(tmp_path)))
    (suite,) = root
    for element in (root, suite):
        counts = {key: element.get(key) for key in ("tests", "failures", "errors", "skipped")}
        assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    names = [one.get("name") for one in suite]
    assert names[0] == "passes [seed=1]"
    assert [[child.tag for child in one if child.tag != "properties"] for one in suite] == [
        ["system-out"],
        ["failure", "system-out"],
        ["error"],
        ["skipped"],
    ]
    failure = suite[1].find("failure")
    assert failure is not None and "paddock show run2 --step 3" in (failure.text or "")


def test_a_page_runs_nothing_that_an_agent_wrote(tmp_path: Path) -> None:
    page = results_page(results(tmp_path))
    assert "<script>" not in page
    assert "\x1b" not in page
    assert "1 passed" in page and "paddock show run2 --step 3" in page


def _struck(tmp_path: Path, *strikes: dict[str, int]) -> CaseResult:
    chance = {"id": "rare", "match": {"kind": "http"}, "fault": {"status": 500}, "rate": 0.1}
    sure = {"id": "lost", "match": {"kind": "http"}, "fault": {"status": 500}, "first": 1}
    prepared = case(tmp_path, "with faults", faults=[chance, sure])
    attempts = [ScenarioRun(n, 0.1, f"run{n}", faults=one) for n, one in enumerate(strikes, 1)]
    return CaseResult(prepared.case, tuple(attempts), faults=tuple(prepared.order.policy.faults))


def test_a_case_says_which_of_its_faults_never_struck(tmp_path: Path) -> None:
    assert _struck(tmp_path, {}, {}).unstruck == ("rare", "lost")
    assert _struck(tmp_path, {"rare": 1}).unstruck == ("lost",)
    # Chance may pass one by, as long as something was struck.
    assert _struck(tmp_path, {}, {"lost": 1}).unstruck == ()


def test_that_no_fault_struck_is_told_everywhere(tmp_path: Path) -> None:
    result = _struck(tmp_path, {})
    said = "faults that never struck: rare, lost"
    assert f"warning  with faults: {said}" in "\n".join(result_lines([result]))
    assert results_json([result])["cases"][0]["faults_never_struck"] == ["rare", "lost"]
    assert said in results_page([result])
    (found,) = ElementTree.fromstring(junit_xml([result])).iter("testcase")
    assert said in (found.findtext("system-err") or "")
    assert any(one.get("name") == "faults-never-struck" for one in found.iter("property"))
