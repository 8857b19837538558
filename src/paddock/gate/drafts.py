"""Writes that were not carried out: kept to be looked at, discarded, or sent through the gate."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.gate.store import GateStore, check_fits
from paddock.journal.budget import RecordBudget
from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import Conflict, IntegrityError, NotFound


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
        """Keeps the write; its id tells the run and the step. Raises BudgetUsedUp."""
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
        """Oldest first."""
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
