"""`paddock policy replay` and `learn`: a paddock file and the runs of the past."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.journals import all_indexed, find_journal
from paddock.cli.output import counts, say, say_json, warn, write_pieces
from paddock.cli.policy_file import read_policy
from paddock.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from paddock.model.action import Action, Decision
    from paddock.policy.compare import Change, RecordedAction

EXIT_FAILED = 1
_DIRECTIONS = ("looser", "tighter", "different")
_MAX_CALL = 60


class _Counted:
    """Actions on their way, counted."""

    def __init__(self, actions: Iterable[RecordedAction]) -> None:
        self._actions = actions
        self.number = 0

    def __iter__(self) -> Iterator[RecordedAction]:
        for one in self._actions:
            self.number += 1
            yield one


def replay_runs(options: argparse.Namespace) -> int:
    """What the candidate decides otherwise than it was decided then."""
    from paddock.gate.recorded import recorded_in_order
    from paddock.policy.compare import replay

    policy = read_policy(options.file)
    directories = _directories(options)
    actions = _Counted(recorded_in_order(directories))
    changes = replay(policy, actions)
    found = Counter(direction(one) for one in changes)
    if options.json:
        say_json(_as_json(changes, found, actions.number, len(directories)))
    else:
        _say_changes(changes, options.limit)
        same = actions.number - len(changes)
        said = counts(found, _DIRECTIONS)
        runs = f"{actions.number} actions of {len(directories)} runs"
        say(f"{runs}: {said}{', ' if said else ''}{same} as before")
    is_failed = bool(found["looser"]) if options.fail_on == "looser" else bool(changes)
    return EXIT_FAILED if options.fail_on and is_failed else 0


def learn_runs(options: argparse.Namespace) -> int:
    """The text of a file, for review."""
    from paddock.gate.recorded import recorded_in_order
    from paddock.journal.reader import Reader
    from paddock.policy.learn import learn

    if options.output is not None and os.path.lexists(options.output) and not options.force:
        raise InvalidInput(
            f"-o: {options.output} is there already",
            hint="choose another name and compare the two, or say --force",
        )
    directories = [find_journal(word) for word in options.runs]
    agent = options.agent or str(Reader(directories[0]).opened().body.get("agent") or "agent")
    actions = _Counted(recorded_in_order(directories))
    write_pieces([learn(actions, agent)], options.output)
    warn(f"learned from {actions.number} actions; review it before you use it")
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
    from paddock.cli.runs import matching
    from paddock.cli.times import since
    from paddock.state.home import Home

    since_us = since(options.since) if options.since else 0
    with all_indexed(Home.find()) as (index, troubles):
        found = [Path(run.directory) for run in matching(index, options.agent, since_us)]
    if troubles:  # a run that is left out could be the one that matters
        raise NotFound("not all runs can be read: " + "; ".join(troubles))
    if not found:
        raise NotFound("there are no such runs", hint="paddock runs lists them")
    return found


def _say_changes(changes: list[Change], limit: int) -> None:
    from paddock.cli.call_text import call_text
    from paddock.cli.table import table
    from paddock.model.plain import plain

    rows = [
        (
            plain(one.run, 40),
            one.step,
            direction(one),
            _verdict(one.before),
            _verdict(one.after),
            plain(one.after.decided_by, 40),
            _cut(f"{one.action.kind} {call_text(one.action.kind, one.action.name, _body(one))}"),
        )
        for one in changes[:limit]
    ]
    if rows:
        say(table(("RUN", "STEP", "CHANGE", "WAS", "WOULD BE", "BY", "CALL"), rows))
    if len(changes) > limit:
        say(f"({len(changes) - limit} more changes: --limit, or --json)")


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
    arguments = dict(action.arguments)
    return {"kind": action.kind.value, "name": action.name, "arguments": arguments}


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "verdict": decision.verdict.value,
        "decided_by": decision.decided_by,
        "why": decision.why,
        "is_draft": decision.is_draft,
    }


def _verdict(decision: Decision) -> str:
    return "draft" if decision.is_draft else decision.verdict.value


def _body(change: Change) -> dict[str, Any]:
    return {"arguments": change.action.arguments}


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CALL else f"{text[: _MAX_CALL - 3]}..."
