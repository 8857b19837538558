"""`paddock net`: what a run sent through the network door, as a table, and the alerts about it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from paddock.cli.parser import RUN_HELP, CommandParser
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.cli.net_data import Scan, Wanted
    from paddock.journal.reader import Reader

_PAGE = 500  # the columns are as wide as the first of them need
_PIPED_WIDTH = 200


def main(words: list[str]) -> int:
    from paddock.cli.output import sentences

    options = make_parser().parse_args(words)
    with sentences():
        from paddock.cli.journals import find_journal
        from paddock.cli.net_data import Scan
        from paddock.journal.reader import Reader

        wanted = _wanted(options)
        reader = Reader(find_journal(options.run, is_quiet=options.json))
        scan = Scan(reader, wanted)
        if options.json:
            _write_json(scan)
        else:
            _write_text(scan, reader, with_why=options.blocked)
    return 0


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock net", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--blocked", action="store_true", help="what was refused, with the reasons")
    parser.add_argument("--host", metavar="H", help="of one host, or *.example.com")
    parser.add_argument("--kind", metavar="KINDS", help="http, connect, dns, model; several with ,")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def _wanted(options: argparse.Namespace) -> Wanted:
    from paddock.cli.net_data import Wanted
    from paddock.journal.traffic import KINDS
    from paddock.model.errors import InvalidInput
    from paddock.model.hosts import HostPattern

    given = ",".join(KINDS) if options.kind is None else options.kind
    kinds = [one.strip() for one in given.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInput(f"--kind: {kind[:40]!r} is not one of {', '.join(KINDS)}")
    try:
        host = None if options.host is None else HostPattern.parse(options.host)
    except InvalidInput as error:
        raise InvalidInput(f"--host: {error.message}", hint=error.hint) from None
    return Wanted(frozenset(kinds), host, options.blocked)


def _write_json(scan: Scan) -> None:
    from paddock.cli.net_data import traffic_json

    for one in scan:
        sys.stdout.write(json.dumps(traffic_json(one)) + "\n")
    for step, again in scan.repeats.items():
        sys.stdout.write(json.dumps({**again.as_body(), "step": step}) + "\n")
    for group in scan.alerts.values():
        sys.stdout.write(json.dumps(group.as_json()) + "\n")


def _write_text(scan: Scan, reader: Reader, *, with_why: bool) -> None:
    from paddock.cli.cells import labelled
    from paddock.cli.net_data import pages
    from paddock.cli.net_text import Columns, Totals, alert_lines, row_of
    from paddock.cli.output import is_coloured, say
    from paddock.cli.table import line_width
    from paddock.cli.times import took

    start_us, totals, columns = reader.opened().at, Totals(), None
    for page in pages(scan, _PAGE):
        rows = [row_of(one, start_us, with_why=with_why) for one in page]
        if columns is None:
            width = line_width() or _PIPED_WIDTH
            columns = Columns.for_rows(rows, width, is_coloured=is_coloured())
            say(columns.header())
        say("\n".join(line for row in rows for line in columns.lines(row)))
        for one in page:
            totals.add(one)
    if scan.count:
        say("\n".join(["", *labelled("", str(totals), line_width())]))
    else:
        say("nothing of the kind went through the network door")
    for step, again in scan.repeats.items():
        span = took(again.last_at - again.first_at)
        say(f"step {step} was refused {many(again.count, 'more time')} in {span}")
    for line in alert_lines(list(scan.alerts.values()), start_us):
        say(line)
