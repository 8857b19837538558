"""Two or many runs side by side: each alone, each against the first, and which did the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.values import dataclass
from paddock.run.compare.conditions import origin, otherwise
from paddock.run.compare.ends import Ends, ends, money_moved
from paddock.run.compare.moves import Move
from paddock.run.compare.pairing import Pair, Pairing, pair
from paddock.run.compare.trail import Trail, read_trail

MAX_RUNS = 200
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Column:
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
            "lineage": report.lineage,
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
            "alerts": [{"alert": one.name, "times": one.times} for one in report.alerts],
            "spent": asdict(report.spent),
            "money": self.money,
            "faults": dict(report.faults),
            "judgements": dict(self.trail.verdicts.counts),
            "broken": broken(self.trail),
            "divergence": report.divergence,
        }


@dataclass(frozen=True)
class Comparison:
    """All of it. The first run is what the others are held against."""

    columns: tuple[Column, ...]
    pairings: tuple[Pairing, ...]  # the first run against each other one
    ends: tuple[Ends, ...]

    @cached_property
    def groups(self) -> tuple[tuple[Column, ...], ...]:
        """Runs that did the same, together, in the order in which they were given."""
        found: dict[str, list[Column]] = {}
        for column in self.columns:
            found.setdefault(column.sameness, []).append(column)
        return tuple(map(tuple, found.values()))

    @property
    def is_same(self) -> bool:
        """Whether nothing is otherwise, in any step or at the end."""
        return all(one.first is None for one in self.pairings) and not any(
            one.world or one.files.is_same is False for one in self.ends
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "is_same": self.is_same,
            "runs": [one.as_json() for one in self.columns],
            "groups": [[one.trail.run for one in group] for group in self.groups],
            "against_first": [
                _against(*both) for both in zip(self.pairings, self.ends, strict=True)
            ],
        }


def compare(directories: Sequence[Path], *, is_full: bool = False) -> Comparison:
    """From their journals alone. Raises InvalidInput for fewer than two, and what a reader does."""
    if not 2 <= len(directories) <= MAX_RUNS:
        raise InvalidInput(f"two to {MAX_RUNS} runs can be compared, not {len(directories)}")
    trails = [read_trail(directory) for directory in directories]
    first, others = trails[0], trails[1:]
    return Comparison(
        tuple(_column(one, first) for one in trails),
        tuple(pair(first, one, is_full=is_full) for one in others),
        tuple(ends(first, one) for one in others),
    )


def broken(trail: Trail) -> dict[str, list[str]]:
    """Invariants of stand-ins that do not hold at the end."""
    world = trail.report.world
    return {} if world is None else {name: list(said) for name, said in world.broken.items()}


def _column(trail: Trail, first: Trail) -> Column:
    different = () if trail is first else otherwise(trail, first)
    return Column(trail, origin(trail, first), different, money_moved(trail), _sameness(trail))


def _sameness(trail: Trail) -> str:
    """What was wanted, of which sort, what was decided and what came of it, in order; and how it
    ended. Not the words: two runs of a model hardly ever have the same."""
    deeds = [(one.key, one.verdict, one.outcome, one.status) for one in trail.moves]
    end = [trail.report.exit_code, trail.report.state, dict(trail.verdicts.counts), broken(trail)]
    text = json.dumps([deeds, end], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _against(pairing: Pairing, end: Ends) -> dict[str, Any]:
    return {
        "a": pairing.here.run,
        "b": pairing.there.run,
        "shared_before": pairing.shared_before,
        "counts": pairing.counts,
        "first_divergence": None if pairing.first is None else pairing.first.as_json(),
        "steps": [_row(one) for one in pairing.pairs],
        **end.as_json(),
    }


def _row(one: Pair) -> dict[str, Any]:
    return {
        "what": one.what,
        "parts": [part.value for part in one.parts],
        "a": _side(one.here),
        "b": _side(one.there),
    }


def _side(move: Move | None) -> dict[str, Any] | None:
    if move is None:
        return None
    return {
        "step": move.step,
        "kind": move.kind,
        "call": move.call,
        "says": list(move.says),
        "verdict": move.verdict,
        "decided_by": move.decided_by,
        "outcome": move.outcome,
        "status": move.status,
        "exit_code": move.exit_code,
        "duration_us": move.duration_us,
        "again": move.is_again,
    }
