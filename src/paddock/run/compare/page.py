"""A comparison as a page of HTML. What is said here is in the JSON too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from paddock.model.plural import many
from paddock.run.compare.comparison import Column, Comparison, broken
from paddock.run.compare.ends import Ends, ServiceDifference
from paddock.run.compare.fields import ABSENT, FieldDifference
from paddock.run.compare.moves import Move
from paddock.run.compare.page_steps import OUTCOMES, VERDICTS, matrix, steps
from paddock.run.compare.pairing import Pairing
from paddock.run.compare.trail import Trail
from paddock.run.compare.words import (
    counts_text,
    divergence_text,
    ended_text,
    moved_text,
    parting_text,
    spent_text,
    took_text,
)
from paddock.run.html import (
    Markup,
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

_MAX_FIELDS = 40
_FEW = 3  # runs that fit beside each other
_MAX_LISTED = 100
_MAX_DOCUMENTS = 40
_MAX_OF_DOCUMENT = 12


def comparison_page(comparison: Comparison) -> str:
    """The whole page."""
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
        yield section("Step by step", matrix(comparison))
    for pairing, end in zip(comparison.pairings, comparison.ends, strict=True):
        yield from _against(pairing, end, is_alone=len(comparison.pairings) == 1)


def _verdict(comparison: Comparison) -> Markup:
    if comparison.is_same:
        return paragraph("They did the same and ended the same.", tone="good")
    others = [one for one in comparison.pairings if one.first is not None]
    if not others:
        return paragraph("Their steps are the same; they ended differently.", tone="warn")
    if len(comparison.pairings) == 1:
        return paragraph(divergence_text(others[0]), tone="warn")
    count = f"{len(others)} of {len(comparison.pairings)} runs part from {others[0].here.run}."
    return paragraph(count, tone="warn")


def _runs(comparison: Comparison) -> Markup:
    """A few runs stand side by side, many below each other. What none of them has is left out."""
    told = [
        _facts(column, pairing)
        for column, pairing in zip(comparison.columns, [None, *comparison.pairings], strict=True)
    ]
    names = [name for name in told[0] if any(one[name] not in ("", "-") for one in told)]
    if len(told) <= _FEW:
        header = [joined([letter, one["Run"]]) for letter, one in zip("ABC", told, strict=False)]
        rest = [name for name in names if name not in ("Run", "Parts at")]
        return table(("", *header), [(name, *(one[name] for one in told)) for name in rest])
    return table(names, [[one[name] for name in names] for one in told])


def _facts(column: Column, pairing: Pairing | None) -> dict[str, Markup | str]:
    report = column.trail.report
    return {
        "Run": code(report.run, 60),
        "From": column.origin,
        "Different": joined([badge(word, "info") for word in column.otherwise]),
        "Ended": badge(ended_text(report), "good" if report.exit_code == 0 else "warn"),
        "Parts at": "" if pairing is None else parting_text(pairing),
        "Steps": str(report.steps),
        "Decisions": _badges(report.verdicts, VERDICTS),
        "Outcomes": _badges(report.outcomes, OUTCOMES),
        "Faults": _badges(report.faults, {}),
        "Verdicts": _judgements(column),
        "Broken": _broken(column),
        "Alerts": counts_text({one.name: one.times for one in report.alerts}),
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
    found = column.trail.verdicts
    bad = {one.judgement.value for one in found.verdicts if one.judgement.is_bad}
    return joined(
        badge(f"{name} {count}", "bad" if name in bad else "good")
        for name, count in found.counts.items()
    )


def _broken(column: Column) -> Markup:
    said = [f"{name}: {one}" for name, some in broken(column.trail).items() for one in some]
    lines = [f'<span class="bad">{escaped(one)}</span>' for one in said[:_MAX_LISTED]]
    return Markup("<br>".join(lines))


def _groups(comparison: Comparison) -> Iterator[Markup]:
    if len(comparison.columns) == 2:
        return
    groups = comparison.groups
    yield paragraph(f"{len(groups)} ways it went. Runs in one line did the same:")
    rows = [
        (
            str(len(group)),
            ended_text(group[0].trail.report),
            joined([code(one.trail.run, 60) for one in group]),
        )
        for group in groups
    ]
    yield table(("Runs", "Ended", "Which"), rows)


def _against(pairing: Pairing, end: Ends, *, is_alone: bool) -> Iterator[Markup]:
    parts = [*_first(pairing), steps(pairing, is_alone=is_alone), *_ends(end)]
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
        _side(trail, move, told)
        for trail, move, told in (
            (pairing.here, first.pair.here, first.here),
            (pairing.there, first.pair.there, first.there),
        )
    ]
    fields = _field_table(first.fields) if first.fields else Markup("")
    yield Markup(f"{fields}\n{beside(*sides)}")


def _side(trail: Trail, move: Move | None, told: Mapping[str, Any] | None) -> Markup:
    if move is None or told is None:
        return paragraph(code(trail.run, 60), "does not have this step.")
    head = paragraph(code(trail.run, 60), f"step {move.step}:", code(move.call))
    return Markup(f"{head}{block(told)}")


def _field_table(fields: tuple[FieldDifference, ...], most: int = _MAX_FIELDS) -> Markup:
    rows = [
        (code(one.at or "(all of it)", 200), _value(one.here), _value(one.there))
        for one in fields[:most]
    ]
    more = len(fields) - most
    said = paragraph(f"and {more} more", tone="quiet") if more > 0 else ""
    return Markup(f"{table(('Where', 'A', 'B'), rows)}{said}")


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
        rows = [(code(one.path), one.what) for one in files.files[:_MAX_LISTED]]
        said = f"Files: {count} differ."
        listed = table(("File", "What"), rows)
        yield details(said, listed, is_open=True) if rows else paragraph(said)
    for service in end.world:
        yield _service(service)


def _service(service: ServiceDifference) -> Markup:
    if service.why is not None:
        return paragraph(code(service.name), f": {service.why}")
    said = [
        details(
            joined([code(f"{one.kind} {one.id}"), badge(one.what, "info")]),
            _field_table(one.fields, _MAX_OF_DOCUMENT),
        )
        for one in service.documents[:_MAX_DOCUMENTS]
    ]
    more = service.count - len(said)
    left = [paragraph(f"and {more} more", tone="quiet")] if more > 0 else []
    return details(
        f"{service.name}: {many(service.count, 'document differs', 'documents differ')}",
        *said,
        *left,
        is_open=True,
    )
