"""A run, its steps and its records as lines for people. An agent chose many of the words: each goes
through `plain`, stands on one line, and has a bounded length.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from paddock.cli.call_text import call_text
from paddock.cli.cells import cells, cut, fit, labelled
from paddock.cli.output import counts
from paddock.cli.runs import OUTCOMES, duration_us
from paddock.cli.show_data import Program, StepView
from paddock.cli.step_gist import in_order
from paddock.cli.times import clock, offset, took
from paddock.journal.calls import detail_lines
from paddock.journal.heads import Head
from paddock.journal.index_rows import RunRow
from paddock.journal.records import Record
from paddock.model.action import Verdict
from paddock.model.plain import plain
from paddock.model.plural import many
from paddock.model.values import dataclass

_MAX_PROGRAMS = 12
_MAX_ALERTS = 5
_MAX_GIST = 60  # lines
_LAID_OUT = ("arguments", "result")
_MAX_LINES = 200  # of one value of a record
_MAX_VALUE = 20_000
_HASH = 16  # characters of a digest that a person compares
_COLOURS = {"block": "31", "ask": "33", "simulate": "36", "fault": "35"}
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


@dataclass(frozen=True, slots=True)
class Columns:
    """How the line of a step is laid out. In a pipe, where there is no width, no call is cut."""

    form: str
    call: int  # columns of a call
    width: int | None

    @classmethod
    def for_width(cls, width: int | None) -> Columns:
        if width is None:
            return cls(_FORMS[0][0], _PIPED_CALL, None)
        enough = (one for one in _FORMS if width - one[1] >= _LEAST_CALL)
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
    run: RunRow,
    opened: Mapping[str, Any],
    head: Head | None,
    state: str,
    width: int | None = None,
) -> list[str]:
    """What the run was, where, under which terms, and what is signed of it."""
    policy = run.policy_digest
    facts = [
        ("run", f"{_name(run.run)} ({state})"),
        ("agent", f"{_name(run.agent)}, stage {_name(run.stage)}"),
        ("started", f"{clock(run.started_at)}, took {took(duration_us(run))}"),
        ("policy", _digest(policy)),
        ("host", _host(opened)),
        ("template", plain(opened.get("template", "-"), 200)),
        ("enforced", _enforced(opened.get("enforcement"))),
        ("key", _digest(opened.get("key_id"))),
        ("head", _head(run, head)),
        ("decided", counts(_named(run.verdicts), [v.value for v in Verdict]) or "-"),
        ("outcomes", counts(_named(run.outcomes), OUTCOMES) or "-"),
    ]
    return [line for label, text in facts for line in labelled(f"{label:<10}", text, width)]


def column_line(columns: Columns) -> str:
    return columns.line(
        "CALL", step="STEP", at="TIME", kind="KIND", verdict="VERDICT", by="BY",
        out="OUTCOME", took="TOOK",
    )  # fmt: skip


def step_lines(
    view: StepView, start_us: int, columns: Columns, *, is_coloured: bool
) -> Iterator[str]:
    """One line for the step, and one for each thing that a model answered, the money that a request
    moves, each program that the step caused and each alert about it."""
    row = view.row
    parent = view.proposed.get("parent")
    call = call_text(row.kind, row.name, view.proposed)
    if isinstance(parent, int):
        call = f"(from {parent}) {call}"
    line = columns.line(
        call,
        step=row.step,
        at=offset(row.at, start_us),
        kind=cut(plain(row.kind or "-", 20), 7),
        verdict=cut(plain(row.verdict or "-", 20), 8),
        by=cut(plain(row.rule or "-", 60), 22),
        out=cut(plain(row.outcome or "-", 20), 9),
        took=took(view.duration_us),
    )
    colour = _COLOURS.get(row.verdict or "") if is_coloured else None
    yield f"\033[{colour}m{line}\033[0m" if colour else line
    for said in detail_lines(view.proposed, view.result):
        yield columns.detail(">", said)
    for program in view.programs[:_MAX_PROGRAMS]:
        yield columns.detail(".", *program_text(program))
    more = len(view.programs) - _MAX_PROGRAMS
    if more > 0:
        count = "more programs" if view.is_cut else many(more, "more program")
        yield columns.detail(".", f"({count}: --step {row.step})")
    for alert in view.alerts[:_MAX_ALERTS]:
        yield columns.detail("!", _alert(alert))


def record_lines(record: Record, body: Mapping[str, Any], start_us: int) -> Iterator[str]:
    """A whole record; what is long is cut, and said to be."""
    yield f"record {record.n}  {offset(record.at, start_us)}  {record.type.value}"
    for key, value in body.items():
        if isinstance(value, Mapping) and value and key in _LAID_OUT:
            yield f"  {plain(key, 40)}"
            for name, inner in in_order(value).items():
                yield from _field(f"  {plain(name, 40)}", inner)
        else:
            yield from _field(plain(key, 40), value)
    for blob in record.blobs:
        left = "" if blob.is_kept else f", not kept: sha256 {plain(blob.sha256, 64)}"
        yield f"  (a preview stands for {blob.size_bytes} bytes at {plain(blob.path, 200)}{left})"


def gist_lines(pieces: Iterable[tuple[str, str]], *, is_model: bool) -> Iterator[str]:
    """What was asked and what came back, before the records."""
    for what, text in pieces:
        lines = text[:_MAX_VALUE].split("\n")
        yield plain(what, 100)
        yield from (f"    | {plain(line, _MAX_VALUE)}" for line in lines[:_MAX_GIST])
        if len(lines) > _MAX_GIST or len(text) > _MAX_VALUE:
            yield f"    (it has {many(len(lines), 'line')}, {len(text)} characters: --json)"
    if is_model:
        yield "(--conversation has all that the model was asked)"


def _field(key: str, value: Any) -> Iterator[str]:
    """A text of several lines stands behind a bar, so that it cannot pass for a line of ours."""
    if not isinstance(value, str) or "\n" not in value:
        yield f"  {key:<14} {plain(value if isinstance(value, str) else _json(value), _MAX_VALUE)}"
        return
    lines = value[:_MAX_VALUE].split("\n")
    yield f"  {key}"
    for line in lines[:_MAX_LINES]:
        yield f"    | {plain(line, _MAX_VALUE)}"
    if len(lines) > _MAX_LINES or len(value) > _MAX_VALUE:
        yield f"    (it has {len(value)} characters: --json)"


def program_text(program: Program) -> tuple[str, str]:
    """Return the file that was executed with its words, and how it ended. What it was told it is
    called stands there only where that is another name."""
    path = str(program.body.get("program", "?"))
    argv = program.body.get("argv")
    first, *rest = map(str, argv) if isinstance(argv, list) and argv else ("",)
    is_usual = first in ("", path, path.rpartition("/")[2])
    called = "" if is_usual else f"(as {shlex.quote(first)}) "
    text = plain(f"{path} {called}{shlex.join(rest)}".rstrip(), 400)
    if not program.has_ended:
        return text, ""
    code = "" if program.exit_code in (0, None) else f", exit {plain(program.exit_code, 20)}"
    return text, f"  ({took(program.duration_us)}{code})"


def _alert(body: Mapping[str, Any]) -> str:
    about = ", ".join(f"{key} {body[key]}" for key in body if key not in ("alert", "times"))
    return plain(f"{body.get('alert')}: {about}", 400)


def _named(found: Mapping[str, int]) -> dict[str, int]:
    return {plain(name, 40): number for name, number in found.items()}


def _name(text: str | None) -> str:
    return plain(text or "-", 60)


def _digest(value: Any) -> str:
    return plain(value, _HASH).partition(" (...")[0] if isinstance(value, str) else "-"


def _host(opened: Mapping[str, Any]) -> str:
    host = opened.get("host")
    facts = host if isinstance(host, Mapping) else {}
    words = [facts.get(key) for key in ("name", "system", "kernel", "machine")]
    text = " ".join(str(word) for word in words if word)
    return plain(f"{text}, python {facts.get('python')}, paddock {opened.get('paddock')}", 300)


def _enforced(enforcement: Any) -> str:
    if not isinstance(enforcement, Mapping) or not enforcement:
        return "-"
    return plain("; ".join(f"{name}: {by}" for name, by in enforcement.items()), 2000)


def _head(run: RunRow, head: Head | None) -> str:
    if head is None:
        return "none is signed"
    signed = f"{head.size} of {many(run.records, 'record')} signed, root {head.root[:_HASH]}"
    return f"{signed}; not checked here: paddock verify {_name(run.run)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
