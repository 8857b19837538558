"""Carries out actions whose outcome is on record.

The recorded decision is taken with the recorded answer. What stays inside the fence is carried out
again, because only so can the files be what they were; of everything else only the answer is given.
What was spent counts again, and faults go on counting, so that what follows live has the same
budget and the same chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from paddock.gate.crossing import Crossing
from paddock.gate.executors import ActionRefused, Done, Handlers, error_text
from paddock.gate.ledger import NOTHING
from paddock.gate.recorded_answers import EditedStep, RecordedAnswers, RecordedOutcome
from paddock.journal.writer import JournalEntry
from paddock.model.action import Action, Outcome, Receipt, Verdict
from paddock.model.events import BackgroundAnswered, Decided, RecordedSource, ReplayRepeated

if TYPE_CHECKING:
    from paddock.gate.gate import Gate

_HAPPENED = (Outcome.DONE, Outcome.FAILED)
_CARRIED_OUT = (Verdict.ALLOW, Verdict.SIMULATE, Verdict.FAULT)
_SENT = ("method", "host", "port", "path", "type", "body_bytes", "body_sha256")


class RecordedExecution:
    """The executor of recorded outcomes, for one gate."""

    def __init__(self, gate: Gate, answers: RecordedAnswers) -> None:
        self._gate = gate
        self._answers = answers

    async def carry_out(
        self, recorded: RecordedOutcome, action: Action, handlers: Handlers
    ) -> Receipt:
        """Let what came of the action in the recorded run come of it again."""
        gate = self._gate
        action = action.at(recorded.step)
        if recorded.is_repeat:
            receipt = self.repeat(recorded, action)
            if recorded.background is None:
                return receipt
            return await self._answer_background(recorded, action, handlers)
        proposed = gate.records.proposed(action, recorded.step)
        decided = JournalEntry(_decided_event(recorded), recorded.step)
        position = gate.records.write(proposed, decided)
        crossing = Crossing(
            recorded.step,
            action,
            recorded.decision,
            NOTHING,
            position,
            handlers,
            answered_by=recorded.answered_by,
        )
        self._count(recorded, action, handlers.carrier)
        # Background traffic comes at any time: the files then are no state of its step.
        if gate.step_observer is not None and recorded.background is None:
            await gate.step_observer.before(action)
        crossing = self._settle_edits(recorded, crossing)
        done = await self._carry_out(recorded, crossing)
        if recorded.inner:
            gate.records.write(*recorded.inner)
        return gate.settle(crossing, done)

    def repeat(self, recorded: RecordedOutcome, action: Action) -> Receipt:
        """Answer an action that the record has as an earlier step, and that has no step of its
        own."""
        gate = self._gate
        if recorded.outcome is Outcome.REFUSED and recorded.background is None:
            gate.refusals.repeat(action, recorded.decision, recorded.step)
            why = recorded.error or "It was refused."
            return Receipt(
                recorded.outcome,
                recorded.step,
                error=why,
                decision=recorded.decision,
                exception=ActionRefused(why),
            )
        gate.observe(_repeat_event(recorded, action), recorded.step or None)
        gate.flush()  # it may come without end, and nothing else
        return Receipt(
            recorded.outcome, recorded.step, recorded.result, recorded.error, recorded.decision
        )

    def _settle_edits(self, recorded: RecordedOutcome, crossing: Crossing) -> Crossing:
        """Record what approvers made of the action, one edit after the other. Return the crossing
        of the last."""
        gate = self._gate
        before = recorded
        for edit in recorded.edits:
            gate.settle(crossing, _done_as_recorded(before))
            crossing = _edited_crossing(crossing, edit, gate.records.write(*edit.entries))
            before = edit.outcome
            self._count(before, crossing.action)
        return crossing

    async def _carry_out(self, recorded: RecordedOutcome, crossing: Crossing) -> Done:
        if crossing.action.is_contained and recorded.outcome in _HAPPENED:
            _spoil(recorded, crossing.handlers)
            try:
                return await crossing.handlers.live(crossing.action)
            finally:
                self._answers.over(recorded)
        await self._answers.turn(recorded)
        try:
            return await self._answer(recorded.last, crossing)
        finally:
            self._answers.over(recorded)

    async def _answer(self, recorded: RecordedOutcome, crossing: Crossing) -> Done:
        fault, handlers = recorded.decision.fault, crossing.handlers
        if recorded.is_unseen and handlers.replay is not None:
            done = await handlers.replay(crossing.action, recorded)
            return replace(done, draft_id=recorded.draft_id)
        match recorded.outcome:
            case Outcome.REFUSED:
                why = ActionRefused(recorded.error or "It was refused.")
                return Done(record=recorded.result, outcome=Outcome.REFUSED, error=why)
            case Outcome.DRAFTED if not _was_answered(recorded):
                return _done_as_recorded(recorded)  # its door says what it says of any draft
            case Outcome.FAULTED if fault is not None and _never_had_an_effect(fault):
                return await self._gate.execution.carry_out(crossing, Verdict.FAULT)
        if handlers.replay is None:
            return _done_as_recorded(recorded)
        _spoil(recorded, handlers)
        done = await handlers.replay(crossing.action, recorded)
        return replace(done, draft_id=recorded.draft_id)

    async def _answer_background(
        self, recorded: RecordedOutcome, action: Action, handlers: Handlers
    ) -> Receipt:
        """Answer background traffic that has no step of its own."""
        crossing = Crossing(recorded.step, action, recorded.decision, NOTHING, 0, handlers)
        done = await self._answer(recorded, crossing)
        error = done.error
        return Receipt(
            outcome=done.outcome,
            step=recorded.step,
            result=done.value,
            error=error_text(error),
            decision=recorded.decision,
            draft_id=recorded.draft_id,
            exception=error if isinstance(error, BaseException) else None,
        )

    def _count(
        self, recorded: RecordedOutcome, action: Action, carrier: Action | None = None
    ) -> None:
        """Count what was spent again, and let faults strike again what they struck."""
        gate = self._gate
        gate.accounts.count_again(gate.policy, action, recorded.outcome)
        if gate.faults is None or recorded.decision.verdict not in _CARRIED_OUT:
            return
        gate.faults.strike(action, recorded.step, recorded.decision.effect)
        for request, effect in gate.carried(carrier):
            gate.faults.strike(request, recorded.step, effect)


def _decided_event(recorded: RecordedOutcome) -> Decided:
    decided = Decided.of(recorded.decision)
    return msgspec.structs.replace(decided, replayed_from=recorded.source)


def _repeat_event(recorded: RecordedOutcome, action: Action) -> ReplayRepeated | BackgroundAnswered:
    if recorded.background is None:
        return ReplayRepeated(action.kind, action.name)
    sent = {key: action.arguments[key] for key in _SENT if key in action.arguments}
    source = recorded.source if recorded.step else RecordedSource(background=recorded.background)
    return BackgroundAnswered(
        action.kind, action.name, outcome=recorded.outcome, replayed_from=source, **sent
    )


def _edited_crossing(crossing: Crossing, edit: EditedStep, position: int) -> Crossing:
    """Return the crossing of what an approver made of an action, in place of that."""
    step = edit.outcome.step
    return crossing._replace(
        step=step,
        action=edit.action.at(step),
        decision=edit.outcome.decision,
        position=position,
        answered_by=edit.outcome.answered_by,
    )


def _done_as_recorded(recorded: RecordedOutcome) -> Done:
    return Done(
        value=recorded.result,
        outcome=recorded.outcome,
        error=recorded.error,
        cost=recorded.cost,
        draft_id=recorded.draft_id,
    )


def _spoil(recorded: RecordedOutcome, handlers: Handlers) -> None:
    """Have an injected fault spoil again the answer that it spoiled."""
    fault = recorded.decision.fault
    if fault is None or "id" not in fault or handlers.spoil is None:
        return
    from paddock.gate.faults import fault_phases

    split = fault_phases(fault)
    handlers.spoil({**split.effect, **split.answer})


def _was_answered(recorded: RecordedOutcome) -> bool:
    """Return whether a stand-in answered a draft as if it had been sent."""
    return isinstance(recorded.result, Mapping) and "status" in recorded.result


def _never_had_an_effect(fault: Mapping[str, Any]) -> bool:
    if "id" not in fault:
        return True
    from paddock.gate.faults import fault_phases

    return fault_phases(fault).is_instead
