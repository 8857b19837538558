"""What a candidate policy would have decided about the past."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import field

from paddock.model.action import Action, Decision, Verdict
from paddock.model.values import dataclass
from paddock.policy.decide import Charge, Policy


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """One action of an earlier run, and what was decided about it; `at` in seconds."""

    step: int
    action: Action
    decision: Decision
    at: float = 0.0
    run: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """An action that the candidate decides otherwise."""

    step: int
    action: Action
    before: Decision
    after: Decision
    run: str = ""

    @property
    def is_looser(self) -> bool:
        """Whether more would go out than did."""
        return self.after.verdict.strictness < self.before.verdict.strictness


@dataclass(slots=True)
class Ledger:
    """What was spent of each limit, along the times of a run."""

    _entries: dict[str, deque[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    _sums: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def spent(self, charges: Iterable[Charge], at: float) -> dict[str, int]:
        """Of each limit that is charged, what lies in its window."""
        return {one.rule_id: self._in_window(one, at) for one in charges}

    def add(self, charges: Iterable[Charge], at: float) -> None:
        for one in charges:
            self._entries[one.rule_id].append((at, one.amount))
            self._sums[one.rule_id] += one.amount

    def _in_window(self, charge: Charge, at: float) -> int:
        entries = self._entries[charge.rule_id]
        if charge.window_s is not None:
            while entries and entries[0][0] <= at - charge.window_s:
                self._sums[charge.rule_id] -= entries.popleft()[1]
        return self._sums[charge.rule_id]


def replay(candidate: Policy, recorded: Iterable[RecordedAction]) -> list[Change]:
    """The actions that the candidate decides otherwise, in the order of time. Limits over a run
    are counted for each run, others over all; what the candidate blocks spends nothing."""
    shared = Ledger()
    runs: dict[str, Ledger] = defaultdict(Ledger)
    changes = []
    for one in recorded:
        after = _decide(candidate, one, shared, runs[one.run])
        if _differs(one.decision, after):
            changes.append(Change(one.step, one.action, one.decision, after, one.run))
    return changes


def _decide(candidate: Policy, one: RecordedAction, shared: Ledger, run: Ledger) -> Decision:
    charges = candidate.amounts(one.action)
    windowed = [charge for charge in charges if charge.window_s is not None]
    whole_run = [charge for charge in charges if charge.window_s is None]
    spent = {**shared.spent(windowed, one.at), **run.spent(whole_run, one.at)}
    decision = candidate.decide(one.action, spent)
    if decision.verdict is not Verdict.BLOCK:
        shared.add(windowed, one.at)
        run.add(whole_run, one.at)
    return decision


def _differs(before: Decision, after: Decision) -> bool:
    return before.verdict is not after.verdict or before.is_draft is not after.is_draft
