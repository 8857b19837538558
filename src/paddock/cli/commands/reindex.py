"""`paddock reindex`: builds the index of runs anew from their journals."""

from __future__ import annotations

import argparse

from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import say, say_json, warn
from paddock.cli.parser import CommandParser, command
from paddock.model.plural import many


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock reindex", description=__doc__)
    parser.add_json()
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import MAX_RUNS, open_index
    from paddock.state.home import Home

    home = Home.find()
    with open_index(home) as index:
        troubles = index.rebuild(home.runs)
        runs = index.runs(limit=MAX_RUNS)
    steps = sum(run.steps for run in runs)
    if options.json:
        say_json({"runs": len(runs), "steps": steps, "troubles": troubles})
    else:
        for trouble in troubles:
            warn(trouble)
        say(f"{many(len(runs), 'run')}, {many(steps, 'step')}")
    return ExitCode.FAILED if troubles else 0
