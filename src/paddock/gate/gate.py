"""The crossing. `cross(action)` is the only way to an effect: it is proposed, decided, asked where
that is wanted, carried out by the executor that the decision names, and settled. Every part is in
the journal; what cannot be recorded does not happen, and what fails on the way is a no.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from paddock.gate.alerts import Alerts
from paddock.gate.crossing import Crossing, StepObserver
from paddock.gate.execution import Executors, fault_plan, struck
from paddock.gate.executors import (
    ActionRefused,
    Done,
    Handlers,
    Live,
    Preview,
    Rebuild,
    Replay,
    Spoil,
    error_text,
    never,
    refusal,
)
from paddock.gate.ledger import NOTHING, Accounts, PastAction, Reservation
from paddock.gate.record_writer import RecordWriter
from paddock.gate.recorded_answers import NoRecordedAnswers, RecordedAnswers, ReplayDiverged
from paddock.gate.recorded_execution import RecordedExecution
from paddock.gate.refusals import Refusals
from paddock.gate.store import GateStore
from paddock.journal.errors import BudgetExceeded, JournalBroken
from paddock.journal.plain_values import as_json
from paddock.journal.secrets.mask import Masker
from paddock.journal.writer import Journal, JournalEntry
from paddock.model.action import Action, Decision, Effect, Outcome, Receipt, Verdict
from paddock.model.errors import InvalidInput, OutOfSpace
from paddock.model.events import AnyEvent, Decided, InternalError, PolicyChanged, Settled
from paddock.policy.decide import Policy

if TYPE_CHECKING:  # loaded when somebody is asked, or something is drafted or made to fail
    from paddock.gate.approvals import Approval, Approvals
    from paddock.gate.approvals.request import Approver
    from paddock.gate.drafts import Drafts


class Gate:
    """The gate of one run. May be used from any event loop."""

    def __init__(
        self,
        policy: Policy,
        journal: Journal,
        store: GateStore,
        *,
        masker: Masker | None = None,
        approvers: Sequence[Approver] = (),
        answers: RecordedAnswers | None = None,
    ) -> None:
        self.policy = policy
        self.run, self.conversations, self.store = journal.run, journal.conversations, journal.store
        self.store_bytes = journal.store_bytes
        self._store = store
        self._journal = journal
        self.records = RecordWriter(journal, masker)
        self.alerts = Alerts(self.records.record)
        self.refusals = Refusals(self.records.record)
        self.accounts = Accounts(store, policy.agent, journal.run)
        self._approvers = tuple(approvers)
        self._answers = answers or NoRecordedAnswers()
        self._recorded = RecordedExecution(self, self._answers)
        self.step_observer: StepObserver | None = None
        self.faults = fault_plan(policy)
        self.execution = Executors(journal, self._keep_draft, self._tell)
        self.execution.keeps_answers = any("stale" in fault.options for fault in policy.faults)
        self.count_from(1)

    @cached_property
    def approvals(self) -> Approvals:
        from paddock.gate.approvals import Approvals

        return Approvals(self._store, self._journal.budget)

    @cached_property
    def drafts(self) -> Drafts:
        from paddock.gate.drafts import Drafts

        return Drafts(self._store, self._journal.budget)

    async def cross(
        self,
        action: Action,
        live: Live,
        preview: Preview | None = None,
        rebuild: Rebuild | None = None,
        simulate: Live | None = None,
        spoil: Spoil | None = None,
        replay: Replay | None = None,
        carrier: Action | None = None,
    ) -> Receipt:
        """Carry out an action, or refuse it. A blocked action is a receipt, not an exception.

        `carrier` is the request that carries a question to a model, where that request is no step
        of its own: a fault on such requests strikes the question."""
        handlers = Handlers(live, preview, rebuild, simulate, spoil, replay, carrier)
        step = 0
        try:
            recorded = await self._answers.find(action)
            if recorded is not None:
                step = recorded.step
                return await self._recorded.carry_out(recorded, action, handlers)
            decision, reservation = self._decide(action)
            if (receipt := self._refused_again(action, decision)) is not None:
                self._release_refused(action, reservation)
                return receipt
            step = next(self._steps)
            crossing = self._propose(step, action, decision, reservation, handlers)
            return await self._carry_out(crossing)
        except ReplayDiverged as diverged:
            return self._refused(next(self._steps), action, "record", str(diverged))
        except JournalBroken as error:
            why = f"It could not be recorded, so it was not done: {error.message}"
            return Receipt(Outcome.REFUSED, step, error=why, exception=ActionRefused(why))

    async def _carry_out(self, crossing: Crossing) -> Receipt:
        if self.step_observer is None:
            return await self._finish(crossing)
        await self.step_observer.before(crossing.action)
        receipt = await self._finish(crossing)
        self.step_observer.after(receipt)
        return receipt

    def observe_steps(self, observer: StepObserver) -> None:
        """Have the state around each step recorded from now on."""
        self.step_observer = observer

    def change_policy(self, policy: Policy) -> None:
        """Decide by other terms from the next action on. Faults that were there go on counting."""
        counts = None if self.faults is None else self.faults.counts()
        self.policy, self.faults = policy, fault_plan(policy)
        if counts is not None and self.faults is not None:
            self.faults.restore(counts)
        self.execution.keeps_answers = any("stale" in fault.options for fault in policy.faults)
        self.record(PolicyChanged(policy.digest))

    def count_past(self, past: Iterable[PastAction]) -> None:
        """Count what was done under other terms for the limits of these."""
        self.accounts.count_anew(self.policy, past)

    def count_from(self, step: int, taken: Collection[int] = ()) -> None:
        """Set the number that the next new action gets, and those that are used already."""
        is_taken = frozenset(taken).__contains__
        self._steps = itertools.filterfalse(is_taken, itertools.count(step))

    def refuse(self, action: Action, decided_by: str, why: str) -> Receipt:
        """Record an action that its door cannot let pass, whatever the rules say."""
        try:
            recorded = self._answers.find_refused(action)
            if recorded is not None and recorded.is_repeat:
                return self._recorded.repeat(recorded.refused_for(decided_by, why), action)
            decision = Decision(Verdict.BLOCK, decided_by, why, action.effect)
            if recorded is None:
                receipt = self._refused_again(action, decision)
                if receipt is not None:
                    return receipt
        except ReplayDiverged as error:
            return self._refused(next(self._steps), action, "record", str(error))
        except JournalBroken as error:
            return Receipt(Outcome.REFUSED, 0, error=why, exception=error)
        step = next(self._steps) if recorded is None else recorded.step
        return self._refused(step, action, decided_by, why)

    def _refused(self, step: int, action: Action, decided_by: str, why: str) -> Receipt:
        action = action.at(step)
        decision = Decision(Verdict.BLOCK, decided_by, why, action.effect)
        try:
            proposed = self.records.proposed(action, step)
            decided = JournalEntry(Decided.of(decision, by_door=True), step)
            position = self.records.write(proposed, decided)
        except JournalBroken as error:
            return Receipt(Outcome.REFUSED, step, error=why, decision=decision, exception=error)
        crossing = Crossing(step, action, decision, NOTHING, position, Handlers(never))
        return self.settle(crossing, refusal(why))

    def lets_pass(self, action: Action) -> bool:
        """Return whether the action is allowed and counts for no limit: such a program is observed
        only, anything else has to cross."""
        decision = self.policy.decide(action)
        if self.faults is not None and self.faults.could_strike(action, decision.effect):
            return False
        return self.policy.lets_pass(action, decision)

    def is_step(self, request: Action) -> bool:
        """Return whether a request that carries a question to a model is a step of its own, around
        that of the question: when a rule or a limit has something to say about it. Faults are no
        reason: one that strikes the request strikes the question, and one that does not changes
        nothing. In a replay it is a step where it was one in the record."""
        if self._answers.has_request(request):
            return True
        return not self.policy.lets_pass(request, self.policy.decide(request))

    def needs_body(self, request: Action) -> bool:
        """Return whether a request that is decided on by its head is found in the record of an
        earlier run by its body alone."""
        return self._answers.needs_body(request)

    def observe(self, event: AnyEvent, step: int | None = None) -> None:
        """Record what the fence saw happen. It is written with the next record, or by `flush`."""
        self.records.observe(event, step)

    def flush(self) -> None:
        """Write what was observed. Raises JournalBroken."""
        self.records.flush()

    def record(self, event: AnyEvent, step: int | None = None) -> None:
        """Write an event that is neither part of a crossing nor an observation. Raises
        JournalBroken."""
        self.records.record(event, step)

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, ended_by: str | None = None) -> None:
        """End the journal with a signed head. `ended_by` says why the run is over."""
        self.refusals.flush()
        self.flush()
        self._journal.close(ended_by)

    def _propose(
        self,
        step: int,
        action: Action,
        decision: Decision,
        reservation: Reservation,
        handlers: Handlers,
        edits: int = 0,
    ) -> Crossing:
        action = action.at(step)
        decision = self._struck(action, decision, handlers.carrier)
        proposed = self.records.proposed(action, step)
        decided = JournalEntry(Decided.of(decision), step)
        try:
            position = self.records.write(proposed, decided)
        except BaseException:
            self._give_back(reservation)
            raise
        return Crossing(step, action, decision, reservation, position, handlers, edits)

    def _decide(self, action: Action) -> tuple[Decision, Reservation]:
        """Return what the rules say. Faults on purpose come later: they know the step."""
        try:
            reservation = self.accounts.reserve(self.policy, action)
            return self.policy.decide(action, reservation.spent), reservation
        except Exception as error:
            return self._undecided(action, error), NOTHING

    def _struck(self, action: Action, decision: Decision, carrier: Action | None) -> Decision:
        """Return the decision with a fault on purpose, where one strikes."""
        if self.faults is None:
            return decision
        try:
            return struck(self.faults, decision, action, *self.carried(carrier))
        except Exception as error:
            return self._undecided(action, error)

    def _undecided(self, action: Action, error: Exception) -> Decision:
        self._tell("deciding", error, action.step)
        why = "It could not be decided, and that means no."
        return Decision(Verdict.BLOCK, "error", why, Effect.ADMIN)

    def _refused_again(self, action: Action, decision: Decision) -> Receipt | None:
        """Return the receipt of a refusal that is only counted; None for any other action."""
        if decision.verdict is not Verdict.BLOCK:
            self.refusals.write_due()
            return None
        step = self.refusals.count(action, decision)
        if step is None:
            return None
        why = decision.why
        return Receipt(
            Outcome.REFUSED, step, error=why, decision=decision, exception=ActionRefused(why)
        )

    def _release_refused(self, action: Action, reservation: Reservation) -> None:
        if reservation.rows and not self.policy.spends(action, Outcome.REFUSED):
            self._give_back(reservation)

    def carried(self, carrier: Action | None) -> tuple[tuple[Action, Effect], ...]:
        """Return the request around a question to a model, with the effect that rules give it."""
        return () if carrier is None else ((carrier, self.policy.decide(carrier).effect),)

    async def _finish(self, crossing: Crossing, approved_by: str | None = None) -> Receipt:
        """Bring the action to its end: ask, carry out, settle. An action that somebody has approved
        is not asked again."""
        decision = crossing.decision
        verdict = decision.verdict if approved_by is None else decision.once_approved
        try:
            if verdict is Verdict.ASK:
                done, approved_by = await self._ask(crossing)
            else:
                done = await self.execution.carry_out(crossing, verdict)
        except JournalBroken:
            raise
        except BaseException as error:  # what came of it is not known: it may have happened
            why = f"It was interrupted: {type(error).__name__}"
            with contextlib.suppress(JournalBroken):
                self.settle(crossing, Done(outcome=Outcome.FAILED, error=why))
            raise
        if not isinstance(done, Done):
            return await self._edited(crossing, done)
        return self.settle(crossing._replace(answered_by=approved_by), done)

    async def _keep_draft(self, crossing: Crossing) -> tuple[str, Any]:
        preview = await self._previewed(crossing)
        action, agent = self.records.masked_action(crossing.action), self.policy.agent
        return self.drafts.add(self.run, agent, crossing.step, action, preview), preview

    async def _ask(self, crossing: Crossing) -> tuple[Done | Approval, str | None]:
        """Ask, and return what came of it and who said yes; or the answer that edits the action."""
        from paddock.gate.approvals.request import ask, is_edited

        try:
            preview = await self._previewed(crossing)
            answer = await ask(self, crossing, preview, self._approvers)
        except JournalBroken:
            raise
        except BudgetExceeded as error:
            return refusal(error.message), None
        except Exception as error:
            self._tell("asking", error, crossing.step)
            return refusal("It could not be asked, and that means no."), None
        if isinstance(answer, Done) or is_edited(answer):
            return answer, None
        done = await self.execution.carry_out(crossing, crossing.decision.once_approved)
        return done, answer.answered_by

    async def _edited(self, crossing: Crossing, answer: Approval) -> Receipt:
        """Carry out an edited action. The approver's own arguments are a new action, decided on
        like any other. The yes holds for what was asked; a rule that had not asked before asks
        again."""
        from paddock.gate.approvals import asked_by
        from paddock.gate.approvals.argument_edits import rewritten

        by = answer.answered_by
        try:
            shown = self.records.masked_action(crossing.action).arguments
            edited = rewritten(crossing, answer.edited or {}, shown)
        except Exception as error:
            why = error.message if isinstance(error, InvalidInput) else "It could not be edited."
            self._tell("editing", error, crossing.step)
            return self.settle(crossing, refusal(why))
        step = next(self._steps)
        instead = Done(None, {"edited_as": step}, Outcome.REFUSED, ActionRefused(f"{by} edited it"))
        self.settle(crossing, instead)
        decision, reservation = self._decide(edited.at(step))
        edits = crossing.edits + 1
        new = self._propose(step, edited, decision, reservation, crossing.handlers, edits)
        is_asked_anew = not set(asked_by(new.decision)) <= set(asked_by(crossing.decision))
        is_settled = new.decision.verdict is Verdict.ASK and not is_asked_anew
        return await self._finish(new, by if is_settled else None)

    def settle(self, crossing: Crossing, done: Done | Receipt) -> Receipt:
        if isinstance(done, Receipt):
            return done  # it was settled as another step, or with an answer
        if crossing.reservation.rows and not self.policy.spends(crossing.action, done.outcome):
            self._give_back(crossing.reservation)
        error = done.error
        if crossing.decision.verdict is Verdict.BLOCK and done.outcome is Outcome.REFUSED:
            self.refusals.add(crossing.action, crossing.decision, crossing.step)
        receipt = Receipt(
            outcome=done.outcome,
            step=crossing.step,
            result=done.value,
            error=error_text(error),
            decision=crossing.decision,
            answered_by=crossing.answered_by,
            draft_id=done.draft_id,
            cost=done.cost,
            exception=error if isinstance(error, BaseException) else None,
        )
        try:
            self._write_settled(receipt, done.recorded)
        except JournalBroken as broken:
            why = f"What came of it could not be recorded: {broken.message}"
            return replace(receipt, outcome=Outcome.FAILED, error=why, exception=broken)
        return receipt

    def _write_settled(self, receipt: Receipt, result: Any) -> None:
        settled = Settled(
            outcome=receipt.outcome,
            result=result,
            error=receipt.error,
            answered_by=receipt.answered_by,
            draft_id=receipt.draft_id,
            cost=dict(receipt.cost),
        )
        try:
            self.records.write(JournalEntry(settled, receipt.step))
        except JournalBroken:
            raise
        except Exception as error:  # a result that cannot be written must not hide that it happened
            self._tell("writing down a result", error, receipt.step)
            without_result = msgspec.structs.replace(settled, result=None, cost={})
            self.records.write(JournalEntry(without_result, receipt.step))

    async def _previewed(self, crossing: Crossing) -> Any:
        """Return what a dry run of the action gives, where it has one. It must not have an
        effect."""
        if crossing.handlers.preview is None:
            return None
        try:
            return self.records.masked(as_json(await crossing.handlers.preview(crossing.action)))
        except Exception as error:
            return self.records.masked({"error": f"no preview: {error_text(error)}"})

    def _give_back(self, reservation: Reservation) -> None:
        with contextlib.suppress(Exception):  # then it stays spent, which only tightens
            self.accounts.release(reservation)

    def _tell(self, doing: str, error: Exception, step: int | None) -> None:
        """Record an error of our own. The agent is told that it did, not what: paths and states of
        the host are not its business."""
        if isinstance(error, OutOfSpace):
            self._journal.tell_failure(error)
        with contextlib.suppress(Exception):
            self.record(InternalError(doing, error_text(error)), step)
