"""Statistics of answers by rule, with how long they took: a rule whose questions are always
approved unchanged asks too much. Counted over the approvals that lie in the store.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter, defaultdict
from typing import Any

import msgspec

from paddock.gate.approvals import APPROVED, DENIED, EDITED, EXPIRED, PENDING, WITHDRAWN, Approvals


class RuleStatistics(msgspec.Struct, frozen=True):
    """The questions of one rule, or of what asks in place of a rule (`stage:approve`)."""

    rule: str
    asked: int
    approved: int
    edited: int
    denied: int
    expired: int
    withdrawn: int
    pending: int
    median_wait_s: float | None  # of those that a person answered

    @property
    def answered(self) -> int:
        return self.approved + self.edited + self.denied

    @property
    def false_alarms(self) -> float | None:
        """Return the share of answers that were a yes without a change."""
        return self.approved / self.answered if self.answered else None


def rule_statistics(
    approvals: Approvals, *, agent: str | None = None, window_s: float | None = None
) -> list[RuleStatistics]:
    """Return the statistics of each rule that asked in the window, the most frequent first."""
    approvals.sweep()
    tallies: dict[str, _Tally] = defaultdict(_Tally)
    for row in _rows(approvals, agent, window_s):
        for rule in _rules(row["content"]):
            tallies[rule].count(row)
    results = [tally.result(rule) for rule, tally in tallies.items()]
    return sorted(results, key=lambda result: (-result.asked, result.rule))


class _Tally(msgspec.Struct):
    states: Counter[str] = msgspec.field(default_factory=Counter)
    waits_s: list[float] = []

    def count(self, row: Any) -> None:
        self.states[row["state"]] += 1
        if row["state"] in (APPROVED, EDITED, DENIED):
            self.waits_s.append(max(0.0, row["answered_at"] - row["asked_at"]))

    def result(self, rule: str) -> RuleStatistics:
        states = self.states
        return RuleStatistics(
            rule=rule,
            asked=states.total(),
            approved=states[APPROVED],
            edited=states[EDITED],
            denied=states[DENIED],
            expired=states[EXPIRED],
            withdrawn=states[WITHDRAWN],
            pending=states[PENDING],
            median_wait_s=statistics.median(self.waits_s) if self.waits_s else None,
        )


def _rows(approvals: Approvals, agent: str | None, window_s: float | None) -> list[Any]:
    since = 0.0 if window_s is None else time.time() - window_s
    query = (
        "SELECT content, state, asked_at, answered_at FROM approvals"
        " WHERE asked_at >= ? AND (? IS NULL OR agent = ?)"
    )
    with approvals.store.connection() as connection:
        return connection.execute(query, (since, agent, agent)).fetchall()


def _rules(content: str) -> list[str]:
    try:
        return [str(rule) for rule in json.loads(content)["asked_by"]]
    except (ValueError, TypeError, KeyError):
        return ["unknown"]  # a damaged row is not left out of the counts
