"""Scenarios and their results as lines for people and as JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.cli.output import counts
from paddock.cli.render.cells import labelled
from paddock.cli.render.table import line_width, table
from paddock.model.plain import plain
from paddock.model.plural import many
from paddock.run.scenarios.play import CaseResult, CaseStatus, ScenarioRun
from paddock.run.scenarios.scenario import Case

MAX_FAILED_RUNS = 3  # of one case, in full
_WIDEST = 100
_ORDER = [one.value for one in CaseStatus]


def case_lines(cases: Sequence[Case]) -> Iterator[str]:
    """What would be run."""
    rows = [(plain(one.name, _WIDEST), one.scenario.repeat, plain(one.scenario.source, _WIDEST))
            for one in cases]  # fmt: skip
    yield table(("CASE", "RUNS", "FILE"), rows, width=line_width(), flexible=("FILE", "CASE"))
    runs = sum(one.scenario.repeat for one in cases)
    yield f"\n{many(len(cases), 'case')}, {many(runs, 'run')}"


def case_json(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "file": case.scenario.source,
        "point": dict(case.point),
        "repeat": case.scenario.repeat,
    }


def result_lines(results: Sequence[CaseResult]) -> Iterator[str]:
    """What failed, with how to look at it, then the rates, then the counts."""
    for one in results:
        if one.standing not in (CaseStatus.PASSED, CaseStatus.SKIPPED):
            yield from _failed(one)
    repeated = [one for one in results if one.case.scenario.repeat > 1 and one.attempts]
    if repeated:
        rows = [(plain(one.case.name, _WIDEST), one.standing.value, _rate(one)) for one in repeated]
        header = ("CASE", "STANDS", "RUNS THAT PASSED (95 %)")
        yield table(header, rows, width=line_width(), flexible=("CASE",))
        yield ""
    warned = [one for one in results if one.warning is not None]
    for one in warned:
        yield f"warning  {plain(one.case.name, _WIDEST)}: {plain(str(one.warning), 500)}"
    if warned:
        yield "  (expect: {faults: {min: 1}} makes that a failure)"
        yield ""
    found = Counter(one.standing.value for one in results)
    flaky = sum(one.is_flaky for one in results)
    yield f"{many(len(results), 'case')}: {counts(found, _ORDER)}" + (
        f"; {flaky} flaky" if flaky else ""
    )


def _failed(result: CaseResult) -> Iterator[str]:
    yield f"{result.standing.value.upper()}  {plain(result.case.name, _WIDEST)}"
    yield f"  {plain(result.case.scenario.source, _WIDEST)}"
    failed = [one for one in result.attempts if not one.is_passed]
    for attempt in failed[:MAX_FAILED_RUNS]:
        yield from _attempt(attempt)
    if len(failed) > MAX_FAILED_RUNS:
        runs = ", ".join(one.run or "no run" for one in failed[MAX_FAILED_RUNS:][:20])
        yield f"  and {many(len(failed) - MAX_FAILED_RUNS, 'more run')}: {runs}"
    if result.standing is CaseStatus.INCONCLUSIVE:
        least = result.case.scenario.expect.least_rate
        yield f"  the rate {least:g} lies within what {_rate(result)} allows: repeat it more often"
    yield ""


def _attempt(attempt: ScenarioRun) -> Iterator[str]:
    if attempt.error is not None:
        why = f"run {attempt.number} could not be made: {plain(attempt.error, 1000)}"
        yield from labelled("  ", why, line_width())
    for one in attempt.failures:
        yield f"  {plain(one.where, _WIDEST)}"
        yield from labelled("    expected  ", plain(one.expected, 500), line_width())
        yield from labelled("    found     ", plain(one.found, 1000), line_width())
        yield f"    look      {one.look(attempt.run or '?')}"


def results_json(results: Sequence[CaseResult]) -> dict[str, Any]:
    """Keys may be added."""
    found = Counter(one.standing.value for one in results)
    return {"counts": dict(found), "cases": [_result_json(one) for one in results]}


def _result_json(result: CaseResult) -> dict[str, Any]:
    rate = result.rate
    return {
        **case_json(result.case),
        "standing": result.standing.value,
        "faults_never_struck": list(result.unstruck),
        "rate": {"passed": rate.passed, "runs": rate.runs, "low": rate.low, "high": rate.high},
        "runs": [_attempt_json(one) for one in result.attempts],
    }


def _attempt_json(attempt: ScenarioRun) -> dict[str, Any]:
    failures = [{**one.as_json(), "look": one.look(attempt.run or "?")} for one in attempt.failures]
    return {
        "run": attempt.run,
        "passed": attempt.is_passed,
        "duration_s": round(attempt.duration_s, 3),
        "steps": attempt.steps,
        "usd_micros": attempt.usd_micros,
        "faults": dict(attempt.faults),
        "error": attempt.error,
        "failures": failures,
    }


def _rate(result: CaseResult) -> str:
    return str(result.rate)
