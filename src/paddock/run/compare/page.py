"""A comparison as a page of HTML. What is said here is in the JSON too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import asdict

from paddock.model.plural import many
from paddock.run.compare.compared_step import ComparedStep
from paddock.run.compare.comparison import Column, Comparison, broken
from paddock.run.compare.ends import Ends, ServiceDifference
from paddock.run.compare.fields import FieldDifference
from paddock.run.compare.pairs import Pair, Pairing, StepPart
from paddock.run.compare.summary_text import (
    counts_text,
    divergence_text,
    ended_text,
    moved_text,
    parting_text,
    said_lines,
    spent_text,
    took_text,
)
from paddock.run.compare.trail import Trail
from paddock.run.html import (
    Markup,
    TableRow,
    Tone,
    badge,
    beside,
    block,
    code,
    details,
    escaped,
    joined,
    page,
    paragraph,
    section,
    table,
)
from paddock.run.matching.recorded_step import ABSENT

_MAX_ROWS = 1000  # of steps in one table: a page must stay one that opens
_MAX_EACH = 100  # of each of many runs
_MAX_GLANCE = 300
_VERDICTS: Mapping[str, Tone] = {
    "allow": "good", "simulate": "info", "fault": "warn", "ask": "warn", "block": "bad",
}  # fmt: skip
_OUTCOMES: Mapping[str, Tone] = {
    "done": "good", "simulated": "info", "drafted": "info", "failed": "bad", "refused": "bad",
    "faulted": "warn",
}  # fmt: skip
_MAX_FIELDS = 40
_FEW = 3  # runs that fit beside each other
_MAX_LISTED = 100
_MAX_DOCUMENTS = 40
_MAX_OF_DOCUMENT = 12


def comparison_page(comparison: Comparison) -> str:
    """Render the whole page."""
    names = [column.trail.run for column in comparison.columns]
    title = f"{names[0]} and {names[1]}" if len(names) == 2 else f"{len(names)} runs"
    return page(
        f"Compared: {title}",
        _parts(comparison),
        note="Made by paddock compare, from journals alone.",
    )


def _parts(comparison: Comparison) -> Iterator[Markup]:
    yield _verdict(comparison)
    yield section("The runs", _runs(comparison), *_groups(comparison))
    if len(comparison.columns) > 2:
        yield section("Step by step", _matrix(comparison))
    for pairing, end in zip(comparison.pairings, comparison.ends, strict=True):
        yield from _against(pairing, end, is_alone=len(comparison.pairings) == 1)


def _verdict(comparison: Comparison) -> Markup:
    if comparison.is_same:
        return paragraph("They did the same and ended the same.", tone="good")
    others = [pairing for pairing in comparison.pairings if pairing.first is not None]
    if not others:
        return paragraph("Their steps are the same; they ended differently.", tone="warn")
    if len(comparison.pairings) == 1:
        return paragraph(divergence_text(others[0]), tone="warn")
    count = f"{len(others)} of {len(comparison.pairings)} runs part from {others[0].here.run}."
    return paragraph(count, tone="warn")


def _runs(comparison: Comparison) -> Markup:
    """Render the runs: a few side by side, many below each other. Rows that no run has are left
    out."""
    facts = [
        _facts(column, pairing)
        for column, pairing in zip(comparison.columns, [None, *comparison.pairings], strict=True)
    ]
    names = [name for name in facts[0] if any(run[name] not in ("", "-") for run in facts)]
    if len(facts) <= _FEW:
        header = [joined([letter, run["Run"]]) for letter, run in zip("ABC", facts, strict=False)]
        rest = [name for name in names if name not in ("Run", "Parts at")]
        return table(("", *header), [(name, *(run[name] for run in facts)) for name in rest])
    return table(names, [[run[name] for name in names] for run in facts])


def _facts(column: Column, pairing: Pairing | None) -> dict[str, Markup | str]:
    report = column.trail.report
    return {
        "Run": code(report.run, 60),
        "From": column.origin,
        "Different": joined([badge(word, "info") for word in column.otherwise]),
        "Ended": badge(ended_text(report), "good" if report.exit_code == 0 else "warn"),
        "Parts at": "" if pairing is None else parting_text(pairing),
        "Steps": str(report.steps),
        "Decisions": _badges(report.verdicts, _VERDICTS),
        "Outcomes": _badges(report.outcomes, _OUTCOMES),
        "Faults": _badges(report.faults, {}),
        "Verdicts": _judgements(column),
        "Broken": _broken(column),
        "Alerts": counts_text({alert.name: alert.times for alert in report.alerts}),
        "Asked": counts_text(asdict(report.answers)),
        "Drafts": str(report.drafted or ""),
        "Money moved": moved_text(column.money),
        "Models": spent_text(report.spent),
        "Took": took_text(report.duration_us),
    }


def _badges(counts: Mapping[str, int], tones: Mapping[str, Tone]) -> Markup:
    return joined(
        badge(f"{name} {count}", tones.get(name, "quiet")) for name, count in counts.items()
    )


def _judgements(column: Column) -> Markup:
    report = column.trail.verdicts
    bad = {verdict.judgement.value for verdict in report.verdicts if verdict.judgement.is_bad}
    return joined(
        badge(f"{name} {count}", "bad" if name in bad else "good")
        for name, count in report.counts.items()
    )


def _broken(column: Column) -> Markup:
    lines = [
        f'<span class="bad">{escaped(f"{name}: {invariant}")}</span>'
        for name, invariants in broken(column.trail).items()
        for invariant in invariants
    ]
    return Markup("<br>".join(lines[:_MAX_LISTED]))


def _groups(comparison: Comparison) -> Iterator[Markup]:
    if len(comparison.columns) == 2:
        return
    groups = comparison.groups
    yield paragraph(f"{len(groups)} ways it went. Runs in one line did the same:")
    rows = [
        (
            str(len(group)),
            ended_text(group[0].trail.report),
            joined([code(column.trail.run, 60) for column in group]),
        )
        for group in groups
    ]
    yield table(("Runs", "Ended", "Which"), rows)


def _against(pairing: Pairing, end: Ends, *, is_alone: bool) -> Iterator[Markup]:
    parts = [*_first(pairing), _steps(pairing, is_alone=is_alone), *_ends(end)]
    if is_alone:
        yield section("Where they part", *parts[:1])
        yield section("Step by step", *parts[1:2])
        yield section("How they ended", *(parts[2:] or [paragraph("The same.")]))
        return
    name = f"{pairing.here.run} and {pairing.there.run}"
    yield Markup(
        f"<section>{details(joined([code(name), divergence_text(pairing)]), *parts)}</section>"
    )


def _first(pairing: Pairing) -> Iterator[Markup]:
    first = pairing.first
    if first is None:
        yield paragraph("They do not: every step is the same.", tone="good")
        return
    sides = [
        _side(trail, step, content)
        for trail, step, content in (
            (pairing.here, first.pair.here, first.here),
            (pairing.there, first.pair.there, first.there),
        )
    ]
    fields = _field_table(first.fields) if first.fields else Markup("")
    yield Markup(f"{fields}\n{beside(*sides)}")


def _side(trail: Trail, step: ComparedStep | None, content: Mapping[str, Any] | None) -> Markup:
    if step is None or content is None:
        return paragraph(code(trail.run, 60), "does not have this step.")
    head = paragraph(code(trail.run, 60), f"step {step.step}:", code(step.call))
    return Markup(f"{head}{block(content)}")


def _field_table(fields: tuple[FieldDifference, ...], most: int = _MAX_FIELDS) -> Markup:
    rows = [
        (
            code(difference.at or "(all of it)", 200),
            _value(difference.here),
            _value(difference.there),
        )
        for difference in fields[:most]
    ]
    more = len(fields) - most
    left_out = paragraph(f"and {more} more", tone="quiet") if more > 0 else ""
    return Markup(f"{table(('Where', 'A', 'B'), rows)}{left_out}")


def _value(value: Any) -> Markup:
    if value is ABSENT:
        return Markup('<span class="quiet">not there</span>')
    if isinstance(value, str) and "\n" in value:
        return block(value)
    return code(value if isinstance(value, str) else _json(value))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _ends(end: Ends) -> Iterator[Markup]:
    files = end.files
    if files.is_same is False:
        count = "some" if files.count is None else str(files.count)
        rows = [(code(file.path), file.what) for file in files.files[:_MAX_LISTED]]
        summary = f"Files: {count} differ."
        listed = table(("File", "What"), rows)
        yield details(summary, listed, is_open=True) if rows else paragraph(summary)
    for service in end.world:
        yield _service(service)


def _service(service: ServiceDifference) -> Markup:
    if service.why is not None:
        return paragraph(code(service.name), f": {service.why}")
    documents = [
        details(
            joined([code(f"{document.kind} {document.id}"), badge(document.what, "info")]),
            _field_table(document.fields, _MAX_OF_DOCUMENT),
        )
        for document in service.documents[:_MAX_DOCUMENTS]
    ]
    more = service.count - len(documents)
    left = [paragraph(f"and {more} more", tone="quiet")] if more > 0 else []
    return details(
        f"{service.name}: {many(service.count, 'document differs', 'documents differ')}",
        *documents,
        *left,
        is_open=True,
    )


def _matrix(comparison: Comparison) -> Markup:
    """Render the steps of the first run with what each other run did there."""
    first = comparison.columns[0].trail
    made = [_made(pairing) for pairing in comparison.pairings]
    rows = [
        (str(step.step), code(step.call), *(_mark(pairs.get(step.step)) for pairs in made))
        for step in first.steps[:_MAX_GLANCE]
    ]
    pairings = comparison.pairings
    own_steps = [sum(pair.here is None for pair in pairing.pairs) for pairing in pairings]
    names = [code(pairing.there.run, 60) for pairing in pairings]
    left = len(first.steps) - len(rows)
    left_out = paragraph(f"Not shown: {many(left, 'more step')}.") if left > 0 else Markup("")
    last = ("", "steps of its own", *(str(count or "") for count in own_steps))
    return Markup(f"{table(('', first.run, *names), [*rows, last])}{left_out}")


def _made(pairing: Pairing) -> dict[int, Pair]:
    return {pair.here.step: pair for pair in pairing.pairs if pair.here is not None}


def _mark(pair: Pair | None) -> Markup | str:
    if pair is None or not pair.parts:
        return ""
    return badge("not there", "info") if pair.there is None else badge(pair.parts[0], _tone(pair))


def _steps(pairing: Pairing, *, is_alone: bool) -> Markup:
    """Render the runs step by step; of many or long runs only what differs."""
    most = _MAX_ROWS if is_alone else _MAX_EACH
    pairs = pairing.pairs
    is_short = len(pairs) <= most
    rows = [_step_row(pair) for pair in pairs if is_short or pair.parts][:most]
    counts = counts_text(pairing.counts)
    left = len(pairing.pairs) - len(rows)
    left_out = (
        [paragraph(f"Not shown here: {many(left, 'more pair')}; --json has all.")]
        if left > 0
        else []
    )
    header = ("A", "B", "Kind", "What", "Decided", "Came of it", "")
    return details(counts or "no steps", table(header, rows), *left_out, is_open=is_alone)


def _step_row(pair: Pair) -> TableRow | tuple[Markup | str, ...]:
    here, there = pair.here, pair.there
    cells = (
        "" if here is None else str(here.step),
        "" if there is None else str(there.step),
        pair.one.recorded.kind or "",
        _call(pair),
        _both(here, there, "verdict", _VERDICTS),
        _both(here, there, "result", _OUTCOMES),
        "" if not pair.parts else badge(pair.what, _tone(pair)),
    )
    return TableRow(cells, _tone(pair)) if pair.parts else cells


def _call(pair: Pair) -> Markup:
    """Return what was wanted, in both runs where that differs, and what a model answered."""
    calls = [step.call for step in (pair.here, pair.there) if step is not None]
    lines = [*dict.fromkeys(calls), *said_lines(pair)]
    return Markup("<br>".join(code(line) for line in lines))


def _both(
    here: ComparedStep | None, there: ComparedStep | None, name: str, tones: Mapping[str, Tone]
) -> Markup:
    """Return one badge where both say the same, else two with an arrow."""
    texts = [getattr(side, name) or "-" for side in (here, there) if side is not None]
    badges = [
        badge(text, tones.get(text.partition(" ")[0], "quiet")) for text in dict.fromkeys(texts)
    ]
    return joined(badges, " \u2192 ")


def _tone(pair: Pair) -> Tone:
    if pair.here is None or pair.there is None:
        return "info"
    return "bad" if StepPart.DECISION in pair.parts or StepPart.OUTCOME in pair.parts else "warn"
