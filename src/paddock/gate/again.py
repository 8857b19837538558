"""Gives again what came of an action in an earlier run. What stays inside the fence is carried out
again, because only so can the files be what they were; of everything else only the answer is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from paddock.gate.crossing import Crossing
from paddock.gate.executors import Done, Means, Refused, said_by
from paddock.gate.ledger import NOTHING
from paddock.gate.past import Edited, Met, Past
from paddock.journal.bodies import decided_body
from paddock.model.action import Action, Outcome, Receipt, Verdict

CarryOut = Callable[[Crossing, Verdict], Awaitable[Done]]
_HAPPENED = (Outcome.DONE, Outcome.FAILED)
_SENT = ("method", "host", "port", "path", "type", "body_bytes", "body_sha256")


class Recorder(Protocol):
    """Who writes down the state around each step, so that it can be had back."""

    async def before(self, action: Action) -> None:
        """When it has been decided on and is not carried out yet."""
        ...

    def after(self, receipt: Receipt) -> None: ...


def again_body(met: Met) -> dict[str, Any]:
    """The body of `decided` for a step that is answered from a record."""
    return {**decided_body(met.decision), "again": met.source}


def repeat_body(met: Met, action: Action) -> dict[str, Any]:
    """The body of `observed` for what has no step of its own."""
    said: dict[str, Any] = {"what": "again", "kind": str(action.kind), "name": action.name}
    if met.beside is None:
        return said
    sent = {key: action.arguments[key] for key in _SENT if key in action.arguments}
    answer = met.source if met.step else {"beside": met.beside}
    return {**said, "what": "beside", **sent, "outcome": str(met.outcome), "again": answer}


async def answered_beside(met: Met, action: Action, means: Means, carry_out: CarryOut) -> Receipt:
    """What goes on beside, and has no step of its own: it gets its answer all the same."""
    crossing = Crossing(met.step, action, met.decision, NOTHING, 0, means)
    done = await _answered(met, crossing, carry_out)
    error = done.error
    return Receipt(
        outcome=done.outcome,
        step=met.step,
        result=done.value,
        error=said_by(error),
        decision=met.decision,
        draft_id=met.draft_id,
        exception=error if isinstance(error, BaseException) else None,
    )


async def carried_out_again(past: Past, met: Met, crossing: Crossing, carry_out: CarryOut) -> Done:
    """What the agent gets, and what the journal of this run says came of it."""
    if crossing.action.is_contained and met.outcome in _HAPPENED:
        _spoil(met, crossing.means)
        try:
            return await crossing.means.live(crossing.action)
        finally:
            past.over(met)
    await past.turn(met)
    try:
        return await _answered(met.last, crossing, carry_out)
    finally:
        past.over(met)


def edited_again(crossing: Crossing, new: Edited, position: int) -> Crossing:
    """The crossing of what an approver made of an action, in place of that."""
    return crossing._replace(
        step=new.met.step,
        action=new.action.at(new.met.step),
        decision=new.met.decision,
        position=position,
        answered_by=new.met.answered_by,
    )


async def _answered(met: Met, crossing: Crossing, carry_out: CarryOut) -> Done:
    words = met.decision.fault
    if met.is_silent and crossing.means.again is not None:
        return replace(await crossing.means.again(crossing.action, met), draft_id=met.draft_id)
    match met.outcome:
        case Outcome.REFUSED:
            why = Refused(met.error or "It was refused.")
            return Done(record=met.result, outcome=Outcome.REFUSED, error=why)
        case Outcome.DRAFTED if not _was_answered(met):
            return as_it_was(met)  # its door says what it says of any draft
        case Outcome.FAULTED if words is not None and ("id" not in words or _is_instead(words)):
            return await carry_out(crossing, Verdict.FAULT)  # it never had an effect
    means = crossing.means
    if means.again is None:
        return as_it_was(met)
    _spoil(met, means)
    return replace(await means.again(crossing.action, met), draft_id=met.draft_id)


def _spoil(met: Met, means: Means) -> None:
    """A fault on purpose strikes again what it struck."""
    words = met.decision.fault
    if words is None or "id" not in words or means.spoil is None:
        return
    from paddock.gate.faults import lasting

    split = lasting(words)
    means.spoil({**split.effect, **split.answer})


def as_it_was(met: Met) -> Done:
    """What came of it, where that is all."""
    return Done(
        value=met.result,
        outcome=met.outcome,
        error=met.error,
        cost=met.cost,
        draft_id=met.draft_id,
    )


def _was_answered(met: Met) -> bool:
    """Whether a stand-in answered a draft as if it had been sent."""
    return isinstance(met.result, Mapping) and "status" in met.result


def _is_instead(words: Mapping[str, Any]) -> bool:
    from paddock.gate.faults import lasting

    return lasting(words).is_instead
