"""`paddock export`: a run for other tools. Large values of `jsonl` stay behind as digests."""

from __future__ import annotations

import argparse
from pathlib import Path

from paddock.cli.output import write_pieces
from paddock.cli.parser import CommandParser, command

FORMATS = ("otel", "har", "jsonl", "csv")


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock export", description=__doc__)
    parser.add_run()
    parser.add_argument(
        "--format",
        required=True,
        choices=FORMATS,
        help="otel: OTLP/JSON traces; har: HTTP requests; jsonl: the records as they are, which"
        " paddock verify takes; csv: a row a step",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of the output")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import find_journal
    from paddock.journal.export.formats import Format, export

    directory = find_journal(options.run)
    write_pieces(export(directory, Format(options.format)), options.output)
    return 0
