"""Scenarios and their results as lines for people and as JSON for programs."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from paddock.cli.output import counts
from paddock.cli.render.cells import labelled
from paddock.cli.render.table import line_width, terminal_table
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.run.scenarios.play import CaseResult, CaseStatus, ScenarioRun
from paddock.run.scenarios.scenario import Case

if TYPE_CHECKING:
    from paddock.run.scenarios.play import ScenarioRun
    from paddock.run.scenarios.scenario import Case

MAX_FAILED_RUNS = 3  # of one case, in full
_WIDEST = 100
_CLEAR = "\r\x1b[2K"
_ORDER = [standing.value for standing in CaseStatus]


def case_lines(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a table of the cases that would be run, and their number."""
    rows = []
    for case in cases:
        name, source = printable(case.name, _WIDEST), printable(case.scenario.source, _WIDEST)
        rows.append((name, case.scenario.repeat, source))
    yield terminal_table(("CASE", "RUNS", "FILE"), rows, flexible=("FILE", "CASE"))
    runs = sum(case.scenario.repeat for case in cases)
    yield f"\n{many(len(cases), 'case')}, {many(runs, 'run')}"


def case_json(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "file": case.scenario.source,
        "point": dict(case.point),
        "repeat": case.scenario.repeat,
    }


def result_lines(results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield the failures, with how to look at each, then the rates, then the counts."""
    for result in results:
        if result.standing not in (CaseStatus.PASSED, CaseStatus.SKIPPED):
            yield from _failure_lines(result)
    repeated = [result for result in results if result.case.scenario.repeat > 1 and result.attempts]
    if repeated:
        rows = [
            (printable(result.case.name, _WIDEST), result.standing.value, str(result.rate))
            for result in repeated
        ]
        header = ("CASE", "STANDS", "RUNS THAT PASSED (95 %)")
        yield terminal_table(header, rows, flexible=("CASE",))
        yield ""
    warned = [result for result in results if result.warning is not None]
    for result in warned:
        name = printable(result.case.name, _WIDEST)
        yield f"warning  {name}: {printable(str(result.warning), 500)}"
    if warned:
        yield "  (expect: {faults: {min: 1}} makes that a failure)"
        yield ""
    standings = Counter(result.standing.value for result in results)
    flaky = sum(result.is_flaky for result in results)
    yield f"{many(len(results), 'case')}: {counts(standings, _ORDER)}" + (
        f"; {flaky} flaky" if flaky else ""
    )


def _failure_lines(result: CaseResult) -> Iterator[str]:
    yield f"{result.standing.value.upper()}  {printable(result.case.name, _WIDEST)}"
    yield f"  {printable(result.case.scenario.source, _WIDEST)}"
    failed = [attempt for attempt in result.attempts if not attempt.is_passed]
    for attempt in failed[:MAX_FAILED_RUNS]:
        yield from _attempt(attempt)
    if len(failed) > MAX_FAILED_RUNS:
        runs = ", ".join(attempt.run or "no run" for attempt in failed[MAX_FAILED_RUNS:][:20])
        yield f"  and {many(len(failed) - MAX_FAILED_RUNS, 'more run')}: {runs}"
    if result.standing is CaseStatus.INCONCLUSIVE:
        least = result.case.scenario.expect.least_rate
        yield f"  the rate {least:g} lies within what {result.rate} allows: repeat it more often"
    yield ""


def _attempt(attempt: ScenarioRun) -> Iterator[str]:
    if attempt.error is not None:
        why = f"run {attempt.number} could not be made: {printable(attempt.error, 1000)}"
        yield from labelled("  ", why, line_width())
    for failure in attempt.failures:
        yield f"  {printable(failure.where, _WIDEST)}"
        yield from labelled("    expected  ", printable(failure.expected, 500), line_width())
        yield from labelled("    found     ", printable(failure.found, 1000), line_width())
        yield f"    look      {failure.look(attempt.run or '?')}"


def results_json(results: Sequence[CaseResult]) -> dict[str, Any]:
    """Return the results for programs. Later versions may add keys."""
    standings = Counter(result.standing.value for result in results)
    return {"counts": dict(standings), "cases": [_result_json(result) for result in results]}


def _result_json(result: CaseResult) -> dict[str, Any]:
    rate = result.rate
    return {
        **case_json(result.case),
        "standing": result.standing.value,
        "faults_never_struck": list(result.unstruck),
        "rate": {"passed": rate.passed, "runs": rate.runs, "low": rate.low, "high": rate.high},
        "runs": [_attempt_json(attempt) for attempt in result.attempts],
    }


def _attempt_json(attempt: ScenarioRun) -> dict[str, Any]:
    failures = [
        {**failure.as_json(), "look": failure.look(attempt.run or "?")}
        for failure in attempt.failures
    ]
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


class ScenarioProgress:
    """The progress of a round of scenarios: one line that moves in a terminal, on stderr so that
    the results can be piped; elsewhere one line for each run."""

    def __init__(self, total: int, *, is_quiet: bool = False) -> None:
        self._total = total
        self._is_quiet = is_quiet
        self._is_live = sys.stderr.isatty()
        self._started = time.monotonic()
        self._done = self._failed = 0

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live and not self._is_quiet:
            print(_CLEAR, end="", file=sys.stderr, flush=True)

    def told(self, case: Case, attempt: ScenarioRun) -> None:
        self._done += 1
        self._failed += not attempt.is_passed
        if self._is_quiet:
            return
        if self._is_live:
            self._draw(case.name)
            return
        word = "broken" if attempt.error else "failed"
        if attempt.is_passed:
            word = "ok"
        number = f" run {attempt.number}" if case.scenario.repeat > 1 else ""
        where = f" ({attempt.run})" if attempt.run else ""
        name = printable(case.name, 100)
        print(f"{word:6} {name}{number}{where} {attempt.duration_s:.1f} s", flush=True)

    def _draw(self, name: str = "") -> None:
        if self._is_quiet or not self._is_live:
            return
        spent = time.monotonic() - self._started
        failed = f", {self._failed} failed" if self._failed else ""
        done = f"{self._done} of {many(self._total, 'run')}{failed}"
        line = f"{done}, {spent:.0f} s  {printable(name, 100)}"
        width = max(20, shutil.get_terminal_size().columns - 1)
        print(_CLEAR + line[:width], end="", file=sys.stderr, flush=True)
