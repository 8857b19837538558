"""Background traffic during a replay: how often it came, and what it gets where the record has no
answer for it. None of it is ever carried out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from paddock.gate.recorded_answers import RecordedOutcome
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, Verdict
from paddock.model.events import BackgroundCounted
from paddock.policy.decide import Policy
from paddock.run.matching.recorded_step import Background, RecordedStep

EMPTY_ANSWER = {"status": 204, "headers": {}}
_NOT_CONNECTED = "A connection of background traffic is not made again."
_BY_DOOR = Decision(Verdict.BLOCK, "door", "Its door refused it.", Effect.WRITE)
_YES = (Verdict.ALLOW, Verdict.SIMULATE)


class BackgroundTraffic:
    """Counts background traffic, and says at the end what there was."""

    def __init__(self, run: str, steps: Iterable[RecordedStep]) -> None:
        self._run = run
        self._recorded = {step.number for step in steps if step.background is not None}
        self._came: set[int] = set()
        self._rules: dict[str, int] = {}
        self._is_reported = False

    @property
    def count(self) -> int:
        """The number of background actions that came."""
        return sum(self._rules.values())

    def outcome(
        self, match: Background, recorded: RecordedOutcome | None, action: Action, policy: Policy
    ) -> RecordedOutcome:
        """Return what such an action gets: the outcome of its recorded step; where there is none,
        an empty answer."""
        self._count(match.rule)
        if recorded is None:
            return self._unrecorded(match.rule, action, policy)
        self._came.add(recorded.step)
        recorded = replace(recorded, background=match.rule)
        if action.kind is Kind.CONNECT:
            error = recorded.error or _NOT_CONNECTED
            return replace(recorded, outcome=Outcome.REFUSED, error=error)
        return recorded

    def refused(self, rule: str) -> RecordedOutcome:
        """Return the outcome of traffic that its door refuses by itself."""
        self._count(rule)
        return self._new(rule, _BY_DOOR, Outcome.REFUSED, _BY_DOOR.why)

    def report(self, until: int | None) -> BackgroundCounted | None:
        """Return the event about all of it, once, if there is anything to report."""
        recorded = {step for step in self._recorded if until is None or step < until}
        if self._is_reported or not (recorded or self._rules):
            return None
        self._is_reported = True
        return BackgroundCounted(
            rules=dict(sorted(self._rules.items())),
            steps=len(self._came),
            without_step=self.count - len(self._came),
            left_out=len(recorded - self._came),
        )

    def _unrecorded(self, rule: str, action: Action, policy: Policy) -> RecordedOutcome:
        """Decide by the rules alone, which do not see what was spent; anything but a yes is a
        no."""
        decision = policy.decide(action)
        if decision.verdict not in _YES:
            return self._new(rule, decision, Outcome.REFUSED, decision.why)
        if action.kind is Kind.CONNECT:
            return self._new(rule, decision, Outcome.REFUSED, _NOT_CONNECTED)
        return self._new(rule, decision, Outcome.DONE, None, EMPTY_ANSWER)

    def _new(
        self, rule: str, decision: Decision, outcome: Outcome, why: str | None, result: Any = None
    ) -> RecordedOutcome:
        return RecordedOutcome(
            self._run, 0, decision, outcome, result, why, is_repeat=True, background=rule
        )

    def _count(self, rule: str) -> None:
        self._rules[rule] = self._rules.get(rule, 0) + 1
