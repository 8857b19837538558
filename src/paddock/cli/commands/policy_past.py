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
from paddock.model.errors import InvalidInput, NotFound
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.gate.recorded_actions import PastEvent
    from paddock.journal.index.rows import RunRow
    from paddock.model.action import Action, Decision, Stage
    from paddock.policy.analysis.candidate import Change
    from paddock.policy.decide import Policy

_DIRECTIONS = ("looser", "tighter", "different")


class _Counted:
    """Events on their way; the actions of runs that are compared are counted."""

    def __init__(self, events: Iterable[PastEvent], background: frozenset[str]) -> None:
        self._events = events
        self._background = background
        self.number = 0

    def __iter__(self) -> Iterator[PastEvent]:
        from paddock.policy.analysis.candidate import RecordedAction

        for one in self._events:
            self.number += isinstance(one, RecordedAction) and one.run not in self._background
            yield one


def replay_runs(options: argparse.Namespace) -> int:
    """What the candidate decides otherwise than it was decided then."""
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
    found = Counter(direction(one) for one in changes)
    if options.json:
        say_json(_as_json(changes, found, actions.number, len(directories)))
    else:
        _say_changes(changes, options.limit)
        same = actions.number - len(changes)
        said = counts(found, _DIRECTIONS)
        runs = f"{many(actions.number, 'action')} of {many(len(directories), 'run')}"
        say(f"{runs}: {said}{', ' if said else ''}{same} as before")
        if others:
            say(f"limits also count what {many(len(others), 'run')} of the same agent spent")
    is_failed = bool(found["looser"]) if options.fail_on == "looser" else bool(changes)
    return ExitCode.FAILED if options.fail_on and is_failed else 0


def learn_runs(options: argparse.Namespace) -> int:
    """The text of a file, for review."""
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
    runs = [lessons(one, check_trusted(one, home)) for one in dict.fromkeys(directories)]
    agent = options.agent or RunLog(directories[0]).opened.agent or "agent"
    actions = sorted((one for found, _ in runs for one in found), key=lambda one: one.at)
    ceiling = min((stage for _, stage in runs), key=list(Stage).index)
    write_pieces([learn(actions, agent, ceiling=ceiling)], options.output)
    warn(f"learned from {many(len(actions), 'action')}; review it before you use it")
    return 0


def direction(change: Change) -> str:
    """Whether more would go out than did, less, or as much in another way."""
    before, after = change.before.verdict.strictness, change.after.verdict.strictness
    return "looser" if after < before else "tighter" if after > before else "different"


def _directories(options: argparse.Namespace) -> list[Path]:
    chosen = [bool(options.runs), options.agent is not None, options.all]
    if sum(chosen) != 1:
        raise InvalidInput("policy replay: give runs, or --agent, or --all")
    if options.runs:
        if options.since:
            raise InvalidInput("--since: goes with --agent or --all")
        return list(dict.fromkeys(find_journal(word) for word in options.runs))
    from paddock.cli.render.times import since
    from paddock.state.home import Home

    since_us = since(options.since) if options.since else 0
    with all_indexed(Home.find()) as (index, troubles):
        runs = newest_first(index, agent=options.agent, since_us=since_us)
        found = [Path(run.directory) for run in runs]
    if troubles:  # a run that is left out could be the one that matters
        raise NotFound("not all runs can be read: " + "; ".join(troubles))
    if not found:
        raise NotFound("there are no such runs", hint="paddock runs lists them")
    return found


def _spending_beside(directories: list[Path], policy: Policy) -> list[Path]:
    """Other runs of the same agents that spent of the limits within their windows."""
    windows = [rule.limit.window_s for rule in policy.rules if rule.limit is not None]
    window_us = max((one for one in windows if one is not None), default=0) * 1e6
    if not window_us:
        return []
    from paddock.state.home import Home

    chosen = {one.resolve() for one in directories}
    with all_indexed(Home.find()) as (index, _):
        rows = list(newest_first(index))
    compared = [row for row in rows if Path(row.directory).resolve() in chosen]

    def is_counted(row: RunRow) -> bool:
        return Path(row.directory).resolve() not in chosen and any(
            row.agent == one.agent
            and row.started_at < one.last_at
            and row.last_at > one.started_at - window_us
            for one in compared
        )

    return [Path(row.directory) for row in rows if is_counted(row)]


def _warn_of_stages(directories: list[Path], stage: Stage) -> None:
    """A run under another stage than the file's was decided otherwise for that reason alone."""
    from paddock.journal.log import RunLog

    stages = [RunLog(directory).opened.stage or stage for directory in directories]
    for other in dict.fromkeys(name for name in stages if name != stage):
        warn(f"{many(stages.count(other), 'run')} had the stage {other}, and the file has {stage}: "
             f"--stage {other} decides as they were decided")  # fmt: skip


def _say_changes(changes: list[Change], limit: int) -> None:
    from paddock.cli.render.calls import call_summary
    from paddock.cli.render.table import line_width, table
    from paddock.model.plain import plain

    rows = [
        (
            plain(one.run, 40),
            one.step,
            direction(one),
            _verdict(one.before),
            _verdict(one.after),
            plain(one.after.decided_by, 40),
            call_summary(one.action.kind, one.action.name, one.action.arguments),
        )
        for one in changes[:limit]
    ]
    if rows:
        say(
            table(
                ("RUN", "STEP", "CHANGE", "WAS", "WOULD BE", "BY", "CALL"),
                rows,
                width=line_width(),
                flexible=("BY", "CALL"),
                with_ends=("CALL",),
            )
        )
    if len(changes) > limit:
        say(f"({many(len(changes) - limit, 'more change')}: --limit, or --json)")


def _as_json(changes: list[Change], found: Counter[str], actions: int, runs: int) -> dict[str, Any]:
    return {
        "runs": runs,
        "actions": actions,
        **{name: found[name] for name in _DIRECTIONS},
        "changes": [
            {
                "run": one.run,
                "step": one.step,
                "change": direction(one),
                "action": _action_json(one.action),
                "before": _decision_json(one.before),
                "after": _decision_json(one.after),
            }
            for one in changes
        ],
    }


def _action_json(action: Action) -> dict[str, Any]:
    """As `policy explain --action` takes it."""
    from paddock.gate.drafts import action_as_json

    return action_as_json(action)


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "verdict": decision.verdict.value,
        "decided_by": decision.decided_by,
        "why": decision.why,
        "is_draft": decision.is_draft,
    }


def _verdict(decision: Decision) -> str:
    return "draft" if decision.is_draft else decision.verdict.value
