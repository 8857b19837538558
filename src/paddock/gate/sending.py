"""Sends a draft: the write that was kept crosses the gate once more, and only once."""

from __future__ import annotations

from dataclasses import replace

from paddock.gate.drafts import Draft, Drafts
from paddock.gate.exactly import holds_secret
from paddock.gate.executors import Live
from paddock.gate.gate import Gate
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Outcome, Receipt, Verdict
from paddock.model.errors import InvalidInput


async def send(drafts: Drafts, draft_id: str, gate: Gate, live: Live, by: str) -> Receipt:
    """Carries out a draft under the policy of `gate`. Of two who send it one wins, the other gets
    Conflict. What was refused or failed is a draft again; what came of a send that was interrupted
    is not known, so that it stays `sending`."""
    draft = drafts.get(draft_id)
    action = _to_send(draft, by)
    _check_sendable(draft, gate, action)
    drafts.change(draft_id, "sending", by)
    receipt = await gate.cross(action, live)
    if receipt.outcome is Outcome.DONE:
        drafts.change(draft_id, "sent", by, was="sending", sent_step=receipt.step)
    elif not _is_unknown(receipt):
        drafts.change(draft_id, "draft", by, was="sending")
    return receipt


def _to_send(draft: Draft, by: str) -> Action:
    context = {**draft.action.context, "draft": draft.draft_id, "sent_by": by}
    return replace(draft.action, context=context)


def _check_sendable(draft: Draft, gate: Gate, action: Action) -> None:
    if holds_secret(action.arguments):
        raise InvalidInput(
            f"draft {draft.draft_id} holds a secret that was masked when it was kept",
            hint="let the agent make the call again",
        )
    decision = gate.policy.decide(action)
    then = decision.once_approved if decision.verdict is Verdict.ASK else decision.verdict
    if then is Verdict.SIMULATE and decision.is_draft:
        raise InvalidInput(
            f"in the stage {gate.policy.stage} it would only become a draft again",
            hint="send it under another stage: --stage approve",
        )


def _is_unknown(receipt: Receipt) -> bool:
    """Whether it may have happened although nobody can say so."""
    return receipt.outcome is Outcome.FAILED and isinstance(receipt.exception, JournalBroken)
