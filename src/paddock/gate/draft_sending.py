"""Sends a draft: the write that was kept crosses the gate once more, and only once."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from paddock.gate.approvals.cel_literals import holds_secret
from paddock.gate.drafts import Draft, Drafts
from paddock.gate.executors import Done, Live, Rebuild
from paddock.gate.gate import Gate
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Outcome, Receipt, Verdict
from paddock.model.errors import Conflict, InvalidInput
from paddock.policy.decide import Policy


class Uncertain(Exception):
    """A write set out and nobody knows whether it arrived. To send it again might do it twice."""


async def send(
    drafts: Drafts,
    draft_id: str,
    gate: Gate,
    live: Live,
    by: str,
    *,
    action: Action | None = None,
    rebuild: Rebuild | None = None,
) -> Receipt:
    """Carries out a draft under the policy of `gate`: the action that was kept, or the one that
    its door made of it. Of two who send it one wins, the other gets Conflict. What was refused or
    failed is a draft again; what was interrupted while it ran, or is uncertain, may have happened,
    so that it stays `sending`."""
    draft = drafts.get(draft_id)
    wanted = draft.action if action is None else action
    check_sendable(draft, gate.policy, wanted)
    has_begun = False

    async def watched(action: Action) -> Done:
        nonlocal has_begun
        has_begun = True
        return await live(action)

    async def predicted(action: Action) -> Any:
        return draft.preview if action.arguments == draft.action.arguments else None

    drafts.change(draft_id, "sending", by)
    try:
        receipt = await gate.cross(_signed(draft, wanted, by), watched, predicted, rebuild)
    except BaseException:
        if not has_begun:
            drafts.change(draft_id, "draft", by, was="sending")
        raise
    if receipt.outcome is Outcome.DONE:
        drafts.change(draft_id, "sent", by, was="sending", sent_step=receipt.step)
    elif not (has_begun and isinstance(receipt.exception, JournalBroken | Uncertain)):
        drafts.change(draft_id, "draft", by, was="sending")
    return receipt


def check_sendable(draft: Draft, policy: Policy, action: Action | None = None) -> None:
    """Raises Conflict for what is not a draft any more, InvalidInput for what cannot be sent."""
    check_waiting(draft)
    decision = policy.decide(draft.action if action is None else action)
    then = decision.once_approved if decision.verdict is Verdict.ASK else decision.verdict
    if then is Verdict.SIMULATE and decision.is_draft:
        raise InvalidInput(
            f"in the stage {policy.stage} it would only become a draft again",
            hint="send it under another stage: --stage approve",
        )


def check_waiting(draft: Draft) -> None:
    """Whether it is a draft, and whole; under which policy is another question."""
    if draft.state != "draft":
        who = f" by {draft.changed_by}" if draft.changed_by else ""
        raise Conflict(f"draft {draft.draft_id} is {draft.state}{who} already")
    if holds_secret(draft.action.arguments):
        raise InvalidInput(
            f"draft {draft.draft_id} holds a secret that was masked when it was kept",
            hint="let the agent make the call again",
        )


def _signed(draft: Draft, action: Action, by: str) -> Action:
    context = {**action.context, "draft": draft.draft_id, "sent_by": by}
    return replace(action, context=context)
