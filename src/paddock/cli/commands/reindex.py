"""`paddock reindex`: builds the index of runs anew from their journals."""

from __future__ import annotations

from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import say, say_json, sentences, warn
from paddock.cli.parser import CommandParser
from paddock.model.plural import many


def main(arguments: list[str]) -> int:
    from paddock.cli.journals import MAX_RUNS, open_index
    from paddock.state.home import Home

    options = make_parser().parse_args(arguments)
    home = Home.find()
    with sentences(), open_index(home) as index:
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


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock reindex", description=__doc__)
    parser.add_json()
    return parser
