"""The rows of the index, and how the records of a journal become them. No SQL is run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from paddock.journal.log import Spot
from paddock.model.action import Outcome, Verdict
from paddock.model.events import (
    Closed,
    Configured,
    Decided,
    Event,
    Proposed,
    Record,
    Recovered,
    RefusedAgain,
    Settled,
)
from paddock.model.steps import AGENT_STEP, whole_number

SCHEMA_VERSION = 4
_MAX_EXIT_CODE = 1 << 32  # a journal may claim anything, and SQLite has no larger numbers
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    directory TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    stage TEXT,
    policy_digest TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    last_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    records INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    verdicts TEXT NOT NULL,
    outcomes TEXT NOT NULL,
    segment INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    kind TEXT NOT NULL,
    parent TEXT,
    forked_at INTEGER,
    exit_code INTEGER,
    project TEXT,
    terms TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_by_start ON runs (started_at);
CREATE TABLE IF NOT EXISTS steps (
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    kind TEXT,
    name TEXT,
    effect TEXT,
    verdict TEXT,
    rule TEXT,
    outcome TEXT,
    at INTEGER,
    ended_at INTEGER,
    segment INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
"""
# What a later record of a step says replaces what an earlier one said.
UPSERT_STEP = """
INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step) DO UPDATE SET
    kind = coalesce(excluded.kind, kind), name = coalesce(excluded.name, name),
    effect = coalesce(excluded.effect, effect), verdict = coalesce(excluded.verdict, verdict),
    rule = coalesce(excluded.rule, rule), outcome = coalesce(excluded.outcome, outcome),
    at = coalesce(at, excluded.at),
    ended_at = coalesce(excluded.ended_at, ended_at)
"""


class RunRow(msgspec.Struct, frozen=True):
    """One run as the index has it. Times are microseconds since 1970."""

    run: str
    directory: str
    agent: str
    stage: str | None
    policy_digest: str | None
    started_at: int
    ended_at: int | None
    last_at: int
    state: str  # "open" or "closed"
    records: int
    steps: int
    kind: str  # "run", "fork", "replay", "exec", "doctor" or "send"
    parent: str | None  # the run whose past it has
    forked_at: int | None  # the step from which on it went its own way
    exit_code: int | None  # of its first command, which of an agent's run is the agent
    project: str | None  # the directory that it belongs to
    verdicts: dict[str, int]
    outcomes: dict[str, int]
    terms: dict[str, str]  # that forks change


class StepRow(msgspec.Struct, frozen=True):
    """One step as the index has it, and where its first record is."""

    run: str
    step: int
    kind: str | None
    name: str | None
    effect: str | None
    verdict: str | None
    rule: str | None
    outcome: str | None
    at: int | None
    duration_us: int | None  # from proposed to settled, with the time that a person took
    spot: Spot


class StepTally(msgspec.Struct):
    """The values that some further records add to one step: the columns of its row, in their
    order."""

    kind: str | None
    name: str | None
    effect: str | None
    verdict: str | None
    rule: str | None
    outcome: str | None
    at: int | None
    ended_at: int | None
    segment: int
    offset: int

    @classmethod
    def at_spot(cls, spot: Spot) -> StepTally:
        """Return a row that only says where the step begins."""
        return cls(None, None, None, None, None, None, None, None, spot.segment, spot.offset)


class Tally(msgspec.Struct):
    """The values that some further records of one run add to the index."""

    # Records with other events are counted and not decoded.
    EVENTS: ClassVar[tuple[type[Event], ...]] = (
        Configured, Proposed, Decided, Settled, RefusedAgain, Closed, Recovered,
    )  # fmt: skip

    state: str = "open"
    ended_at: int | None = None
    configured: Record | None = None
    exit_code: int | None = None
    verdicts: Counter[str] = msgspec.field(default_factory=Counter)
    outcomes: Counter[str] = msgspec.field(default_factory=Counter)
    steps: dict[int, StepTally] = {}

    def row(self, step: int, spot: Spot) -> StepTally:
        """Return the row of a step that has a record there. It points to the first one."""
        row = self.steps.get(step)
        if row is None:
            row = self.steps[step] = StepTally.at_spot(spot)
        return row

    def take(self, record: Record, row: StepTally | None) -> None:
        """Add a record to the row of its step, or to the run."""
        if row is not None:
            self._take_step(record, row)
            return
        match record.event:
            case Configured():
                self.configured = self.configured or record
            case Closed():
                self.state, self.ended_at = "closed", record.at
            case Recovered():
                self.state, self.ended_at = "open", None

    def _take_step(self, record: Record, row: StepTally) -> None:
        match record.event:
            case Proposed() as proposed:
                row.kind, row.name, row.effect = proposed.kind, proposed.name, proposed.effect
                row.at = record.at
            case Decided() as decided:
                row.verdict, row.rule = decided.verdict, decided.decided_by
                row.effect = decided.effect or row.effect
                self.verdicts[decided.verdict] += 1
            case Settled() as settled:
                row.outcome, row.ended_at = settled.outcome, record.at
                self.outcomes[settled.outcome] += 1
                if record.step == AGENT_STEP:
                    self.exit_code = _exit_code(settled.result)
            case RefusedAgain() as again:
                self.verdicts[Verdict.BLOCK] += again.count
                self.outcomes[Outcome.REFUSED] += again.count


def _exit_code(result: Any) -> int | None:
    code = whole_number(result.get("exit_code")) if isinstance(result, Mapping) else None
    return code if code is not None and abs(code) <= _MAX_EXIT_CODE else None
