"""A comparison as lines for a terminal. Agents chose many words: they go through `printable`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict

from paddock.cli.render.cells import cut, fit, labelled, paint
from paddock.cli.render.table import table
from paddock.cli.render.units import took
from paddock.cli.render.world import inner_lines
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.run.compare.comparison import Column, Comparison, broken
from paddock.run.compare.ends import Ends, FileDifference, FilesEnd, ServiceDifference
from paddock.run.compare.fields import FieldDifference, windows
from paddock.run.compare.pairs import Pair, Pairing, StepPart, details
from paddock.run.compare.summary_text import (
    counts_text,
    divergence_text,
    ended_text,
    moved_text,
    parting_text,
    said_lines,
    spent_text,
)
from paddock.run.matching.recorded_step import ABSENT
from paddock.state.tool_config import is_in_repository, repository_path

T = TypeVar("T")
MIN_WIDTH = 60
_MAX_FIELDS = 12
_MAX_DOCUMENTS = 12
_MAX_ROWS = 40  # of steps that differ; --full has all
_LABEL = 10
_COLOURS = {"only in A": "36", "only in B": "36", "decision changed": "31",
            "outcome changed": "31", "proposal changed": "33", "answer changed": "33"}  # fmt: skip


def comparison_lines(
    comparison: Comparison, width: int, is_coloured: bool, *, is_full: bool = False
) -> Iterator[str]:
    """Yield the whole comparison; no line is wider than the screen but those of a table."""
    text = _ComparisonText(max(width, MIN_WIDTH), is_coloured, is_full)
    if len(comparison.columns) == 2:
        return text.of_two(comparison)
    return text.of_many(comparison)


class _ComparisonText:
    """Makes the lines. Of two runs every difference is shown, of many a table of what became of
    each; `is_full` shows all differences of many runs, and all values whole."""

    def __init__(self, width: int, is_coloured: bool, is_full: bool) -> None:
        self.width = width
        self.is_coloured = is_coloured
        self.is_full = is_full

    def of_two(self, comparison: Comparison) -> Iterator[str]:
        [pairing], [end] = comparison.pairings, comparison.ends
        yield from self._facts(comparison)
        yield ""
        yield from self._steps(pairing)
        yield ""
        yield from self._first(pairing)
        yield from self._ends(end)

    def of_many(self, comparison: Comparison) -> Iterator[str]:
        yield from self._table(comparison)
        yield ""
        yield from self._groups(comparison)
        if not self.is_full:
            return
        for pairing, end in zip(comparison.pairings, comparison.ends, strict=True):
            yield from (
                "",
                f"{printable(pairing.here.run, 60)} and {printable(pairing.there.run, 60)}",
            )
            yield from self._steps(pairing)
            yield from self._first(pairing)
            yield from self._ends(end)

    def _bounded(self, values: Sequence[T], most: int) -> Sequence[T]:
        return values if self.is_full else values[:most]

    def _facts(self, comparison: Comparison) -> Iterator[str]:
        """Yield the runs side by side; a fact that neither run has is left out."""
        facts = [_facts_of(column) for column in comparison.columns]
        room = (self.width - _LABEL - 4) // 2
        for name in facts[0]:
            values = [column[name] for column in facts]
            if all(value in ("", "-") for value in values):
                continue
            cells = [cut(printable(value, 400), room) for value in values]
            line = f"{name:<{_LABEL}}{fit(cells[0], room)}  {cells[1]}".rstrip()
            yield self._bold(line) if values[0] != values[1] and name != "run" else line

    def _table(self, comparison: Comparison) -> Iterator[str]:
        header = ("RUN", "DIFFERENT", "ENDED", "STEPS", "COST", "VERDICTS", "BROKEN", "PARTS AT")
        rows = [
            (
                printable(column.trail.run, 40),
                cut(printable(", ".join(column.otherwise) or "-", 200), 40),
                printable(ended_text(column.trail.report), 40),
                column.trail.report.steps,
                _dollars(column),
                cut(printable(counts_text(column.trail.verdicts.counts) or "-", 200), 40),
                sum(map(len, broken(column.trail).values())) or "-",
                "-" if pairing is None else parting_text(pairing),
            )
            for column, pairing in zip(
                comparison.columns, [None, *comparison.pairings], strict=True
            )
        ]
        yield from (cut(line, self.width) for line in table(header, rows).splitlines())

    def _groups(self, comparison: Comparison) -> Iterator[str]:
        groups = comparison.groups
        yield f"{len(groups)} ways it went" if len(groups) > 1 else "all ended the same way"
        for group in groups:
            names = ", ".join(printable(column.trail.run, 40) for column in group)
            end = printable(ended_text(group[0].trail.report), 40)
            first, *rest = textwrap.wrap(names, self.width - 23)
            yield f"  {len(group):>3}  {fit(end, 14)}  {first}"
            yield from (f"{'':<23}{line}" for line in rest)

    def _steps(self, pairing: Pairing) -> Iterator[str]:
        shared = pairing.shared_before
        past = f"one past up to step {shared - 1}; " if shared else ""
        summary = f"{past}{counts_text(pairing.counts)}" or "none"
        yield from labelled(f"{'steps':<{_LABEL}}", summary, self.width)
        wanted = [pair for pair in pairing.pairs if self.is_full or pair.parts]
        shown = self._bounded(wanted, _MAX_ROWS)
        if shown:
            yield f"{'A':>6} {'B':>6}  {'':<16}  CALL"
        for pair in shown:
            yield from self._row(pairing, pair)
        if len(shown) < len(wanted):
            yield f"          {len(wanted) - len(shown)} more differ: --full"

    def _row(self, pairing: Pairing, pair: Pair) -> Iterator[str]:
        numbers = ["" if move is None else str(move.step) for move in (pair.here, pair.there)]
        call = printable(pair.one.call, 300)
        change = _change_text(pair)
        room = self.width - 34 - len(change)
        line = (
            f"{numbers[0]:>6} {numbers[1]:>6}  {pair.what:<16}  {cut(call, max(room, 20))}{change}"
        )
        yield paint(line, _COLOURS.get(pair.what), self.is_coloured)
        yield from (f"{'':<33}{cut(line, self.width - 33)}" for line in said_lines(pair))
        if self.is_full and pair.here and pair.there:
            for part in pair.parts:
                detail = details(pairing.here, pairing.there, pair, part, is_full=True)
                yield from self._fields(detail.fields, 16)

    def _first(self, pairing: Pairing) -> Iterator[str]:
        first = pairing.first
        if first is None:
            yield "parts     nowhere: every step is the same"
            return
        yield self._bold(cut(f"parts     {printable(divergence_text(pairing), 400)}", self.width))
        if first.fields:
            yield from self._fields(first.fields, _LABEL)
            return
        for name, values in (("A", first.here), ("B", first.there)):
            if values is not None:
                for key, value in values.items():
                    yield self._value(f"{'':<{_LABEL}}{name}  {printable(key, 40)}: ", value)

    def _fields(self, fields: tuple[FieldDifference, ...], indent: int) -> Iterator[str]:
        pad = " " * indent
        shown = self._bounded(fields, _MAX_FIELDS)
        for field in shown:
            yield cut(f"{pad}{printable(field.at or '(all of it)', 200)}", self.width)
            here, there = field.here, field.there
            if not self.is_full:
                here, there = windows(here, there, self.width)
            yield self._value(f"{pad}  A  ", here)
            yield self._value(f"{pad}  B  ", there)
        if len(shown) < len(fields):
            yield f"{pad}and {len(fields) - len(shown)} more: --full"

    def _value(self, label: str, value: Any) -> str:
        if value is ABSENT:
            return f"{label}(not there)"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if self.is_full:
            return f"{label}{printable(text, len(text))}"
        return cut(f"{label}{printable(text, 2000)}", 2 * self.width)

    def _ends(self, end: Ends) -> Iterator[str]:
        files = end.files
        if files.is_same is not None:
            count = "some" if files.count is None else files.count
            yield f"files     {'the same' if files.is_same else f'{count} differ'}"
        changed = list(self._files(files))
        shown = self._bounded(changed, _MAX_DOCUMENTS)
        for what, path in shown:
            yield cut(f"          {what:<10} {printable(path, 300)}", self.width)
        if len(shown) < len(changed):
            yield f"          and {len(changed) - len(shown)} more: --full"
        for service in end.world:
            yield from self._service(service)

    def _files(self, files: FilesEnd) -> Iterator[tuple[str, str]]:
        """Yield what became of each file, and its path. Without --full a repository is one."""
        repositories: dict[str, list[FileDifference]] = {}
        for file in files.files:
            if not self.is_full and is_in_repository(file.path):
                repositories.setdefault(repository_path(file.path), []).append(file)
            else:
                yield file.what, file.path
        for path, inner in repositories.items():
            changes = {file.path: file.what for file in inner}
            yield changes.get(path, "changed"), f"{path} ({many(len(inner), 'change')})"

    def _service(self, service: ServiceDifference) -> Iterator[str]:
        name = printable(service.name, 60)
        if service.why is not None:
            yield cut(f"world     {name}: {printable(service.why, 300)}", self.width)
            return
        inner = {} if self.is_full else service.inner
        documents = [document for document in service.documents if document.kind not in inner]
        count = service.count - (len(service.documents) - len(documents))
        texts = [many(count, "document differs", "documents differ")] if count else []
        texts += inner_lines((document.kind for document in service.documents), inner, "otherwise")
        yield f"world     {name}: {'; '.join(texts)}"
        shown = self._bounded(documents, _MAX_DOCUMENTS)
        for document in shown:
            which = f"{printable(document.kind, 40)} {printable(document.id, 60)}"
            line = f"          {document.what:<10} {which}"
            if document.what == "changed":
                line += "  " + ", ".join(printable(field.at, 60) for field in document.fields[:6])
            yield cut(line, self.width)
        if len(shown) < count:
            yield f"          and {count - len(shown)} more"

    def _bold(self, line: str) -> str:
        return paint(line, "1", self.is_coloured)


def _facts_of(column: Column) -> dict[str, str]:
    report = column.trail.report
    return {
        "run": report.run,
        "from": column.origin,
        "different": ", ".join(column.otherwise),
        "agent": f"{report.agent}, stage {report.stage}",
        "ended": ended_text(report),
        "took": took(report.duration_us),
        "steps": str(report.steps),
        "decided": counts_text(report.verdicts),
        "outcomes": counts_text(report.outcomes),
        "asked": counts_text(asdict(report.answers)),
        "drafts": str(report.drafted or ""),
        "alerts": counts_text({alert.name: alert.times for alert in report.alerts}),
        "faults": counts_text(report.faults),
        "verdicts": counts_text(column.trail.verdicts.counts),
        "broken": _sentences(broken(column.trail)),
        "models": spent_text(report.spent),
        "money": moved_text(column.money),
    }


def _sentences(sentences: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{name}: {text}" for name, texts in sentences.items() for text in texts)


def _dollars(column: Column) -> str:
    spent = column.trail.report.spent
    if spent.usd_micros:
        return f"${spent.usd_micros / 1e6:.4f}"
    tokens = spent.input_tokens + spent.output_tokens
    return f"{tokens} tok" if tokens else "-"


def _change_text(pair: Pair) -> str:
    """Return what a decision or an outcome became."""
    if pair.here is None or pair.there is None:
        return printable(f"  {pair.one.verdict or '-'}, {pair.one.result}", 80)
    if StepPart.DECISION in pair.parts:
        return printable(f"  {pair.here.verdict} -> {pair.there.verdict}", 80)
    if StepPart.OUTCOME in pair.parts:
        return printable(f"  {pair.here.result} -> {pair.there.result}", 80)
    return ""
