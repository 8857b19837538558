"""`paddock net`: what a run sent through the network door, as a table, and the alerts about it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.parser import CommandParser, command
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from paddock.cli.render.network import NetworkFilter


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock net", description=__doc__)
    parser.add_run()
    parser.add_flag("--blocked", "what was refused, with the reasons")
    parser.add_argument("--host", metavar="H", help="of one host, or *.example.com")
    parser.add_argument("--kind", metavar="KINDS", help="http, connect, dns, model; several with ,")
    parser.add_json("one JSON object a line")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import find_journal
    from paddock.cli.render.network import NetworkScan, write_json, write_text
    from paddock.journal.log import RunLog

    wanted = _filter_from(options)
    log = RunLog(find_journal(options.run, is_quiet=options.json))
    if options.json:
        write_json(NetworkScan(log, wanted))
    else:
        write_text(NetworkScan(log, wanted), log.opening.at, with_why=options.blocked)
    return 0


def _filter_from(options: argparse.Namespace) -> NetworkFilter:
    from paddock.cli.render.network import NetworkFilter
    from paddock.journal.traffic import KINDS
    from paddock.model.action import Kind
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
    return NetworkFilter(frozenset(map(Kind, kinds)), host, options.blocked)
