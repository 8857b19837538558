"""Carries out what was decided: really, by a stand-in, as a draft, or with a fault on purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from paddock.gate.crossing import Crossing
from paddock.gate.executors import Done, inject, refusal
from paddock.journal.errors import BudgetExceeded, JournalBroken
from paddock.journal.writer import Journal
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, Verdict
from paddock.policy.decide import Policy, is_contained

if TYPE_CHECKING:
    from paddock.gate.faults import FaultPhases, FaultPlan

KeepDraft = Callable[[Crossing], Awaitable[tuple[str, Any]]]  # its id, and its preview
MAX_EARLIER = 200
Tell = Callable[[str, Exception, int | None], None]


class Executors:
    """The executors of one run."""

    def __init__(self, journal: Journal, keep_draft: KeepDraft, tell: Tell) -> None:
        self._journal = journal
        self._keep_draft = keep_draft
        self._tell = tell
        self.keeps_answers = False  # of tools that read, for a fault that gives an old one again
        self._earlier: dict[str, Done] = {}

    async def carry_out(self, crossing: Crossing, verdict: Verdict) -> Done:
        """Carry out a decision and return what came of it. Whatever fails on the way is a
        refusal."""
        try:
            match verdict:
                case Verdict.ALLOW:
                    return await self._live(crossing)
                case Verdict.SIMULATE:
                    return await self._simulate(crossing)
                case Verdict.FAULT:
                    return await self._faulted(crossing)
                case Verdict.ASK | Verdict.BLOCK:
                    return refusal(crossing.decision.why)
        except JournalBroken:
            raise
        except BudgetExceeded as error:
            return refusal(error.message)
        except Exception as error:
            self._tell("carrying out", error, crossing.step)
            return refusal("It could not be carried out.")

    async def _live(self, crossing: Crossing) -> Done:
        action = crossing.action
        if crossing.decision.effect.is_write and not is_contained(action):
            await self._journal.durable(crossing.position)  # the intent, before the effect
        try:
            done = await crossing.handlers.live(action)
        except Exception as error:
            return Done(outcome=Outcome.FAILED, error=error)
        if (
            self.keeps_answers
            and action.kind is Kind.TOOL
            and not crossing.decision.effect.is_write
        ):
            self._keep(crossing, done)
        return done

    def _keep(self, crossing: Crossing, done: Done) -> None:
        if done.outcome is Outcome.DONE:
            self._earlier[_asked(crossing)] = done
            if len(self._earlier) > MAX_EARLIER:
                del self._earlier[next(iter(self._earlier))]

    async def _simulate(self, crossing: Crossing) -> Done:
        if not crossing.decision.is_draft:
            return await self._stood_in(crossing)
        draft_id, preview = await self._keep_draft(crossing)
        if crossing.handlers.simulate is not None:  # a draft that is answered as if it were sent
            done = await crossing.handlers.simulate(crossing.action)
            return replace(done, outcome=Outcome.DRAFTED, draft_id=draft_id)
        value = {"draft_id": draft_id, "preview": preview}
        return Done(value=value, outcome=Outcome.DRAFTED, draft_id=draft_id)

    async def _faulted(self, crossing: Crossing) -> Done:
        """Inject the fault: fail in place of the effect, or after it."""
        decision, fault = crossing.decision, crossing.decision.fault or {}
        if "id" not in fault:
            return await inject(fault)  # of a rule
        from paddock.gate.faults import error_of, fault_phases, wait_of  # most runs have none

        split, spoil = fault_phases(fault), crossing.handlers.spoil
        # A door that speaks to the agent keeps silence itself, and ends it with the agent.
        wait_s = wait_of({"delay": fault.get("delay", 0)} if spoil is not None else split.before)
        if wait_s:
            await asyncio.sleep(wait_s)
        if split.is_instead:
            return Done(outcome=Outcome.FAULTED, error=error_of(fault))
        if spoil is not None:
            spoil({**split.effect, **split.answer})
            return await self.carry_out(crossing, decision.once_approved)
        if "stale" in split.effect and (earlier := self._earlier.get(_asked(crossing))):
            return earlier
        if "duplicate" in split.effect:
            await self.carry_out(crossing, decision.once_approved)
        return _spoiled(await self.carry_out(crossing, decision.once_approved), fault, split)

    async def _stood_in(self, crossing: Crossing) -> Done:
        if crossing.handlers.simulate is None:
            return refusal(f"Nothing stands in for {crossing.action.name!r}.")
        return await crossing.handlers.simulate(crossing.action)


def fault_plan(policy: Policy) -> FaultPlan | None:
    """Return the faults on purpose of a file; None if it has none."""
    if not policy.faults:
        return None
    from paddock.gate.faults import FaultPlan

    return FaultPlan(policy.faults, 0 if policy.world is None else policy.world.seed)


def struck(
    faults: FaultPlan, decision: Decision, action: Action, *carriers: tuple[Action, Effect]
) -> Decision:
    """Return the decision that faults make of another one. A fault strikes only what would have
    been carried out. Faults on the requests that carry the action are asked first, and all are
    asked: what one of them counts does not depend on what another does."""
    then, step = decision.verdict, action.step or 0
    if then not in (Verdict.ALLOW, Verdict.SIMULATE):
        return decision
    strikes = []
    for candidate, effect in (*carriers, (action, decision.effect)):
        is_real = then is Verdict.ALLOW and candidate.kind is Kind.HTTP
        strikes.append(faults.strike(candidate, step, effect, is_real=is_real))
    fault = next((strike for strike in strikes if strike is not None), None)
    if fault is None:
        return decision
    why = "A fault on purpose."
    return replace(decision, verdict=Verdict.FAULT, decided_by=str(fault["id"]), why=why,
                   fault=fault, once_approved=then)  # fmt: skip


def _asked(crossing: Crossing) -> str:
    action = crossing.action
    return json.dumps([action.name, action.arguments], sort_keys=True, default=repr)


def _spoiled(done: Done, fault: Mapping[str, Any], split: FaultPhases) -> Done:
    """Return the result of a function behind a fault. The real outcome stays on record."""
    if done.outcome not in (Outcome.DONE, Outcome.SIMULATED):
        return done
    from paddock.gate.faults import error_of, spoiled_value

    if "after" in split.answer:
        return Done(outcome=Outcome.FAILED, error=error_of(fault), record=done.recorded)
    return replace(done, value=spoiled_value(done.value, split.answer), record=done.recorded)
