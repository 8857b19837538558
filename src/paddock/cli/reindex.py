"""`paddock reindex`: builds the index of runs anew from their journals."""

from __future__ import annotations

import argparse

EXIT_FAILED = 1


def main(words: list[str]) -> int:
    from paddock.cli.journals import MAX_RUNS, open_index
    from paddock.cli.output import say, say_json, sentences, warn
    from paddock.state.home import Home

    parser = argparse.ArgumentParser(prog="paddock reindex", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(words)
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
        say(f"{len(runs)} runs, {steps} steps")
    return EXIT_FAILED if troubles else 0
