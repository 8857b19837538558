"""`paddock prove`: a proof that a step is in a signed journal; `paddock verify` checks it alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from paddock.cli.arguments import step
from paddock.cli.output import write_pieces
from paddock.cli.parser import CommandParser, command


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock prove", description=__doc__)
    parser.add_run()
    parser.add_argument("--step", type=step, required=True, metavar="K", help="the step")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of the output")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import find_journal
    from paddock.journal.integrity.proof import prove

    proof = prove(find_journal(options.run, may_be_file=True), options.step)
    write_pieces([json.dumps(proof, indent=1), "\n"], options.output)
    return 0
