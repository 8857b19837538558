"""Drafts: writes that were not carried out, and wait to be looked at, discarded or sent. A draft is
sent by letting it cross the gate once more, and only once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from paddock.gate.approvals.call_pattern import holds_secret
from paddock.gate.executors import Done, Live, Rebuild
from paddock.gate.store import GateStore, check_fits
from paddock.journal.budget import RecordBudget
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Effect, Kind, Outcome, Receipt, Verdict
from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound
from paddock.policy.decide import Policy

if TYPE_CHECKING:
    from paddock.gate.gate import Gate


class Draft(msgspec.Struct, frozen=True):
    """One write that waits. `state` is draft, sending, sent or discarded."""

    draft_id: str
    run: str
    agent: str
    step: int
    action: Action
    preview: Any
    made_at: float
    state: str
    changed_by: str | None = None
    sent_step: int | None = None


class Drafts:
    """All drafts of a home."""

    def __init__(self, store: GateStore, budget: RecordBudget | None = None) -> None:
        """`budget` is that of the run whose drafts are added."""
        self._store = store
        self._budget = budget

    def add(self, run: str, agent: str, step: int, action: Action, preview: Any) -> str:
        """Store the write; its id names the run and the step. Raises BudgetUsedUp."""
        draft_id = f"{run}-{step}"
        content = json.dumps({"action": action_as_json(action), "preview": preview}, default=repr)
        check_fits(self._budget, content, "the write was not kept as a draft")
        with self._store.connection() as connection:
            connection.execute(
                "INSERT INTO drafts (id, run, agent, step, content, made_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (draft_id, run, agent, step, content, time.time()),
            )
        return draft_id

    def all(self, *, run: str | None = None, state: str | None = "draft") -> list[Draft]:
        """Return all of them, oldest first."""
        rows = self._store.select("drafts", "made_at, id", run=run, state=state)
        return [_draft(row) for row in rows]

    def get(self, draft_id: str) -> Draft:
        with self._store.connection() as connection:
            row = connection.execute("SELECT * FROM drafts WHERE id = ?", (draft_id,)).fetchone()
        if row is None:
            raise NotFound(f"no draft {draft_id!r}", hint="paddock drafts list shows them")
        return _draft(row)

    def change(
        self,
        draft_id: str,
        state: str,
        by: str,
        *,
        was: str = "draft",
        sent_step: int | None = None,
    ) -> None:
        """Change a draft from one state to another. Raises Conflict for the second who tries."""
        with self._store.writing() as connection:
            changed = connection.execute(
                "UPDATE drafts SET state = ?, changed_at = ?, changed_by = ?,"
                " sent_step = ? WHERE id = ? AND state = ?",
                (state, time.time(), by, sent_step, draft_id, was),
            )
        if changed.rowcount != 1:
            present = self.get(draft_id)
            who = f" by {present.changed_by}" if present.changed_by else ""
            if present.state == state:
                raise Conflict(f"draft {draft_id} is {state}{who} already")
            raise Conflict(f"draft {draft_id} is {present.state}{who}, it cannot become {state}")


def action_as_json(action: Action) -> dict[str, Any]:
    """Return all of an action, to make it again."""
    return {
        "kind": str(action.kind),
        "name": action.name,
        "arguments": dict(action.arguments),
        "effect": str(action.effect),
        "is_reversible": action.is_reversible,
        "is_contained": action.is_contained,
        "context": dict(action.context),
    }


def action_from_json(value: Mapping[str, Any]) -> Action:
    return Action(
        kind=Kind(value["kind"]),
        name=str(value["name"]),
        arguments=dict(value["arguments"]),
        effect=Effect(value["effect"]),
        is_reversible=bool(value["is_reversible"]),
        is_contained=bool(value["is_contained"]),
        context=dict(value.get("context") or {}),
    )


def _draft(row: Any) -> Draft:
    try:
        return _read(row)
    except (ValueError, TypeError, KeyError):
        # Nobody knows what it was, so nobody may send it.
        raise IntegrityError(f"draft {row['id']!r} is damaged in the store") from None


def _read(row: Any) -> Draft:
    content = json.loads(row["content"])
    return Draft(
        draft_id=row["id"],
        run=row["run"],
        agent=row["agent"],
        step=row["step"],
        action=action_from_json(content["action"]),
        preview=content["preview"],
        made_at=row["made_at"],
        state=row["state"],
        changed_by=row["changed_by"],
        sent_step=row["sent_step"],
    )


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
    """Carry out a draft under the policy of `gate`: the stored action, or the one that its door
    made of it. Of two who send it one wins, the other gets Conflict. What was refused or
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
    """Raise Conflict for what is not a draft any more, InvalidInput for what cannot be sent."""
    check_waiting(draft)
    decision = policy.decide(draft.action if action is None else action)
    then = decision.once_approved if decision.verdict is Verdict.ASK else decision.verdict
    if then is Verdict.SIMULATE and decision.is_draft:
        raise InvalidInput(
            f"in the stage {policy.stage} it would only become a draft again",
            hint="send it under another stage: --stage approve",
        )


def check_waiting(draft: Draft) -> None:
    """Raise Conflict or InvalidInput unless it is a draft, and whole, whatever the policy says."""
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
