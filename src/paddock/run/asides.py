"""What went on beside an agent while its record was lived through again: how often it came, and
what it gets where the record has no answer for it. Nothing of it is ever carried out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from paddock.gate.past import Met
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, Verdict
from paddock.policy.decide import Policy
from paddock.run.matching.rows import Beside, Row

NOTHING_SAID = {"status": 204, "headers": {}}
_UNMADE = "A connection beside what the agent does is not made again."
_BY_DOOR = Decision(Verdict.BLOCK, "door", "Its door refused it.", Effect.WRITE)
_YES = (Verdict.ALLOW, Verdict.SIMULATE)


class Asides:
    """Counts them, and says at the end what there was."""

    def __init__(self, run: str, rows: Iterable[Row]) -> None:
        self._run = run
        self._known = {row.step for row in rows if row.beside is not None}
        self._came: set[int] = set()
        self._rules: dict[str, int] = {}
        self._is_told = False

    @property
    def count(self) -> int:
        """How many came, each as often as it did."""
        return sum(self._rules.values())

    def found(self, found: Beside, met: Met | None, action: Action, policy: Policy) -> Met:
        """What such an action gets: of its recorded step, or where there is none nothing."""
        self._count(found.rule)
        if met is None:
            return self._unrecorded(found.rule, action, policy)
        self._came.add(met.step)
        met = replace(met, beside=found.rule)
        if action.kind is Kind.CONNECT:
            return replace(met, outcome=Outcome.REFUSED, error=met.error or _UNMADE)
        return met

    def refused(self, rule: str) -> Met:
        """One that its door refuses by itself."""
        self._count(rule)
        return self._new(rule, _BY_DOOR, Outcome.REFUSED, _BY_DOOR.why)

    def told(self, until: int | None) -> dict[str, Any] | None:
        """The note about all of it, once, if there is anything to say."""
        known = {step for step in self._known if until is None or step < until}
        if self._is_told or not (known or self._rules):
            return None
        self._is_told = True
        return {
            "what": "beside",
            "rules": dict(sorted(self._rules.items())),
            "steps": len(self._came),
            "without_step": self.count - len(self._came),
            "left_out": len(known - self._came),
        }

    def _unrecorded(self, rule: str, action: Action, policy: Policy) -> Met:
        """Decided by the rules, which do not see what was spent; anything but a yes is a no."""
        decision = policy.decide(action)
        if decision.verdict not in _YES:
            return self._new(rule, decision, Outcome.REFUSED, decision.why)
        if action.kind is Kind.CONNECT:
            return self._new(rule, decision, Outcome.REFUSED, _UNMADE)
        return self._new(rule, decision, Outcome.DONE, None, NOTHING_SAID)

    def _new(
        self, rule: str, decision: Decision, outcome: Outcome, why: str | None, result: Any = None
    ) -> Met:
        return Met(self._run, 0, decision, outcome, result, why, is_repeat=True, beside=rule)

    def _count(self, rule: str) -> None:
        self._rules[rule] = self._rules.get(rule, 0) + 1
