"""The steps of a run as values (pages from the index, completed from the journal) and as lines for
people. An agent chose many words: each goes through `printable`, stands on one line, and has a
bounded length.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from paddock.cli.output import counts, pick
from paddock.cli.render.calls import step_call_text
from paddock.cli.render.cells import VERDICT_COLOURS, cells, cut, fit, labelled, paint
from paddock.cli.render.conversation import MAX_TEXT, barred, text_lines
from paddock.cli.render.run_lines import OUTCOMES, alert_text
from paddock.cli.render.runs import duration_us
from paddock.cli.render.step_gist import in_order
from paddock.cli.render.units import clock, offset, took
from paddock.journal.calls import detail_lines
from paddock.journal.codec import body_of
from paddock.journal.index.index import RunIndex
from paddock.journal.index.rows import RunRow, StepRow
from paddock.journal.log import MAX_PAGE_RECORDS, RunLog
from paddock.journal.plain_values import as_json
from paddock.model.action import Verdict
from paddock.model.events import Head, Opened, Proposed, Record
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.steps import Program, Step

_MAX_PROGRAMS = 12
_MAX_ALERTS = 5
_MAX_GIST = 60  # lines
_LAID_OUT = ("arguments", "result")
_HASH = 16  # characters of a digest that a person compares
_DETAIL = 21  # columns before what is told below a step
_PIPED_CALL = 60  # columns that a call has at least in a pipe
_LEAST_CALL = 24
# The forms of a line, and how many of its columns are not the call: the widest that leaves a call
# enough is taken.
_FORMS = (
    ("{step:>6}  {at:>9}  {kind:<7}  {call}  {verdict:<8}  {by:<22}  {out:<9}  {took}", 82),
    ("{step:>6}  {kind:<7}  {call}  {verdict:<8}  {out:<9}  {took}", 48),
    ("{step:>6}  {call}  {verdict:<8}", 18),
)
# Of --only: a word, and what it says about a step.
ONLY = {
    "allowed": ("verdict", "allow"),
    "blocked": ("verdict", "block"),
    "asked": ("verdict", "ask"),
    "done": ("outcome", "done"),
    "failed": ("outcome", "failed"),
    "refused": ("outcome", "refused"),
    "drafted": ("outcome", "drafted"),
    "simulated": ("outcome", "simulated"),
    "faulted": ("outcome", "faulted"),
    "unsettled": ("outcome", None),
}
_INDEX_PAGE = 2000  # rows
_JOURNAL_PAGE = 500  # steps


# ---- values --------------------------------------------------------------------------------------


class IndexedStep(NamedTuple):
    """A step of a page with its row of the index, which knows its end, however late that came."""

    row: StepRow
    step: Step

    @property
    def duration_us(self) -> int | None:
        return self.row.duration_us if self.step.settled is None else self.step.duration_us


def select_rows(
    index: RunIndex,
    run: RunRow,
    *,
    after: int = -1,
    kind: str | None = None,
    only: str | None = None,
) -> Iterator[StepRow]:
    """Yield the rows of the steps after one that are of this kind and what `only` says of them."""
    column, value = ONLY[only] if only else ("", None)
    verdict = value if column == "verdict" else None
    while page := index.steps(run.run, after=after, limit=_INDEX_PAGE, verdict=verdict):
        for row in page:
            is_kind = kind is None or row.kind == kind
            if is_kind and (column != "outcome" or row.outcome == value):
                yield row
        after = page[-1].step


def read_steps(directory: Path, rows: Iterator[StepRow]) -> Iterator[IndexedStep]:
    """Yield these steps with what the journal has on them near their beginning."""
    while page := list(islice(rows, _JOURNAL_PAGE)):
        steps = RunLog(directory).page({row.step: row.spot for row in page})
        yield from map(IndexedStep, page, steps)


def step_json(shown: IndexedStep) -> dict[str, Any]:
    """Return a step for programs. Large values are previews."""
    row, step = shown
    proposed = step.record(Proposed)
    return {
        "step": row.step,
        "parent": step.parent,
        **pick(row, "at", "kind", "name"),
        "arguments": None if proposed is None else stored_body(proposed)["arguments"],
        **pick(row, "effect", "verdict"),
        "decided_by": row.rule,
        "outcome": row.outcome,
        "duration_us": shown.duration_us,
        "programs": [_program_json(program) for program in step.programs],
        "alerts": [
            {**alert.about, "alert": alert.alert, "times": alert.times} for alert in step.alerts
        ],
        "answer": step.result.get("answer"),
    }


def stored_body(record: Record) -> dict[str, Any]:
    """Return the body of a record as the journal has it, with previews in place of large values."""
    return body_of(record.event) if record.encoded is None else record.encoded.body


def record_json(record: Record, body: dict[str, Any]) -> dict[str, Any]:
    """Return a record for programs, with the body that is to be shown."""
    return {
        "n": record.n,
        "at": record.at,
        "type": record.type,
        "body": body,
        "blobs": [as_json(blob) for blob in record.blobs],
    }


def _program_json(program: Program) -> dict[str, Any]:
    started, ended = program.started, program.ended
    return {
        **pick(started, "pid", "parent", "program", "argv", "cwd"),
        "exit_code": None if ended is None else ended.exit_code,
        "duration_us": None if ended is None else ended.duration_us,
    }


# ---- lines ---------------------------------------------------------------------------------------


class StepColumns(msgspec.Struct, frozen=True):
    """The layout of the line of a step. In a pipe, where there is no width, no call is cut."""

    form: str
    call: int  # columns of a call
    width: int | None

    @classmethod
    def for_width(cls, width: int | None) -> StepColumns:
        if width is None:
            return cls(_FORMS[0][0], _PIPED_CALL, None)
        enough = (form for form in _FORMS if width - form[1] >= _LEAST_CALL)
        form, beside = next(enough, _FORMS[-1])
        return cls(form, max(width - beside, 1), width)

    def line(self, call: str, **others: object) -> str:
        room = max(self.call, cells(call)) if self.width is None else self.call
        return self.form.format(call=fit(call, room), **others).rstrip()

    def detail(self, sign: str, text: str, end: str = "") -> str:
        """Return a line below a step; the text is cut where it is too wide, its end is not."""
        if self.width is not None:
            text = cut(text, self.width - _DETAIL - cells(end))
        return f"{sign:>{_DETAIL - 1}} {text}{end}"


def header_lines(
    run: RunRow, opened: Opened, head: Head | None, state: str, width: int | None
) -> list[str]:
    """Return what the run was, where, under which terms, and what is signed of it."""
    facts = [
        ("run", f"{_name(run.run)} ({state})"),
        ("agent", f"{_name(run.agent)}, stage {_name(run.stage)}"),
        ("started", f"{clock(run.started_at)}, took {took(duration_us(run))}"),
        ("policy", _digest(run.policy_digest)),
        ("host", _host_text(opened)),
        ("template", printable(opened.template or "-", 200)),
        ("enforced", _enforcement_text(opened.enforcement)),
        ("key", _digest(opened.key_id)),
        ("head", _head_text(run, head)),
        ("decided", counts(run.verdicts, Verdict) or "-"),
        ("outcomes", counts(run.outcomes, OUTCOMES) or "-"),
    ]
    return [line for label, text in facts for line in labelled(f"{label:<10}", text, width)]


def column_line(columns: StepColumns) -> str:
    return columns.line(
        "CALL", step="STEP", at="TIME", kind="KIND", verdict="VERDICT", by="BY",
        out="OUTCOME", took="TOOK",
    )  # fmt: skip


def step_lines(
    shown: IndexedStep, start_us: int, columns: StepColumns, *, is_coloured: bool
) -> Iterator[str]:
    """Yield one line for the step, and one for each thing that a model answered, the money that a
    request moves, each program that the step caused and each alert about it."""
    row, step = shown
    call = step_call_text(step)
    if step.parent is not None:
        call = f"(from {step.parent}) {call}"
    line = columns.line(
        call,
        step=row.step,
        at=offset(row.at, start_us),
        kind=cut(printable(row.kind or "-", 20), 7),
        verdict=cut(printable(row.verdict or "-", 20), 8),
        by=cut(printable(row.rule or "-", 60), 22),
        out=cut(printable(row.outcome or "-", 20), 9),
        took=took(shown.duration_us),
    )
    yield paint(line, VERDICT_COLOURS.get(row.verdict or ""), is_coloured)
    for detail in detail_lines(step):
        yield columns.detail(">", detail)
    programs = step.programs
    for program in programs[:_MAX_PROGRAMS]:
        yield columns.detail(".", *program_text(program))
    more = len(programs) - _MAX_PROGRAMS
    if more > 0:
        is_cut = len(step.records) >= MAX_PAGE_RECORDS
        count = "more programs" if is_cut else many(more, "more program")
        yield columns.detail(".", f"({count}: --step {row.step})")
    for alert in step.alerts[:_MAX_ALERTS]:
        yield columns.detail("!", alert_text(alert.alert, alert.about))


def record_lines(record: Record, body: Mapping[str, Any], start_us: int) -> Iterator[str]:
    """Yield a whole record; what is long is cut, and said to be."""
    yield f"record {record.n}  {offset(record.at, start_us)}  {printable(record.type, 40)}"
    for key, value in body.items():
        if isinstance(value, Mapping) and value and key in _LAID_OUT:
            yield f"  {printable(key, 40)}"
            for name, inner in in_order(value).items():
                yield from _field(f"  {printable(name, 40)}", inner)
        else:
            yield from _field(printable(key, 40), value)
    for blob in record.blobs:
        left = "" if blob.is_kept else f", not kept: sha256 {printable(blob.sha256, 64)}"
        path = printable(blob.path, 200)
        yield f"  (a preview stands for {blob.size_bytes} bytes at {path}{left})"


def gist_lines(pieces: Iterable[tuple[str, str]], *, is_model: bool) -> Iterator[str]:
    """Yield what was asked and what came back, for before the records."""
    for what, text in pieces:
        lines = text[:MAX_TEXT].split("\n")
        yield printable(what, 100)
        yield from barred(lines[:_MAX_GIST])
        if len(lines) > _MAX_GIST or len(text) > MAX_TEXT:
            yield f"    (it has {many(len(lines), 'line')}, {len(text)} characters: --json)"
    if is_model:
        yield "(--conversation has all that the model was asked)"


def _field(key: str, value: Any) -> Iterator[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and "\n" in value:
        yield f"  {key}"
        yield from text_lines(text)
    else:
        yield f"  {key:<14} {printable(text, MAX_TEXT)}"


def program_text(program: Program) -> tuple[str, str]:
    """Return the file that was executed with its arguments, and how it ended. The name that it was
    called by stands there only where that is another one."""
    started, ended = program.started, program.ended
    called_as, *arguments = started.argv or [""]
    is_usual = called_as in ("", started.program, started.program.rpartition("/")[2])
    called = "" if is_usual else f"(as {shlex.quote(called_as)}) "
    text = printable(f"{started.program} {called}{shlex.join(arguments)}".rstrip(), 400)
    if ended is None:
        return text, ""
    code = f", exit {ended.exit_code}" if ended.exit_code else ""
    return text, f"  ({took(ended.duration_us)}{code})"


def _name(text: str | None) -> str:
    return printable(text or "-", 60)


def _digest(text: str | None) -> str:
    return printable(text, _HASH).partition(" (...")[0] if text else "-"


def _host_text(opened: Opened) -> str:
    host = opened.host
    facts = [host.get(key) for key in ("name", "system", "kernel", "machine")]
    text = " ".join(str(fact) for fact in facts if fact)
    return printable(f"{text}, python {host.get('python')}, paddock {opened.paddock}", 300)


def _enforcement_text(enforcement: Mapping[str, str]) -> str:
    texts = [f"{boundary}: {mechanism}" for boundary, mechanism in enforcement.items()]
    return printable("; ".join(texts), 2000) if texts else "-"


def _head_text(run: RunRow, head: Head | None) -> str:
    if head is None:
        return "none is signed"
    signed = f"{head.size} of {many(run.records, 'record')} signed, root {_digest(head.root)}"
    return f"{signed}; not checked here: paddock verify {_name(run.run)}"
