"""The comparison of a candidate policy with what was decided in the past."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

import msgspec

from paddock.model.action import Action, Decision, Outcome, Verdict
from paddock.model.steps import Step
from paddock.policy.decide import MAX_AMOUNT, Charge, Policy

_TRANSPORTS = (None, "tcp", "tls", "dns")  # that a paddock file can let out at all


class RecordedAction(msgspec.Struct, frozen=True):
    """An action of an earlier run, and what was decided about it. `rehearsed` says why it is no
    evidence that the agent may really do this; empty where it was done for real and without a
    question.

    A program that was only observed is an action as well: its `step` is the one that caused it, and
    says nothing about a decision."""

    step: Step
    action: Action  # with all that is known about it by now
    decision: Decision
    at: float = 0.0  # seconds since 1970
    run: str = ""
    agent: str = ""
    rehearsed: str = ""

    @property
    def number(self) -> int:
        return self.step.number

    @property
    def is_by_door(self) -> bool:
        """Return whether its door refused it, whatever the rules said."""
        return self.step.decided is not None and self.step.decided.by_door

    @property
    def is_past(self) -> bool:
        """Return whether it is of a fork or a replay, and was answered from the record."""
        return self.step.is_replayed

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Return what may have been decided about it before a fault of the file struck."""
        decided = self.step.decided
        if decided is None or decided.verdict is not Verdict.FAULT or "id" not in self.step.fault:
            return (self.decision.verdict,)
        if decided.once_approved is None:  # journals of earlier versions do not say it
            return Verdict.ALLOW, Verdict.SIMULATE
        return (decided.once_approved,)


class Settlement(msgspec.Struct, frozen=True):
    """The outcome of a recorded action."""

    run: str
    step: int
    outcome: Outcome
    at: float = 0.0


class DecisionChange(msgspec.Struct, frozen=True):
    """An action that the candidate decides otherwise."""

    step: int
    action: Action
    before: Decision
    after: Decision
    run: str = ""


class Account(msgspec.Struct):
    """The amounts spent of one limit, along the timestamps of a run."""

    entries: deque[Spend] = msgspec.field(default_factory=deque)
    sum: int = 0

    def spent(self, charge: Charge, at: float) -> int:
        """Return what lies in the window of the charge."""
        if charge.window_s is not None:
            while self.entries and self.entries[0].at <= at - charge.window_s:
                self.entries.popleft().give_back()
        return self.sum

    def add(self, charge: Charge, at: float) -> Spend:
        spend = Spend(self, at, charge.amount)
        self.entries.append(spend)
        self.sum += charge.amount
        return spend


class Spend(msgspec.Struct):
    """An amount that counts for a limit until it is given back."""

    account: Account
    at: float
    amount: int

    def give_back(self) -> None:
        self.account.sum -= self.amount
        self.amount = 0


Ledger = dict[str, Account]  # by rule


def _ledgers() -> dict[str, Ledger]:
    return defaultdict(lambda: defaultdict(Account))


def replay(
    candidate: Policy,
    recorded: Iterable[RecordedAction | Settlement],
    background: frozenset[str] = frozenset(),
) -> list[DecisionChange]:
    """Return the actions that the candidate decides otherwise, in the order of time. What runs in
    `background` did is counted for limits and not compared."""
    past = _Past(candidate)
    changes = []
    for event in recorded:
        if isinstance(event, Settlement):
            past.settle(event)
        elif event.run in background:
            past.count(event)
        elif (after := past.decide(event)) is not None:
            changes.append(
                DecisionChange(event.number, event.action, event.decision, after, event.run)
            )
    return changes


class _Past:
    """The candidate along the past. Limits are counted as the gate counts them: what is decided
    reserves its amounts, and gives them back when it certainly did not happen. Limits over a run
    are counted for each run; windows for each agent, over all of its runs; what a stand-in answers,
    for the world of its run."""

    def __init__(self, candidate: Policy) -> None:
        self._candidate = candidate
        self._agents, self._runs, self._worlds = _ledgers(), _ledgers(), _ledgers()
        self._reserved: dict[tuple[str, int], tuple[Action, list[Spend]]] = {}

    def decide(self, recorded: RecordedAction) -> Decision | None:
        """Return what the candidate decides, where that is something else."""
        if self._is_refused_by_door(recorded):
            return None
        charges = self._candidate.amounts(recorded.action)
        spent = {charge.rule_id: self._spent(recorded, charge) for charge in charges}
        after = self._candidate.decide(recorded.action, spent)
        is_changed = _differs(recorded, after)
        if after.verdict is Verdict.BLOCK:
            return after if is_changed else None
        spends = self._reserve(recorded, charges)
        if not is_changed:
            self._reserved[recorded.run, recorded.number] = recorded.action, spends
        elif not self._candidate.spends(recorded.action, _outcome(after)):
            _give_back(spends)
        return after if is_changed else None

    def count(self, recorded: RecordedAction) -> None:
        """Count an action that is not compared, as it was decided then."""
        if recorded.is_by_door or recorded.decision.verdict is Verdict.BLOCK:
            return
        spends = self._reserve(recorded, self._candidate.amounts(recorded.action))
        self._reserved[recorded.run, recorded.number] = recorded.action, spends

    def settle(self, settlement: Settlement) -> None:
        """Give back what was reserved for an action that did not happen."""
        action, spends = self._reserved.pop((settlement.run, settlement.step), (None, []))
        if action is not None and not self._candidate.spends(action, settlement.outcome):
            _give_back(spends)

    def _is_refused_by_door(self, recorded: RecordedAction) -> bool:
        """Return whether no file changes the refusal. One for want of a network a file may
        change."""
        if not recorded.is_by_door:
            return False
        is_for_network = recorded.decision.decided_by == "network"
        may_leave = recorded.action.arguments.get("transport") in _TRANSPORTS
        return not (is_for_network and may_leave and self._candidate.network is not None)

    def _spent(self, recorded: RecordedAction, charge: Charge) -> int:
        account = self._account(recorded, charge)
        if account is not None:
            return account.spent(charge, recorded.at)
        # What lay in the window of the run that it comes from is not known: it holds as it held.
        is_used_up = any(hit.rule_id == charge.rule_id for hit in recorded.decision.hits)
        return MAX_AMOUNT if is_used_up else 0

    def _reserve(self, recorded: RecordedAction, charges: Iterable[Charge]) -> list[Spend]:
        accounts = ((charge, self._account(recorded, charge)) for charge in charges)
        return [
            account.add(charge, recorded.at) for charge, account in accounts if account is not None
        ]

    def _account(self, recorded: RecordedAction, charge: Charge) -> Account | None:
        """Return where a charge is counted. The past of a fork or a replay was paid by another
        run."""
        stand_in = self._candidate.stand_in(recorded.action)
        if stand_in is not None and not stand_in.is_real(recorded.action):
            return self._worlds[recorded.run][charge.rule_id]
        if charge.window_s is None:
            return self._runs[recorded.run][charge.rule_id]
        return None if recorded.is_past else self._agents[recorded.agent][charge.rule_id]


def _give_back(spends: Iterable[Spend]) -> None:
    for spend in spends:
        spend.give_back()


def _outcome(decision: Decision) -> Outcome:
    """Return what would come of an action that was decided otherwise; a question is answered with
    yes."""
    verdict = decision.once_approved if decision.verdict is Verdict.ASK else decision.verdict
    if verdict is Verdict.SIMULATE:
        return Outcome.DRAFTED if decision.is_draft else Outcome.SIMULATED
    return Outcome.FAULTED if verdict is Verdict.FAULT else Outcome.DONE


def _differs(recorded: RecordedAction, after: Decision) -> bool:
    return (
        after.verdict not in recorded.verdicts or recorded.decision.is_draft is not after.is_draft
    )
