"""`paddock runs`: the runs of this user, the newest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.journal.index import Index
    from paddock.journal.index_rows import RunRow

OUTCOMES = ("done", "failed", "refused", "drafted", "simulated", "faulted")
_PAGE = 200
_MAX_NAME = 40


def main(words: list[str]) -> int:
    from paddock.cli.journals import all_indexed
    from paddock.cli.output import sentences, warn
    from paddock.state.home import Home

    options = _parser().parse_args(words)
    with sentences(), all_indexed(Home.find()) as (index, troubles):
        for trouble in troubles:
            warn(trouble)
        _say(index, options)
    return 0


def _say(index: Index, options: argparse.Namespace) -> None:
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
        say(_table(runs))


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
        "parent": run.parent,
        "forked_at": run.forked_at,
        "state": state_of(run),
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


def matching(index: Index, agent: str | None, since_us: int) -> Iterator[RunRow]:
    """Runs from the newest back to that time."""
    offset = 0
    while page := index.runs(agent=agent, limit=_PAGE, offset=offset):
        for run in page:
            if run.started_at < since_us:
                return
            yield run
        offset += _PAGE


def _parser() -> argparse.ArgumentParser:
    from paddock.cli.numbers import count

    parser = argparse.ArgumentParser(prog="paddock runs", description=__doc__)
    parser.add_argument("--agent", metavar="A", help="of one agent")
    parser.add_argument("--since", metavar="TIME", help="begun in the last 24h, 7d; or a date")
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (50)")
    parser.add_argument("--tree", action="store_true", help="forks and replays below their origin")
    parser.add_argument("--json", action="store_true", help="one JSON array")
    return parser


def _chosen(index: Index, options: argparse.Namespace) -> list[RunRow]:
    from itertools import islice

    from paddock.cli.times import since

    since_us = since(options.since) if options.since else 0
    return list(islice(matching(index, options.agent, since_us), options.limit))


def _table(runs: list[RunRow]) -> str:
    from paddock.cli.journals import state_of
    from paddock.cli.table import table
    from paddock.cli.times import clock, took
    from paddock.model.plain import plain

    rows = [
        (
            plain(run.run, _MAX_NAME),
            plain(run.agent, _MAX_NAME),
            plain(run.stage or "-", _MAX_NAME),
            clock(run.started_at),
            took(duration_us(run)),
            run.steps,
            outcomes_text(run),
            state_of(run),
        )
        for run in runs
    ]
    return table(("ID", "AGENT", "STAGE", "STARTED", "TOOK", "STEPS", "OUTCOMES", "STATE"), rows)


def outcomes_text(run: RunRow) -> str:
    """What came of the actions, and how many were asked about."""
    from paddock.cli.output import counts
    from paddock.model.plain import plain

    found = {plain(name, _MAX_NAME): number for name, number in run.outcomes.items()}
    asked = run.verdicts.get("ask", 0)
    return counts({**found, **({"asked": asked} if asked else {})}, (*OUTCOMES, "asked")) or "-"
