"""The aligned steps of a comparison as tables of HTML: two runs in detail, many at a glance."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.model.plural import many
from paddock.run.compare.comparison import Comparison
from paddock.run.compare.moves import Move
from paddock.run.compare.pairing import Pair, Pairing, Part
from paddock.run.compare.words import counts_text, said_lines
from paddock.run.html import Markup, Row, Tone, badge, code, details, joined, paragraph, table

MAX_ROWS = 1000  # of steps in one table: a page must stay one that opens
MAX_EACH = 100  # of each of many runs
MAX_GLANCE = 300
VERDICTS: Mapping[str, Tone] = {
    "allow": "good", "simulate": "info", "fault": "warn", "ask": "warn", "block": "bad",
}  # fmt: skip
OUTCOMES: Mapping[str, Tone] = {
    "done": "good", "simulated": "info", "drafted": "info", "failed": "bad", "refused": "bad",
    "faulted": "warn",
}  # fmt: skip


def matrix(comparison: Comparison) -> Markup:
    """The steps of the first run, and what each other run made of them."""
    first = comparison.columns[0].trail
    made = [_made(pairing) for pairing in comparison.pairings]
    rows = [
        (str(move.step), code(move.call), *(_mark(one.get(move.step)) for one in made))
        for move in first.moves[:MAX_GLANCE]
    ]
    more = [str(sum(pair.here is None for pair in one.pairs)) for one in comparison.pairings]
    names = [code(one.there.run, 60) for one in comparison.pairings]
    left = len(first.moves) - len(rows)
    said = paragraph(f"Not shown: {many(left, 'more step')}.") if left > 0 else Markup("")
    last = ("", "steps of its own", *(one if one != "0" else "" for one in more))
    return Markup(f"{table(('', first.run, *names), [*rows, last])}{said}")


def _made(pairing: Pairing) -> dict[int, Pair]:
    return {one.here.step: one for one in pairing.pairs if one.here is not None}


def _mark(one: Pair | None) -> Markup | str:
    if one is None or not one.parts:
        return ""
    return badge("not there", "info") if one.there is None else badge(one.parts[0], _tone(one))


def steps(pairing: Pairing, *, is_alone: bool) -> Markup:
    """Step by step. Of many runs, or long ones, only what differs."""
    most = MAX_ROWS if is_alone else MAX_EACH
    pairs = pairing.pairs
    is_short = len(pairs) <= most
    rows = [_step_row(one) for one in pairs if is_short or one.parts][:most]
    counts = counts_text(pairing.counts)
    left = len(pairing.pairs) - len(rows)
    said = (
        [paragraph(f"Not shown here: {many(left, 'more pair')}; --json has all.")]
        if left > 0
        else []
    )
    header = ("A", "B", "Kind", "What", "Decided", "Came of it", "")
    return details(counts or "no steps", table(header, rows), *said, is_open=is_alone)


def _step_row(one: Pair) -> Row | tuple[Markup | str, ...]:
    here, there, move = one.here, one.there, one.one
    cells = (
        "" if here is None else str(here.step),
        "" if there is None else str(there.step),
        move.kind,
        _call(one),
        _both(here, there, "verdict", VERDICTS),
        _both(here, there, "result", OUTCOMES),
        "" if not one.parts else badge(one.what, _tone(one)),
    )
    return Row(cells, _tone(one)) if one.parts else cells


def _call(one: Pair) -> Markup:
    """Return what was wanted, in both runs where that differs, and what a model answered."""
    calls = [move.call for move in (one.here, one.there) if move is not None]
    lines = [*dict.fromkeys(calls), *said_lines(one)]
    return Markup("<br>".join(code(line) for line in lines))


def _both(here: Move | None, there: Move | None, name: str, tones: Mapping[str, Tone]) -> Markup:
    """One badge where both say the same, else two with an arrow."""
    said = [getattr(one, name) or "-" for one in (here, there) if one is not None]
    badges = [badge(one, tones.get(one.partition(" ")[0], "quiet")) for one in dict.fromkeys(said)]
    return joined(badges, " \u2192 ")


def _tone(one: Pair) -> Tone:
    if one.here is None or one.there is None:
        return "info"
    return "bad" if Part.DECISION in one.parts or Part.OUTCOME in one.parts else "warn"
