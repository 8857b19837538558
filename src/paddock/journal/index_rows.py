"""The rows of the index, and how the records of a journal become them. No SQL is run here."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import field
from typing import Any

from paddock.journal.reader import Spot
from paddock.journal.records import Back
from paddock.journal.repeats import MARK, repeats_in
from paddock.model.errors import IntegrityError
from paddock.model.values import dataclass

SCHEMA_VERSION = 4
_AGENT_STEP = 1
_MAX_CODE = 1 << 32  # a journal may claim anything, and SQLite has no larger numbers
_decode = json.JSONDecoder().raw_decode
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


@dataclass(frozen=True, slots=True)
class RunRow:
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


@dataclass(frozen=True, slots=True)
class StepRow:
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


@dataclass(slots=True)
class Tally:
    """What some further records of one run add to the index."""

    state: str = "open"
    ended_at: int | None = None
    records: int = 0
    last_at: int = 0
    setting: Spot | None = None  # where the note about it is
    exit_code: int | None = None
    verdicts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: dict[int, list[Any]] = field(default_factory=dict)  # kind to offset, as in the table

    def take(self, spot: Spot, line: bytes, back: Back) -> None:
        """Adds one record. Types that the index says nothing about are not parsed."""
        _, step, kind = back
        self.records += 1
        self.last_at = _at(line)
        if step is not None:
            self._take_step(step, kind, spot, line)
        elif kind == b"noted":
            if b'"what":"setting"' in line:
                self.setting = self.setting or spot
        elif kind == b"closed":
            self.state, self.ended_at = "closed", self.last_at
        elif kind == b"recovered":
            self.state, self.ended_at = "open", None

    def _take_step(self, step: int, kind: bytes, spot: Spot, line: bytes) -> None:
        row = self.steps.get(step)
        if row is None:
            row = [None, None, None, None, None, None, None, None, spot.segment, spot.offset]
            self.steps[step] = row
        if kind == b"proposed":
            self._proposed(row, line)
        elif kind == b"decided":
            self._decided(row, line)
        elif kind == b"settled":
            self._settled(row, line, is_first=step == _AGENT_STEP)
        elif kind == b"noted" and MARK in line:
            again = repeats_in(_body(line))
            self.verdicts["block"] += 0 if again is None else again.count
            self.outcomes["refused"] += 0 if again is None else again.count

    def _proposed(self, row: list[Any], line: bytes) -> None:
        body = _body(line)
        row[0:3] = _text(body, "kind"), _text(body, "name"), _text(body, "effect")
        row[6] = self.last_at

    def _decided(self, row: list[Any], line: bytes) -> None:
        body = _body(line)
        row[3], row[4] = _text(body, "verdict"), _text(body, "decided_by")
        row[2] = _text(body, "effect") or row[2]
        self.verdicts[row[3] or "unknown"] += 1

    def _settled(self, row: list[Any], line: bytes, *, is_first: bool) -> None:
        body = _body(line)
        if is_first:
            self.exit_code = _exit_code(body.get("result"))
        row[5] = _text(body, "outcome")
        row[7] = self.last_at
        self.outcomes[row[5] or "unknown"] += 1


def _body(line: bytes) -> dict[str, Any]:
    try:
        body = _decode(line.decode())[0]["body"]
    except (ValueError, KeyError, RecursionError):
        raise IntegrityError("not a record of a journal") from None
    return body if isinstance(body, dict) else {}


def _text(body: dict[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None


def _exit_code(result: Any) -> int | None:
    code = result.get("exit_code") if isinstance(result, dict) else None
    return code if type(code) is int and abs(code) <= _MAX_CODE else None


def _at(line: bytes) -> int:
    """The time, which stands right after the hash, in at most sixteen digits."""
    digits = line[81 : line.find(b",", 81, 98)]
    if not digits.isdigit():
        raise IntegrityError("a record of the journal has no time")
    return int(digits)
