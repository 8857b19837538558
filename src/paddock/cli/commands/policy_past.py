"""`paddock policy replay` and `learn`: a paddock file and the runs of the past."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.exit_codes import ExitCode
from paddock.cli.journals import all_indexed, find_journal, newest_first
from paddock.cli.output import counts, say, say_json, warn, write_pieces
from paddock.cli.policy_file import read_policy
from paddock.cli.render.table import terminal_table
from paddock.model.errors import InvalidInput, NotFound
from paddock.model.plural import many
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.gate.recorded_actions import PastEvent
    from paddock.journal.index.rows import RunRow
    from paddock.model.action import Stage
    from paddock.policy.analysis.candidate import DecisionChange
    from paddock.policy.decide import Policy

_DIRECTIONS = ("looser", "tighter", "different")


class _Counted:
    """An iterable of events that counts the actions of the runs that are compared."""

    def __init__(self, events: Iterable[PastEvent], background: frozenset[str]) -> None:
        self._events = events
        self._background = background
        self.number = 0

    def __iter__(self) -> Iterator[PastEvent]:
        from paddock.policy.analysis.candidate import RecordedAction

        for event in self._events:
            self.number += isinstance(event, RecordedAction) and event.run not in self._background
            yield event


def replay_runs(options: argparse.Namespace) -> int:
    """Tell what the candidate file decides otherwise than it was decided then."""
    from paddock.gate.recorded_actions import recorded_in_order
    from paddock.journal.log import RunLog
    from paddock.policy.analysis.candidate import replay

    policy = read_policy(options.file, options.stage)
    directories = _directories(options)
    _warn_of_stages(directories, policy.stage)
    others = _spending_beside(directories, policy)
    background = frozenset(RunLog(directory).opened.run for directory in others)
    actions = _Counted(recorded_in_order([*directories, *others]), background)
    changes = replay(policy, actions, background)
    directions = Counter(direction(change) for change in changes)
    if options.json:
        say_json(_as_json(changes, directions, actions.number, len(directories)))
    else:
        _say_changes(changes, options.limit)
        same = actions.number - len(changes)
        changed = counts(directions, _DIRECTIONS)
        runs = f"{many(actions.number, 'action')} of {many(len(directories), 'run')}"
        say(f"{runs}: {changed}{', ' if changed else ''}{same} as before")
        if others:
            say(f"limits also count what {many(len(others), 'run')} of the same agent spent")
    is_failed = bool(directions["looser"]) if options.fail_on == "looser" else bool(changes)
    return ExitCode.FAILED if options.fail_on and is_failed else 0


def learn_runs(options: argparse.Namespace) -> int:
    """Write the smallest paddock file that the runs needed, for review."""
    from paddock.gate.recorded_actions import lessons
    from paddock.gate.signed_journals import check_trusted
    from paddock.journal.log import RunLog
    from paddock.model.action import Stage
    from paddock.policy.analysis.proposed_file import learn
    from paddock.state.home import Home

    if options.output is not None and os.path.lexists(options.output) and not options.force:
        raise InvalidInput(
            f"-o: {options.output} is there already",
            hint="choose another name and compare the two, or say --force",
        )
    directories = [find_journal(word) for word in options.runs]
    # What it grants comes from these journals, so nobody else may have written to them.
    home = Home.find()
    runs = [
        lessons(directory, check_trusted(directory, home))
        for directory in dict.fromkeys(directories)
    ]
    agent = options.agent or RunLog(directories[0]).opened.agent or "agent"
    actions = [action for recorded, _ in runs for action in recorded]
    actions.sort(key=lambda action: action.at)
    ceiling = min((stage for _, stage in runs), key=list(Stage).index)
    write_pieces([learn(actions, agent, ceiling=ceiling)], options.output)
    warn(f"learned from {many(len(actions), 'action')}; review it before you use it")
    return 0


def direction(change: DecisionChange) -> str:
    """Return whether the candidate is looser, tighter or different about an action."""
    before, after = change.before.verdict.strictness, change.after.verdict.strictness
    if after == before:
        return "different"
    return "looser" if after < before else "tighter"


def _directories(options: argparse.Namespace) -> list[Path]:
    chosen = [bool(options.runs), options.agent is not None, options.all]
    if sum(chosen) != 1:
        raise InvalidInput("policy replay: give runs, or --agent, or --all")
    if options.runs:
        if options.since:
            raise InvalidInput("--since: goes with --agent or --all")
        return list(dict.fromkeys(find_journal(word) for word in options.runs))
    from paddock.cli.render.units import since
    from paddock.state.home import Home

    since_us = since(options.since) if options.since else 0
    with all_indexed(Home.find()) as (index, troubles):
        runs = newest_first(index, agent=options.agent, since_us=since_us)
        directories = [Path(run.directory) for run in runs]
    if troubles:  # a run that is left out could be the one that matters
        raise NotFound("not all runs can be read: " + "; ".join(troubles))
    if not directories:
        raise NotFound("there are no such runs", hint="paddock runs lists them")
    return directories


def _spending_beside(directories: list[Path], policy: Policy) -> list[Path]:
    """Return other runs of the same agents that spent of the limits within their windows."""
    windows = [rule.limit.window_s for rule in policy.rules if rule.limit is not None]
    window_us = max((window for window in windows if window is not None), default=0) * 1e6
    if not window_us:
        return []
    from paddock.state.home import Home

    chosen = {directory.resolve() for directory in directories}
    with all_indexed(Home.find()) as (index, _):
        rows = list(newest_first(index))
    compared = [row for row in rows if Path(row.directory).resolve() in chosen]

    def is_counted(row: RunRow) -> bool:
        return Path(row.directory).resolve() not in chosen and any(
            row.agent == run.agent
            and row.started_at < run.last_at
            and row.last_at > run.started_at - window_us
            for run in compared
        )

    return [Path(row.directory) for row in rows if is_counted(row)]


def _warn_of_stages(directories: list[Path], stage: Stage) -> None:
    """Warn about runs under another stage: they were decided otherwise for that reason alone."""
    from paddock.journal.log import RunLog

    stages = [RunLog(directory).opened.stage or stage for directory in directories]
    for other in dict.fromkeys(name for name in stages if name != stage):
        warn(f"{many(stages.count(other), 'run')} had the stage {other}, and the file has {stage}: "
             f"--stage {other} decides as they were decided")  # fmt: skip


def _say_changes(changes: list[DecisionChange], limit: int) -> None:
    from paddock.cli.render.calls import call_summary
    from paddock.cli.render.replay import verdict_text

    rows: list[tuple[object, ...]] = [
        (
            printable(change.run, 40),
            change.step,
            direction(change),
            verdict_text(change.before),
            verdict_text(change.after),
            printable(change.after.decided_by, 40),
            call_summary(change.action.kind, change.action.name, change.action.arguments),
        )
        for change in changes[:limit]
    ]
    if rows:
        say(
            terminal_table(
                ("RUN", "STEP", "CHANGE", "WAS", "WOULD BE", "BY", "CALL"),
                rows,
                flexible=("BY", "CALL"),
                with_ends=("CALL",),
            )
        )
    if len(changes) > limit:
        say(f"({many(len(changes) - limit, 'more change')}: --limit, or --json)")


def _as_json(
    changes: list[DecisionChange], directions: Counter[str], actions: int, runs: int
) -> dict[str, Any]:
    from paddock.cli.render.replay import decision_json
    from paddock.gate.drafts import action_as_json

    return {
        "runs": runs,
        "actions": actions,
        **{name: directions[name] for name in _DIRECTIONS},
        "changes": [
            {
                "run": change.run,
                "step": change.step,
                "change": direction(change),
                "action": action_as_json(change.action),
                "before": decision_json(change.before),
                "after": decision_json(change.after),
            }
            for change in changes
        ],
    }
