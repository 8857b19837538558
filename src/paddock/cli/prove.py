"""`paddock prove`: a proof that a step is in a signed journal; `paddock verify` checks it alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main(words: list[str]) -> int:
    from paddock.cli.journals import RUN_HELP, find_journal
    from paddock.cli.numbers import step
    from paddock.cli.output import sentences, write_pieces

    parser = argparse.ArgumentParser(prog="paddock prove", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--step", type=step, required=True, metavar="K", help="the step")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of the output")
    options = parser.parse_args(words)
    with sentences():
        from paddock.journal.prove import prove

        proof = prove(find_journal(options.run, may_be_file=True), options.step)
        write_pieces([json.dumps(proof, indent=1), "\n"], options.output)
    return 0
