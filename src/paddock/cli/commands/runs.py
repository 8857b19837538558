"""`paddock runs`: the runs of this user, the newest first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.arguments import count
from paddock.cli.output import say, say_json, warn
from paddock.cli.parser import CommandParser, command
from paddock.cli.render.table import line_width
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.journal.index.index import RunIndex
    from paddock.journal.index.rows import RunRow

LISTED = 20  # runs, if nobody asks for more


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock runs", description=__doc__)
    parser.add_argument("--agent", metavar="A", help="of one agent")
    parser.add_argument("--since", metavar="TIME", help="begun in the last 24h, 7d; or a date")
    how_many = parser.add_mutually_exclusive_group()
    how_many.add_argument("--limit", "-n", type=count, metavar="N",
                          help=f"at most so many (default: {LISTED})")  # fmt: skip
    how_many.add_argument("--all", action="store_true", help="all, however many")
    parser.add_flag("--tree", "forks and replays below their origin")
    parser.add_json("one JSON array")
    commands = parser.add_subparsers(dest="action", metavar="COMMAND")
    remove = commands.add_parser("remove", help="take runs away for good, with all that is theirs")
    remove.add_run(nargs="*")
    remove.add_argument("--older", metavar="TIME", help="all that ended before: 30d, or a date")
    remove.add_flag("--yes", "do not ask")
    remove.add_argument("--json", action="store_true", default=argparse.SUPPRESS,
                        help="one JSON object")  # fmt: skip
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import all_indexed
    from paddock.state.home import Home

    if options.action == "remove":
        from paddock.cli.commands.runs_remove import remove

        return remove(options)
    with all_indexed(Home.find()) as (index, troubles):
        for trouble in troubles:
            warn(trouble)
        _say(index, options)
    return 0


def _say(index: RunIndex, options: argparse.Namespace) -> None:
    from paddock.cli.render.runs import branch_json, branches, run_json, run_table, tree_table

    runs = _choose(index, options)
    if options.tree:
        tree = branches(runs, index)
        if options.json:
            say_json([branch_json(branch) for branch in tree])
        elif tree:
            say(tree_table(tree))
    elif options.json:
        say_json([run_json(run) for run in runs])
    elif runs:
        say(run_table(runs, line_width()))


def _choose(index: RunIndex, options: argparse.Namespace) -> list[RunRow]:
    from itertools import islice

    from paddock.cli.journals import newest_first
    from paddock.cli.render.units import since

    since_us = since(options.since) if options.since else 0
    runs = newest_first(index, agent=options.agent, since_us=since_us)
    if options.all:
        return list(runs)
    chosen = list(islice(runs, options.limit or LISTED))
    if options.limit is None and (left := sum(1 for _ in runs)):
        warn(f"{many(left, 'older run')} not shown: --all, or -n N")
    return chosen
