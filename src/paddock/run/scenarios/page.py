"""Results as one page of HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paddock.run.html import (
    Markup,
    Part,
    TableRow,
    Tone,
    badge,
    code,
    details,
    joined,
    page,
    paragraph,
    section,
    table,
)
from paddock.run.scenarios.play import CaseResult, CaseStatus, ScenarioRun

_TONES: dict[CaseStatus, Tone] = {
    CaseStatus.PASSED: "good",
    CaseStatus.FAILED: "bad",
    CaseStatus.BROKEN: "bad",
    CaseStatus.INCONCLUSIVE: "warn",
    CaseStatus.SKIPPED: "quiet",
}


def results_page(results: Sequence[CaseResult]) -> str:
    """Render all cases in a table, and below it the failures."""
    counts = Counter(result.standing for result in results)
    badges = [
        badge(f"{counts[standing]} {standing.value}", _TONES[standing])
        for standing in CaseStatus
        if counts[standing]
    ]
    parts: list[Part] = [paragraph(joined(badges)), section("Cases", _cases(results))]
    parts += [
        paragraph(f"{result.case.name}: {result.warning}", tone="warn")
        for result in results
        if result.warning
    ]
    parts += [
        _failed(result) for result in results if any(not a.is_passed for a in result.attempts)
    ]
    return page("Scenarios", parts, note="Made by paddock test.")


def _cases(results: Sequence[CaseResult]) -> Markup:
    header = ("Case", "Stands", "Runs that passed", "Steps", "Cost", "Time")
    return table(header, [_row(result) for result in results])


def _row(result: CaseResult) -> TableRow | Sequence[Part]:
    attempts = result.attempts
    steps = [attempt.steps for attempt in attempts] or [0]
    spread = f"{min(steps)}" if min(steps) == max(steps) else f"{min(steps)}-{max(steps)}"
    money = sum(attempt.usd_micros for attempt in attempts)
    cells: Sequence[Part] = (
        result.case.name,
        badge(result.standing.value, _TONES[result.standing]),
        str(result.rate) if attempts else "none",
        spread,
        f"${money / 1e6:.4f}" if money else "",
        f"{result.duration_s:.1f} s",
    )
    return (
        TableRow(cells, "bad")
        if result.standing in (CaseStatus.FAILED, CaseStatus.BROKEN)
        else cells
    )


def _failed(result: CaseResult) -> Markup:
    folded = [_attempt(attempt) for attempt in result.attempts if not attempt.is_passed]
    return section(result.case.name, paragraph(result.case.scenario.source, tone="quiet"), *folded)


def _attempt(attempt: ScenarioRun) -> Markup:
    title = joined([f"run {attempt.number}", code(attempt.run or "no run")])
    if attempt.error is not None:
        return details(title, paragraph(attempt.error, tone="bad"), is_open=True)
    rows = [(failure.where, failure.expected, failure.found, code(failure.look(attempt.run or "?")))
            for failure in attempt.failures]  # fmt: skip
    return details(title, table(("Where", "Expected", "Found", "Look"), rows), is_open=True)
