"""Two or many runs side by side: each alone, each against the first, and which did the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from paddock.journal.index.terms import MAX_WORDS, changed_terms
from paddock.journal.plain_values import as_json
from paddock.model.errors import InvalidInput
from paddock.run.compare.compared_step import ComparedStep
from paddock.run.compare.ends import Ends, ends, money_moved
from paddock.run.compare.pairs import Pair, Pairing, pair
from paddock.run.compare.trail import Trail, read_trail

MAX_RUNS = 200
FORMAT = 1


class Column(msgspec.Struct, frozen=True):
    """One run of a comparison."""

    trail: Trail
    origin: str
    otherwise: tuple[str, ...]  # than the first
    money: dict[str, int]
    sameness: str  # equal for runs that did the same

    def as_json(self) -> dict[str, Any]:
        report = self.trail.report
        return {
            "run": report.run,
            "directory": str(self.trail.directory),
            "kind": report.kind,
            "lineage": None if report.lineage is None else as_json(report.lineage),
            "otherwise": list(self.otherwise),
            "agent": report.agent,
            "stage": report.stage,
            "policy_digest": report.policy_digest,
            "command": list(report.command),
            "state": report.state,
            "ended_by": report.ended_by,
            "exit_code": report.exit_code,
            "duration_us": report.duration_us,
            "steps": report.steps,
            "again": report.again,
            "verdicts": dict(report.verdicts),
            "outcomes": dict(report.outcomes),
            "answers": asdict(report.answers),
            "drafts": report.drafted,
            "alerts": [{"alert": alert.name, "times": alert.times} for alert in report.alerts],
            "spent": asdict(report.spent),
            "money": self.money,
            "faults": dict(report.faults),
            "judgements": dict(self.trail.verdicts.counts),
            "broken": broken(self.trail),
            "divergence": report.divergence_json,
        }


class Comparison(msgspec.Struct, frozen=True, dict=True):
    """All of it. The first run is what the others are held against."""

    columns: tuple[Column, ...]
    pairings: tuple[Pairing, ...]  # the first run against each other one
    ends: tuple[Ends, ...]

    @cached_property
    def groups(self) -> tuple[tuple[Column, ...], ...]:
        """Runs that did the same, together, in the order in which they were given."""
        groups_by_sameness: dict[str, list[Column]] = {}
        for column in self.columns:
            groups_by_sameness.setdefault(column.sameness, []).append(column)
        return tuple(map(tuple, groups_by_sameness.values()))

    @property
    def is_same(self) -> bool:
        """Return whether nothing is otherwise, in any step or at the end."""
        has_same_steps = all(pairing.first is None for pairing in self.pairings)
        is_end_other = any(end.world or end.files.is_same is False for end in self.ends)
        return has_same_steps and not is_end_other

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "is_same": self.is_same,
            "runs": [column.as_json() for column in self.columns],
            "groups": [[column.trail.run for column in group] for group in self.groups],
            "against_first": [
                _against(*both) for both in zip(self.pairings, self.ends, strict=True)
            ],
        }


def compare(directories: Sequence[Path], *, is_full: bool = False) -> Comparison:
    """Compare runs by their journals alone. Raises InvalidInput for fewer than two runs, and what
    reading a journal raises."""
    if not 2 <= len(directories) <= MAX_RUNS:
        raise InvalidInput(f"two to {MAX_RUNS} runs can be compared, not {len(directories)}")
    trails = [read_trail(directory) for directory in directories]
    first, others = trails[0], trails[1:]
    return Comparison(
        tuple(_column(trail, first) for trail in trails),
        tuple(pair(first, trail, is_full=is_full) for trail in others),
        tuple(ends(first, trail) for trail in others),
    )


def broken(trail: Trail) -> dict[str, list[str]]:
    """Return the invariants of stand-ins that do not hold at the end, by stand-in."""
    world = trail.report.world
    if world is None:
        return {}
    return {name: list(invariants) for name, invariants in world.broken.items()}


def _column(trail: Trail, first: Trail) -> Column:
    # In words: `stage narrow`, `seed 7`, `fault timeout`.
    otherwise = changed_terms(trail.terms, first.terms)
    return Column(trail, _origin(trail, first), otherwise, money_moved(trail), _sameness(trail))


def _origin(trail: Trail, first: Trail) -> str:
    """Return where a run comes from: empty, `fork of R at 7`, `replay of R`. The first run of a
    comparison is not named."""
    lineage = trail.opened.lineage
    if lineage is None:
        return ""
    of = "" if lineage.run == first.run else f" of {lineage.run}"
    at = "" if lineage.at is None else f" at {lineage.at}"
    return f"{trail.report.kind}{of}{at}"[:MAX_WORDS]


def _sameness(trail: Trail) -> str:
    """Hash the kinds of the steps with their decisions and outcomes, in order, and the end of the
    run. Texts are left out: two runs of a model hardly ever produce the same."""
    steps = [
        (step.key, step.verdict, step.recorded.outcome, step.recorded.status)
        for step in trail.steps
    ]
    end = [trail.report.exit_code, trail.report.state, dict(trail.verdicts.counts), broken(trail)]
    text = json.dumps([steps, end], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _against(pairing: Pairing, end: Ends) -> dict[str, Any]:
    return {
        "a": pairing.here.run,
        "b": pairing.there.run,
        "shared_before": pairing.shared_before,
        "counts": pairing.counts,
        "first_divergence": None if pairing.first is None else pairing.first.as_json(),
        "steps": [_row(pair) for pair in pairing.pairs],
        **end.as_json(),
    }


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "what": pair.what,
        "parts": [part.value for part in pair.parts],
        "a": _side(pair.here),
        "b": _side(pair.there),
    }


def _side(step: ComparedStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    recorded = step.recorded
    return {
        "step": recorded.number,
        "kind": recorded.kind,
        "call": step.call,
        "says": list(step.says),
        "verdict": recorded.verdict,
        "decided_by": recorded.decided_by,
        "outcome": recorded.outcome,
        "status": recorded.status,
        "exit_code": recorded.exit_code,
        "duration_us": recorded.duration_us,
        "again": recorded.is_replayed,
    }
