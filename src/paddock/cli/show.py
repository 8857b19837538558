"""`paddock show`: one run, its steps and what they caused, or everything about one step."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.parser import RUN_HELP, CommandParser
from paddock.cli.table import line_width
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.cli.show_data import StepView, Wanted
    from paddock.journal.heads import Head
    from paddock.journal.index import Index
    from paddock.journal.index_rows import RunRow, StepRow
    from paddock.journal.reader import Reader
    from paddock.journal.records import Record

_PAGE = 500
_TAIL_BYTES = 2 << 20
_LARGE_BYTES = 8 << 20
_PIPED_WIDTH = 140
_MAX_SUMMED = 200_000  # records


def main(words: list[str]) -> int:
    from paddock.cli.output import sentences

    options = make_parser().parse_args(words)
    with sentences():
        from paddock.cli.journals import find_journal, indexed

        directory = find_journal(options.run, is_quiet=options.json)
        _say_if_slow(directory)
        with indexed(directory) as (index, run):
            if options.step is not None:
                return _show_step(index, run, options)
            return _show_run(index, run, options)


def make_parser() -> CommandParser:
    from paddock.cli.numbers import count, step
    from paddock.cli.show_data import ONLY
    from paddock.model.action import Kind

    parser = CommandParser(prog="paddock show", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--step", type=step, metavar="K", help="everything about one step")
    parser.add_argument("--blobs", action="store_true", help="with --step: large values in full")
    parser.add_argument(
        "--conversation", action="store_true", help="with --step: all that a model was asked"
    )
    parser.add_argument("--kind", choices=[kind.value for kind in Kind], help="steps of one kind")
    parser.add_argument(
        "--only", choices=list(ONLY), metavar="WHAT", help=f"steps that are {', '.join(ONLY)}"
    )
    parser.add_argument("--after", type=step, metavar="K", help="steps after this one")
    parser.add_argument(
        "--limit", type=count, default=100, metavar="N", help="at most so many steps"
    )
    parser.add_argument("--all", action="store_true", help="all steps, however many")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def _show_run(index: Index, run: RunRow, options: argparse.Namespace) -> int:
    from paddock.cli.show_data import Wanted

    wanted = Wanted(
        after=-1 if options.after is None else options.after,
        limit=None if options.all else options.limit,
        kind=options.kind,
        only=options.only,
    )
    if options.json:
        _write_json(index, run, wanted)
    else:
        _write_text(index, run, wanted)
    return 0


def _write_text(index: Index, run: RunRow, wanted: Wanted) -> None:
    from paddock.cli import show_text
    from paddock.cli.journals import state_of
    from paddock.cli.output import is_coloured, say
    from paddock.journal.reader import Reader

    directory = Path(run.directory)
    opened = Reader(directory).opened().body
    head, state = last_head(directory), state_of(run)
    say("\n".join(show_text.header_lines(run, opened, head, state, line_width())))
    if not run.steps:
        return
    columns, colours = show_text.Columns.for_width(line_width()), is_coloured()
    say(f"\n{show_text.column_line(columns)}")
    last = None
    for view in _views(index, run, wanted):
        say("\n".join(show_text.step_lines(view, run.started_at, columns, is_coloured=colours)))
        last = view.row.step
    following = _following(index, run, wanted, last)
    if following is not None:
        say(f"(there are more: --after {last}, or --all)")
    if "command" in opened:
        _write_ending(run)


def _write_ending(run: RunRow) -> None:
    """What an agent's run came to. A very long journal is not read again for it."""
    from paddock.cli.output import is_coloured, say
    from paddock.cli.run_lines import Manner
    from paddock.cli.run_summary import ending_lines
    from paddock.run.touched import report_with_files

    if run.records > _MAX_SUMMED:
        return
    width = line_width() or _PIPED_WIDTH
    lines = list(ending_lines(report_with_files(Path(run.directory)), Manner(width, is_coloured())))
    if lines:
        say("\n" + "\n".join(lines))


def _write_json(index: Index, run: RunRow, wanted: Wanted) -> None:
    """Written as it is read: a run may have any number of steps."""
    from paddock.cli.runs import run_json
    from paddock.journal.reader import Reader

    directory = Path(run.directory)
    opened, head = Reader(directory).opened().body, last_head(directory)
    about = run_json(run)
    about |= {"opened": opened, "head": None if head is None else head.as_body()}
    sys.stdout.write(f'{{"run": {json.dumps(about)}, "steps": [')
    lead, last = "", None
    for view in _views(index, run, wanted):
        sys.stdout.write(f"{lead}{json.dumps(view.as_json())}")
        lead, last = ",\n", view.row.step
    following = _following(index, run, wanted, last)
    sys.stdout.write(f'], "next": {json.dumps(None if following is None else last)}}}\n')


def _views(index: Index, run: RunRow, wanted: Wanted) -> Iterator[StepView]:
    from paddock.cli.show_data import step_views, wanted_rows

    rows = islice(wanted_rows(index, run, wanted), wanted.limit)
    while page := list(islice(rows, _PAGE)):
        yield from step_views(Path(run.directory), page)


def _following(index: Index, run: RunRow, wanted: Wanted, last: int | None) -> StepRow | None:
    """The first step that was not shown because of the limit."""
    from dataclasses import replace

    from paddock.cli.show_data import wanted_rows

    if wanted.limit is None or last is None:
        return None
    return next(wanted_rows(index, run, replace(wanted, after=last)), None)


def _show_step(index: Index, run: RunRow, options: argparse.Namespace) -> int:
    from paddock.cli.output import say, say_json
    from paddock.cli.show_data import record_json, step_records
    from paddock.cli.show_text import record_lines
    from paddock.journal.reader import Reader

    row = _row(index, run, options.step)
    records = step_records(Path(run.directory), row)
    reader = Reader(Path(run.directory))
    asked = _asked(reader, records, row) if options.conversation else None

    def body(record: Record) -> dict[str, Any]:
        return reader.body(record) if options.blobs else record.body

    if options.json:
        shown = [record_json(one, body(one)) for one in records]
        about = {} if asked is None else {"request": asked}
        say_json({"run": run.run, "step": row.step, "records": shown, **about})
        return 0
    if asked is not None:
        from paddock.cli.conversation_text import conversation_lines

        say("\n".join(conversation_lines(asked)))
        return 0
    lines = (record_lines(one, body(one), run.started_at) for one in records)
    say("\n".join(chain(_gist(reader, records), chain.from_iterable(lines))))
    return 0


def _gist(reader: Reader, records: list[Record]) -> Iterator[str]:
    """What a model or a server was asked and what it answered, in full where it was set aside."""
    from paddock.cli.show_text import gist_lines
    from paddock.cli.step_gist import gist_of
    from paddock.model.errors import PaddockError

    bodies: dict[str, dict[str, Any]] = {}
    for one in records:
        try:
            bodies[one.type.value] = reader.body(one)
        except PaddockError:  # verify says what is wrong with it
            bodies[one.type.value] = one.body
    proposed = bodies.get("proposed", {})
    pieces = gist_of(proposed, bodies.get("settled", {}))
    if pieces:
        yield from gist_lines(pieces, is_model=proposed.get("kind") == "model")
        yield ""


def _asked(reader: Reader, records: list[Record], row: StepRow) -> dict[str, Any]:
    """The whole request to a model, put together from where each part is kept."""
    from paddock.journal.conversations import request_of
    from paddock.model.errors import NotFound

    proposed = next((one for one in records if one.type.value == "proposed"), None)
    arguments = {} if proposed is None else reader.body(proposed).get("arguments", {})
    if "request" not in arguments:
        raise NotFound(
            f"step {row.step} has no conversation",
            hint="only requests to a model have one, if they could be read",
        )
    return request_of(reader, arguments)


def _row(index: Index, run: RunRow, step: int) -> StepRow:
    from paddock.model.errors import NotFound
    from paddock.model.plain import plain

    try:
        return index.step(run.run, step)
    except NotFound:
        has = f"it has {many(run.steps, 'step')}" if run.steps else "it has none"
        raise NotFound(f"run {plain(run.run, 60)} has no step {step}; {has}") from None


def last_head(directory: Path) -> Head | None:
    """The last head, found from the end of the journal: heads are never far apart."""
    from paddock.journal.heads import Head
    from paddock.journal.records import Record
    from paddock.journal.segments import batches, segments
    from paddock.model.errors import PaddockError

    for path in reversed(segments(directory)):
        start = max(os.stat(path).st_size - _TAIL_BYTES, 0)
        lines = [line for batch in batches(path, start) for line in batch.lines]
        for line in reversed(lines):
            if line.endswith(b'"type":"head"}'):
                try:
                    return Head.parse(Record.parse(line).body)
                except PaddockError:  # the first line may be half a line
                    continue
    return None


def _say_if_slow(directory: Path) -> None:
    """A long journal that was never looked at is read once, which a person should know."""
    from paddock.journal.segments import segments
    from paddock.state.home import Home

    size = sum(os.stat(path).st_size for path in segments(directory))
    index = Home.find().root / "index.sqlite"
    is_new = not index.exists() or index.stat().st_mtime < directory.stat().st_mtime
    if size > _LARGE_BYTES and is_new and sys.stderr.isatty():
        print(f"reading {size >> 20} MiB into the index ...", file=sys.stderr)
