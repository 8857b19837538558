"""`paddock prove`: a proof that a step is in a signed journal; `paddock verify` checks it alone."""

from __future__ import annotations

import json
from pathlib import Path

from paddock.cli.parser import RUN_HELP, CommandParser


def main(words: list[str]) -> int:
    from paddock.cli.output import sentences, write_pieces

    options = make_parser().parse_args(words)
    with sentences():
        from paddock.cli.journals import find_journal
        from paddock.journal.integrity.proof import prove

        proof = prove(find_journal(options.run, may_be_file=True), options.step)
        write_pieces([json.dumps(proof, indent=1), "\n"], options.output)
    return 0


def make_parser() -> CommandParser:
    from paddock.cli.render.numbers import step

    parser = CommandParser(prog="paddock prove", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--step", type=step, required=True, metavar="K", help="the step")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of the output")
    return parser
