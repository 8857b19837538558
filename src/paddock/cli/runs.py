"""`paddock runs`: the runs of this user, the newest first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from paddock.cli.parser import RUN_HELP, CommandParser
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.journal.index.index import RunIndex
    from paddock.journal.index.rows import RunRow

OUTCOMES = ("done", "failed", "refused", "drafted", "simulated", "faulted")
REPLAY = "replay"
LISTED = 20  # runs, if nobody asks for more


def main(words: list[str]) -> int:
    from paddock.cli.journals import all_indexed
    from paddock.cli.output import sentences, warn
    from paddock.state.home import Home

    options = make_parser().parse_args(words)
    if options.action == "remove":
        from paddock.cli.runs_remove import remove

        with sentences():
            return remove(options)
    with sentences(), all_indexed(Home.find()) as (index, troubles):
        for trouble in troubles:
            warn(trouble)
        _say(index, options)
    return 0


def _say(index: RunIndex, options: argparse.Namespace) -> None:
    from paddock.cli.output import say, say_json

    runs = _chosen(index, options)
    if options.tree:
        from paddock.cli.runs_tree import branch_json, branches, tree_table

        tree = branches(runs, index)
        if options.json:
            say_json([branch_json(one) for one in tree])
        elif tree:
            say(tree_table(tree))
    elif options.json:
        say_json([run_json(run) for run in runs])
    elif runs:
        from paddock.cli.runs_text import run_table
        from paddock.cli.table import line_width

        say(run_table(runs, line_width()))


def run_json(run: RunRow) -> dict[str, Any]:
    """One run for programs. Times are microseconds since 1970."""
    from paddock.cli.journals import state_of

    return {
        "run": run.run,
        "directory": run.directory,
        "agent": run.agent,
        "stage": run.stage,
        "policy_digest": run.policy_digest,
        "kind": run.kind,
        "project": run.project,
        "parent": run.parent,
        "forked_at": run.forked_at,
        "state": state_of(run),
        "exit_code": run.exit_code,
        "command": run.terms.get("command"),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "duration_us": duration_us(run),
        "records": run.records,
        "steps": run.steps,
        "verdicts": run.verdicts,
        "outcomes": run.outcomes,
    }


def duration_us(run: RunRow) -> int:
    """To its end; of one that has none, to its last record."""
    return max((run.ended_at or run.last_at) - run.started_at, 0)


def make_parser() -> CommandParser:
    from paddock.cli.numbers import count

    parser = CommandParser(prog="paddock runs", description=__doc__)
    parser.add_argument("--agent", metavar="A", help="of one agent")
    parser.add_argument("--since", metavar="TIME", help="begun in the last 24h, 7d; or a date")
    how_many = parser.add_mutually_exclusive_group()
    how_many.add_argument("--limit", "-n", type=count, metavar="N",
                          help=f"at most so many (default: {LISTED})")  # fmt: skip
    how_many.add_argument("--all", action="store_true", help="all, however many")
    parser.add_argument("--tree", action="store_true", help="forks and replays below their origin")
    parser.add_argument("--json", action="store_true", help="one JSON array")
    commands = parser.add_subparsers(dest="action", metavar="COMMAND")
    remove = commands.add_parser("remove", help="take runs away for good, with all that is theirs")
    remove.add_argument("run", metavar="RUN", nargs="*", help=RUN_HELP)
    remove.add_argument("--older", metavar="TIME", help="all that ended before: 30d, or a date")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    remove.add_argument("--json", action="store_true", default=argparse.SUPPRESS,
                        help="one JSON object")  # fmt: skip
    return parser


def _chosen(index: RunIndex, options: argparse.Namespace) -> list[RunRow]:
    from itertools import islice

    from paddock.cli.journals import newest_first
    from paddock.cli.output import warn
    from paddock.cli.times import since

    since_us = since(options.since) if options.since else 0
    runs = newest_first(index, agent=options.agent, since_us=since_us)
    if options.all:
        return list(runs)
    chosen = list(islice(runs, options.limit or LISTED))
    if options.limit is None and (left := sum(1 for _ in runs)):
        warn(f"{many(left, 'older run')} not shown: --all, or -n N")
    return chosen
