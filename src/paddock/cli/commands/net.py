"""`paddock net`: what a run sent through the network door, as a table, and the alerts about it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.parser import RUN_HELP, CommandParser

if TYPE_CHECKING:
    from paddock.cli.render.network_data import Wanted


def main(words: list[str]) -> int:
    from paddock.cli.output import sentences

    options = make_parser().parse_args(words)
    with sentences():
        from paddock.cli.journals import find_journal
        from paddock.cli.render.network import write_json, write_text
        from paddock.cli.render.network_data import Scan
        from paddock.journal.log import RunLog

        wanted = _wanted(options)
        log = RunLog(find_journal(options.run, is_quiet=options.json))
        if options.json:
            write_json(Scan(log, wanted))
        else:
            write_text(Scan(log, wanted), log.opening.at, with_why=options.blocked)
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
    from paddock.cli.render.network_data import Wanted
    from paddock.journal.traffic import KINDS
    from paddock.model.action import Kind
    from paddock.model.errors import InvalidInput
    from paddock.model.hosts import HostPattern

    names = ",".join(KINDS) if options.kind is None else options.kind
    kinds = [name.strip() for name in names.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInput(f"--kind: {kind[:40]!r} is not one of {', '.join(KINDS)}")
    try:
        host = None if options.host is None else HostPattern.parse(options.host)
    except InvalidInput as error:
        raise InvalidInput(f"--host: {error.message}", hint=error.hint) from None
    return Wanted(frozenset(map(Kind, kinds)), host, options.blocked)
