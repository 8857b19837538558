"""`paddock show`: one run, its steps and what they caused, or everything about one step."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from paddock.cli import arguments
from paddock.cli.journals import find_journal, indexed, state_of
from paddock.cli.output import is_coloured, say, say_json
from paddock.cli.parser import CommandParser, command
from paddock.cli.render.conversation import conversation_lines
from paddock.cli.render.runs import run_json
from paddock.cli.render.step_gist import gist_of
from paddock.cli.render.steps import (
    ONLY,
    StepColumns,
    column_line,
    gist_lines,
    header_lines,
    read_steps,
    record_json,
    record_lines,
    select_rows,
    step_json,
    step_lines,
    stored_body,
)
from paddock.cli.render.table import line_width
from paddock.journal.codec import body_of
from paddock.journal.conversations import request_of
from paddock.journal.index.index import RunIndex
from paddock.journal.index.rows import RunRow, StepRow
from paddock.journal.log import RunLog
from paddock.journal.segments import segments
from paddock.model.action import Kind
from paddock.model.errors import NotFound, PaddockError
from paddock.model.events import Proposed, Record
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.steps import Step
from paddock.state.home import Home

_LARGE_BYTES = 8 << 20
_PIPED_WIDTH = 140
_MAX_SUMMED = 200_000  # records


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock show", description=__doc__)
    parser.add_run()
    parser.add_step("everything about one step")
    parser.add_flag("--blobs", "with --step: large values in full")
    parser.add_flag("--conversation", "with --step: all that a model was asked")
    parser.add_argument("--kind", choices=[kind.value for kind in Kind], help="steps of one kind")
    parser.add_argument(
        "--only", choices=list(ONLY), metavar="WHAT", help=f"steps that are {', '.join(ONLY)}"
    )
    parser.add_argument("--after", type=arguments.step, metavar="K", help="steps after this one")
    parser.add_argument(
        "--limit", type=arguments.count, default=100, metavar="N", help="at most so many steps"
    )
    parser.add_flag("--all", "all steps, however many")
    parser.add_json()
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    directory = find_journal(options.run, is_quiet=options.json)
    _say_if_slow(directory)
    with indexed(directory) as (index, run):
        if options.step is not None:
            _show_step(index, run, options)
        elif options.json:
            _write_json(index, run, options)
        else:
            _write_text(index, run, options)
    return 0


# ---- a run ---------------------------------------------------------------------------------------


def _write_text(index: RunIndex, run: RunRow, options: argparse.Namespace) -> None:
    log, width = RunLog(Path(run.directory)), line_width()
    say("\n".join(header_lines(run, log.opened, log.last_head(), state_of(run), width)))
    if not run.steps:
        return
    columns, colours = StepColumns.for_width(width), is_coloured()
    say(f"\n{column_line(columns)}")
    rows, last = _rows(index, run, options), None
    for shown in read_steps(log.directory, islice(rows, _limit(options))):
        say("\n".join(step_lines(shown, run.started_at, columns, is_coloured=colours)))
        last = shown.row.step
    if next(rows, None) is not None:
        say(f"(there are more: --after {last}, or --all)")
    if log.opened.command:
        _write_ending(run)


def _write_ending(run: RunRow) -> None:
    """Write what an agent's run came to. A very long journal is not read again for it."""
    from paddock.cli.render.run_lines import LineStyle
    from paddock.cli.render.run_summary import ending_lines
    from paddock.run.changes import report_with_files

    if run.records > _MAX_SUMMED:
        return
    width = line_width() or _PIPED_WIDTH
    lines = list(
        ending_lines(report_with_files(Path(run.directory)), LineStyle(width, is_coloured()))
    )
    if lines:
        say("\n" + "\n".join(lines))


def _write_json(index: RunIndex, run: RunRow, options: argparse.Namespace) -> None:
    """Write the run as it is read: it may have any number of steps."""
    log = RunLog(Path(run.directory))
    head = log.last_head()
    about = run_json(run)
    about |= {"opened": stored_body(log.opening), "head": None if head is None else body_of(head)}
    sys.stdout.write(f'{{"run": {json.dumps(about)}, "steps": [')
    rows, lead, last = _rows(index, run, options), "", None
    for shown in read_steps(log.directory, islice(rows, _limit(options))):
        sys.stdout.write(f"{lead}{json.dumps(step_json(shown))}")
        lead, last = ",\n", shown.row.step
    has_more = next(rows, None) is not None
    sys.stdout.write(f'], "next": {json.dumps(last if has_more else None)}}}\n')


def _rows(index: RunIndex, run: RunRow, options: argparse.Namespace) -> Iterator[StepRow]:
    """Return the rows of the steps that are asked for, without regard to the limit."""
    after = -1 if options.after is None else options.after
    return select_rows(index, run, after=after, kind=options.kind, only=options.only)


def _limit(options: argparse.Namespace) -> int | None:
    return None if options.all else options.limit


# ---- a step --------------------------------------------------------------------------------------


def _show_step(index: RunIndex, run: RunRow, options: argparse.Namespace) -> None:
    row = _row(index, run, options.step)
    log = RunLog(Path(run.directory))
    step = log.step_from(row.step, row.spot)
    request = _request(log, step) if options.conversation else None

    def body(record: Record) -> dict[str, Any]:
        return stored_body(log.whole(record) if options.blobs else record)

    if options.json:
        records = [record_json(record, body(record)) for record in step.records]
        about = {} if request is None else {"request": request}
        say_json({"run": run.run, "step": row.step, "records": records, **about})
    elif request is not None:
        say("\n".join(conversation_lines(request)))
    else:
        lines = (record_lines(record, body(record), run.started_at) for record in step.records)
        say("\n".join(chain(_gist(log, step), chain.from_iterable(lines))))


def _gist(log: RunLog, step: Step) -> Iterator[str]:
    """Yield what a model or a server was asked and what it answered, in full where that was stored
    as a blob."""
    records = [_whole_or_preview(log, record) for record in step.records]
    pieces = gist_of(Step(step.number, records))
    if pieces:
        yield from gist_lines(pieces, is_model=step.kind is Kind.MODEL)
        yield ""


def _whole_or_preview(log: RunLog, record: Record) -> Record:
    try:
        return log.whole(record)
    except PaddockError:  # verify says what is wrong with it
        return record


def _request(log: RunLog, step: Step) -> dict[str, Any]:
    """Return the whole request to a model, put together from where each part is stored. Raises
    NotFound."""
    proposed = step.record(Proposed)
    records = [] if proposed is None else [log.whole(proposed)]
    arguments = Step(step.number, records).arguments
    if "request" not in arguments:
        raise NotFound(
            f"step {step.number} has no conversation",
            hint="only requests to a model have one, if they could be read",
        )
    return request_of(log, arguments)


def _row(index: RunIndex, run: RunRow, step: int) -> StepRow:
    try:
        return index.step(run.run, step)
    except NotFound:
        has = f"it has {many(run.steps, 'step')}" if run.steps else "it has none"
        raise NotFound(f"run {printable(run.run, 60)} has no step {step}; {has}") from None


def _say_if_slow(directory: Path) -> None:
    """Tell a person that a long journal is read, which happens when it is first looked at."""
    size = sum(os.stat(path).st_size for path in segments(directory))
    index = Home.find().root / "index.sqlite"
    is_new = not index.exists() or index.stat().st_mtime < directory.stat().st_mtime
    if size > _LARGE_BYTES and is_new and sys.stderr.isatty():
        print(f"reading {size >> 20} MiB into the index ...", file=sys.stderr)
