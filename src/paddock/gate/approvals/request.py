"""Waits for a person's answer: puts the question to those whom the file names, and looks into the
store, where whoever is first has answered for all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from paddock.gate.approvals import (
    EDITED,
    PENDING,
    YES,
    Approval,
    Approvals,
    Question,
    digest_of,
    why_no,
)
from paddock.gate.crossing import Crossing
from paddock.gate.executors import Done, refusal
from paddock.model.action import Action
from paddock.model.events import Asked
from paddock.policy.decide import Policy

if TYPE_CHECKING:
    from paddock.gate.gate import Gate

_FIRST_LOOK_S, _LOOK_S = 0.02, 0.2
_LEAVE_S = 5.0  # for approvers to leave; one that hangs must not hold the run


class Approver(Protocol):
    """Somebody who can be asked here and now."""

    async def consider(self, approval: Approval, approvals: Approvals) -> None:
        """Answer through the store, or return without an answer. Cancelled when it is late."""
        ...


async def ask(
    gate: Gate, crossing: Crossing, preview: Any, approvers: Iterable[Approver]
) -> Done | Approval:
    """Return the answer that says yes, which is used up with that; or a refusal."""
    approval = _put_question(gate, crossing, preview)

    def check(approval: Approval, arguments: Mapping[str, Any]) -> None:
        from paddock.gate.approvals.argument_edits import check_decision, check_fields, rewritten

        shown = gate.records.masked_action(crossing.action).arguments
        check_fields(crossing.action.kind, shown, arguments)
        edited = rewritten(crossing, arguments, shown)
        check_decision(gate.policy, gate.accounts, crossing.action, edited)

    answer = await wait_for_answer(gate.approvals.checking(check), approval, approvers)
    gate.record(answer.as_event(), crossing.step)
    if answer.state not in YES:
        return replace(refusal(why_no(answer)), record={"approval": answer.approval_id})
    if approval.policy != gate.policy.digest:
        return refusal("The terms changed while it was asked. Try it again.")
    gate.approvals.use(answer, digest_of(crossing.action, gate.policy.digest, gate.run))
    return answer


def is_edited(answer: Approval) -> bool:
    """Return whether it says yes to something else than what was asked."""
    return answer.state == EDITED


def _put_question(gate: Gate, crossing: Crossing, preview: Any) -> Approval:
    masked = gate.records.masked_action(crossing.action)
    gate.approvals.keep_policy(gate.policy)
    approval = gate.approvals.ask(question_of(gate.policy, gate.run, crossing, masked, preview))
    try:
        gate.record(Asked(approval.approval_id, preview, approval.digest), crossing.step)
    except BaseException:
        gate.approvals.withdraw(approval.approval_id)
        raise
    return approval


def question_of(
    policy: Policy, run: str, crossing: Crossing, masked: Action, preview: Any
) -> Question:
    """Return the question about an action, which is shown as `masked`."""
    from paddock.gate.approvals.proposals import asking_terms  # most runs ask nobody

    action = crossing.action
    standing = policy.stand_in(action)
    return Question(
        run=run,
        agent=policy.agent,
        step=crossing.step,
        action=masked,
        decision=crossing.decision,
        preview=preview,
        policy=policy.digest,
        digest=digest_of(action, policy.digest, run),
        timeout_s=policy.approvals.timeout_s,
        terms=asking_terms(policy, action, crossing.decision),
        is_stood_in=standing is not None and not standing.is_real(action),
    )


async def wait_for_answer(
    approvals: Approvals, approval: Approval, approvers: Iterable[Approver]
) -> Approval:
    """Return the approval when it is not pending any more."""
    tasks = [
        asyncio.ensure_future(_consider(approver, approval, approvals)) for approver in approvers
    ]
    pause_s = _FIRST_LOOK_S
    try:
        while True:
            present = approvals.get(approval.approval_id)
            if present.state != PENDING:
                return present
            if present.left_s <= 0:
                return approvals.expire(approval.approval_id)
            await asyncio.sleep(min(pause_s, present.left_s + 0.001))
            pause_s = min(2 * pause_s, _LOOK_S)
    except BaseException:
        with contextlib.suppress(Exception):
            approvals.withdraw(approval.approval_id)
        raise
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LEAVE_S)


def login_name() -> str:
    """Return the person at this process, by the account and not by what the environment claims."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


async def _consider(approver: Approver, approval: Approval, approvals: Approvals) -> None:
    # An approver that fails has not answered; the others and the store go on.
    with contextlib.suppress(Exception):
        await approver.consider(approval, approvals)
