"""Questions that wait for a person, in a store that other processes see.

An approval is bound to one call: the digest covers the exact arguments, the policy and the run. It
is answered once and used once; what is not answered in time is no.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.gate.store import GateStore, check_fits
from paddock.journal.budget import RecordBudget
from paddock.model.action import Action, Decision, Verdict
from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound, PaddockError
from paddock.model.events import Answered
from paddock.policy.decide import Policy
from paddock.state import procstat

PENDING, APPROVED, DENIED, EDITED = "pending", "approved", "denied", "edited"
EXPIRED, WITHDRAWN = "expired", "withdrawn"
YES = (APPROVED, EDITED)


class Question(msgspec.Struct, frozen=True):
    """A question to a person. Everything in it is masked; it may be shown."""

    run: str
    agent: str
    step: int
    action: Action
    decision: Decision
    preview: Any
    policy: str
    digest: str
    timeout_s: float
    # The part of the policy that asks, as `proposals.asking_terms` gives it: to amend it later.
    terms: Mapping[str, Any] = {}
    is_stood_in: bool = False  # a stand-in answers: nothing real happens


class Approval(msgspec.Struct, frozen=True):
    """A question as it lies in the store, and its answer."""

    approval_id: str
    run: str
    agent: str
    step: int
    content: Mapping[str, Any]  # kind, name, arguments, effect, rules, why, preview
    digest: str
    policy: str
    asked_at: float
    expires_at: float
    state: str
    answered_by: str | None = None
    answered_at: float | None = None
    reason: str | None = None
    edited: Mapping[str, Any] | None = None

    @property
    def left_s(self) -> float:
        return max(0.0, self.expires_at - time.time())

    def as_event(self) -> Answered:
        """Return the answer for the journal."""
        waited_s = (self.answered_at or self.asked_at) - self.asked_at
        return Answered(
            approval=self.approval_id,
            state=self.state,
            by=self.answered_by,
            reason=self.reason,
            waited_us=int(1e6 * waited_s),
            edited=None if self.edited is None else dict(self.edited),
        )


def digest_of(action: Action, policy: str, run: str) -> str:
    """Return the digest that an approval is bound to: anything that changes it must be asked
    again."""
    bound = [run, policy, str(action.kind), action.name, action.arguments]
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


CheckEdit = Callable[[Approval, Mapping[str, Any]], object]  # raises InvalidInput


class Approvals:
    """All approvals of a home."""

    def __init__(
        self,
        store: GateStore,
        budget: RecordBudget | None = None,
        check_edit: CheckEdit | None = None,
    ) -> None:
        """`budget` is that of the run whose questions are put."""
        self._store = store
        self._budget = budget
        self._check_edit = check_edit

    def checking(self, check_edit: CheckEdit) -> Approvals:
        """Return the same approvals, which accept an edit only if it passes the check."""
        return Approvals(self._store, self._budget, check_edit)

    def keep_policy(self, policy: Policy) -> None:
        """Keep the terms under which questions are put, for whoever answers elsewhere."""
        with self._store.connection() as connection:
            row = connection.execute(
                "SELECT 1 FROM policies WHERE digest = ?", (policy.digest,)
            ).fetchone()
        if row is None:
            from paddock.policy.file import dump

            terms = policy.terms
            content = {"text": dump(policy), "base": terms.base, "file": terms.file}
            with self._store.writing() as connection:
                connection.execute(
                    "INSERT OR IGNORE INTO policies (digest, content) VALUES (?, ?)",
                    (policy.digest, json.dumps(content)),
                )

    def policy_of(self, approval: Approval) -> Policy | None:
        """Return the terms under which a question was put; None where they are not known here."""
        from paddock.policy.file import load

        with self._store.connection() as connection:
            row = connection.execute(
                "SELECT content FROM policies WHERE digest = ?", (approval.policy,)
            ).fetchone()
        if row is None:
            return None
        try:
            content = _object(row["content"])
            policy = load(content["text"], "its paddock file", content["base"], content["file"])
        except (ValueError, TypeError, KeyError, PaddockError):
            return None
        return policy if policy.digest == approval.policy else None

    @property
    def store(self) -> GateStore:
        return self._store

    def ask(self, question: Question) -> Approval:
        """Put a question; `request` waits for the answer. Raises BudgetUsedUp."""
        approval_id = secrets.token_hex(4)
        now = time.time()
        content = json.dumps(_content(question), default=repr)
        check_fits(self._budget, content, "nobody was asked, and that means no")
        with self._store.connection() as connection:
            connection.execute(
                "INSERT INTO approvals (id, run, agent, step, content, digest, policy, asked_at,"
                " expires_at, holder) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    approval_id,
                    question.run,
                    question.agent,
                    question.step,
                    content,
                    question.digest,
                    question.policy,
                    now,
                    now + question.timeout_s,
                    _holder(os.getpid()),
                ),
            )
        return self.get(approval_id)

    def get(self, approval_id: str) -> Approval:
        """Return the approval with an id, or with the beginning of one when that is enough."""
        with self._store.connection() as connection:
            rows = connection.execute(
                "SELECT * FROM approvals WHERE substr(id, 1, ?) = ? LIMIT 2",
                (len(approval_id), approval_id),
            ).fetchall()
        if not approval_id or not rows:
            raise NotFound(f"no approval {approval_id!r}", hint="paddock approvals shows them")
        if len(rows) > 1:
            raise InvalidInput(f"{approval_id!r} is the beginning of more than one approval")
        return _approval(rows[0])

    def all(self, *, state: str | None = PENDING, run: str | None = None) -> list[Approval]:
        """Return all questions, oldest first. Those whose time is up or whose asker is gone are
        closed on the way."""
        self.sweep()
        rows = self._store.select("approvals", "asked_at, id", state=state, run=run)
        return [_approval(row) for row in rows]

    def approve(self, approval_id: str, by: str, reason: str = "") -> Approval:
        return self._answer(approval_id, APPROVED, by, reason)

    def deny(self, approval_id: str, by: str, reason: str = "") -> Approval:
        return self._answer(approval_id, DENIED, by, reason)

    def edit(
        self, approval_id: str, by: str, arguments: Mapping[str, Any], reason: str = ""
    ) -> Approval:
        """Approve with other arguments; they are decided on again before anything happens. Raises
        InvalidInput for an edit that cannot be carried out."""
        if not isinstance(arguments, Mapping):
            raise InvalidInput("the edited arguments are not a mapping")
        try:
            edited = json.dumps(dict(arguments), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the edited arguments are not JSON: {error}") from None
        if self._check_edit is not None:
            self._check_edit(self.get(approval_id), arguments)
        return self._answer(approval_id, EDITED, by, reason, edited)

    def expire(self, approval_id: str) -> Approval:
        """Close a question whose time is up, unless it was answered in the same moment."""
        self._close(approval_id, EXPIRED)
        return self.get(approval_id)

    def withdraw(self, approval_id: str) -> None:
        """Record that the asker does not wait any more."""
        self._close(approval_id, WITHDRAWN)

    def use(self, approval: Approval, digest: str) -> None:
        """Use a yes, once, for exactly the call that it was given for."""
        if approval.digest != digest:
            raise Conflict("the approval was given for other arguments, another policy or run")
        with self._store.writing() as connection:
            used = connection.execute(
                "UPDATE approvals SET used_at = ? WHERE id = ? AND used_at IS NULL"
                " AND state IN (?, ?) AND digest = ?",
                (time.time(), approval.approval_id, *YES, digest),
            )
        if used.rowcount != 1:
            raise Conflict(f"the approval {approval.approval_id} is used already")

    def sweep(self, approval_id: str | None = None) -> None:
        """Close questions that are past their time, or whose asker is gone: all of them, or this
        one."""
        for row in self._pending_rows(approval_id):
            if row["expires_at"] <= time.time():
                self._close(row["id"], EXPIRED)
            elif not _is_alive(row["holder"]):
                self._close(row["id"], WITHDRAWN)

    def _pending_rows(self, approval_id: str | None) -> list[Any]:
        query = "SELECT id, expires_at, holder FROM approvals WHERE state = ?"
        values = [PENDING]
        if approval_id is not None:
            query, values = f"{query} AND id = ?", [PENDING, approval_id]
        with self._store.connection() as connection:
            return connection.execute(query, values).fetchall()

    def _answer(
        self, approval_id: str, state: str, by: str, reason: str, edited: str | None = None
    ) -> Approval:
        approval = self.get(approval_id)
        self.sweep(approval.approval_id)
        with self._store.writing() as connection:
            now = time.time()  # after the wait for other writers: an answer must be in time
            changed = connection.execute(
                "UPDATE approvals SET state = ?, answered_by = ?, answered_at = ?, reason = ?,"
                " edited = ? WHERE id = ? AND state = ? AND expires_at > ?",
                (state, by, now, reason or None, edited, approval.approval_id, PENDING, now),
            )
        if changed.rowcount != 1:
            self.sweep(approval.approval_id)  # its time may have run out just now
            raise Conflict(_too_late(self.get(approval.approval_id)))
        return self.get(approval.approval_id)

    def _close(self, approval_id: str, state: str) -> None:
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE approvals SET state = ?, answered_at = ? WHERE id = ? AND state = ?",
                (state, time.time(), approval_id, PENDING),
            )


def _too_late(present: Approval) -> str:
    name = f"approval {present.approval_id}"
    if present.state == EXPIRED:
        return f"{name} has expired; no answer in time means no"
    if present.state == WITHDRAWN:
        return f"{name}: the run that asked has ended"
    return f"{name} was {present.state} already by {present.answered_by}"


def _content(question: Question) -> dict[str, Any]:
    action, decision = question.action, question.decision
    return {
        "kind": str(action.kind),
        "name": action.name,
        "arguments": dict(action.arguments),
        "effect": str(decision.effect),
        "is_reversible": action.is_reversible,
        "is_contained": action.is_contained,
        "decided_by": decision.decided_by,
        "why": decision.why,
        "rules": [hit.rule_id for hit in decision.hits],
        "asked_by": asked_by(decision),
        "preview": question.preview,
        "context": dict(action.context),
        **({"terms": dict(question.terms)} if question.terms else {}),
        **({"is_stood_in": True} if question.is_stood_in else {}),
    }


def asked_by(decision: Decision) -> list[str]:
    """Return the rules that want a person to be asked, or what does so in place of a rule."""
    rules = [hit.rule_id for hit in decision.hits if hit.verdict is Verdict.ASK]
    return rules or [decision.decided_by]


def _approval(row: Any) -> Approval:
    try:
        return _read(row)
    except (ValueError, TypeError, AttributeError):
        # Whoever damaged it must not be able to have it approved.
        raise IntegrityError(f"approval {row['id']!r} is damaged in the store") from None


def _read(row: Any) -> Approval:
    edited = _object(row["edited"]) if row["edited"] else None
    return Approval(
        approval_id=row["id"],
        run=row["run"],
        agent=row["agent"],
        step=row["step"],
        content=_object(row["content"]),
        digest=row["digest"],
        policy=row["policy"],
        asked_at=row["asked_at"],
        expires_at=row["expires_at"],
        state=row["state"],
        answered_by=row["answered_by"],
        answered_at=row["answered_at"],
        reason=row["reason"],
        edited=edited,
    )


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _holder(pid: int) -> str:
    """Return a text that names one process: pids are used again, and each namespace has its own."""
    return f"{pid}:{_started(pid)}:{_pid_namespace()}"


def _is_alive(holder: str) -> bool:
    pid, _, rest = holder.partition(":")
    if rest.partition(":")[2] != _pid_namespace():
        return True  # that cannot be told from here; the time limit ends it
    return pid.isdecimal() and _holder(int(pid)) == holder


def _started(pid: int) -> str:
    try:
        fields = procstat.fields(pid)
    except OSError:
        return "gone"
    # A zombie has ended; its parent has not looked yet.
    is_over = fields[procstat.STATE] in (b"Z", b"X")
    return "gone" if is_over else fields[procstat.STARTED].decode()


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"


def why_no(answer: Approval) -> str:
    """Return why an action was not done, for the agent to read."""
    if answer.state == EXPIRED:
        return "Nobody answered in time, and that means no."
    if answer.answered_by is None:
        return "The question was withdrawn."
    return f"{answer.answered_by} said no" + (f": {answer.reason}" if answer.reason else ".")
