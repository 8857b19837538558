"""Approvals: bound to one call, answered once, used once, and no where nobody said yes."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.gate.approvals import (
    APPROVED,
    DENIED,
    EXPIRED,
    PENDING,
    WITHDRAWN,
    Approval,
    Approvals,
    Question,
    digest_of,
)
from paddock.gate.store import GateStore
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, RuleHit, Verdict
from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound
from unit.gate.conftest import Opener
from unit.gate.gates import REFUNDS, Tool, answered, asked, finished, python, records, refund

ASKS = Decision(
    Verdict.ASK,
    "big-refunds",
    "Refunds over 50.00 need a person.",
    Effect.WRITE,
    (RuleHit("big-refunds", Verdict.ASK, "why"), RuleHit("grant", Verdict.ALLOW, "")),
)


def question(action: Action | None = None, **changes: Any) -> Question:
    action = action or refund(9000)
    usual = Question("run-1", "support-bot", 1, action, ASKS, None, "p", "", 30.0)
    digest = digest_of(action, "p", "run-1")
    return replace(usual, digest=digest, **changes)


# ---- in the store --------------------------------------------------------------------------------


def test_question_is_seen_by_other_processes_with_all_that_was_asked(
    approvals: Approvals, tmp_path: Path
) -> None:
    one = approvals.ask(question())
    program = (
        "import json, sys; from pathlib import Path\n"
        "from paddock.gate.approvals import Approvals\n"
        "from paddock.gate.store import GateStore\n"
        "found = Approvals(GateStore(Path(sys.argv[1]))).all()\n"
        "print(json.dumps([[x.approval_id, x.run, x.step, x.content] for x in found]))\n"
    )
    found = json.loads(finished(python(program, tmp_path / "gate.sqlite")))
    assert [row[:3] for row in found] == [[one.approval_id, "run-1", 1]]
    content = found[0][3]
    assert content["arguments"] == {"amount": 9000, "customer": "ada"}
    assert content["asked_by"] == ["big-refunds"]
    assert content["rules"] == ["big-refunds", "grant"]
    assert content["is_reversible"] is False


def test_beginning_of_an_id_is_enough_unless_it_fits_two(approvals: Approvals) -> None:
    found = [approvals.ask(question()) for _ in range(17)]  # 16 first digits
    assert approvals.get(found[0].approval_id).approval_id == found[0].approval_id
    twice = next(
        one.approval_id[0]
        for one in found
        if sum(other.approval_id[0] == one.approval_id[0] for other in found) > 1
    )
    with pytest.raises(InvalidInput, match="more than one"):
        approvals.get(twice)
    for word in ("", "zz", "%", "_" * 8):
        with pytest.raises(NotFound):
            approvals.get(word)


def test_second_answer_is_told_who_gave_the_first(approvals: Approvals) -> None:
    one = approvals.ask(question())
    approvals.deny(one.approval_id, "ann", "too much")
    with pytest.raises(Conflict, match="denied already by ann"):
        approvals.approve(one.approval_id, "bob")
    kept = approvals.get(one.approval_id)
    assert (kept.state, kept.answered_by, kept.reason) == (DENIED, "ann", "too much")


def test_yes_is_used_once_and_only_for_its_digest(approvals: Approvals) -> None:
    one = approvals.ask(question())
    given = approvals.approve(one.approval_id, "ann")
    with pytest.raises(Conflict, match="other arguments"):
        approvals.use(given, digest_of(refund(9001), "p", "run-1"))
    approvals.use(given, one.digest)
    with pytest.raises(Conflict, match="used already"):
        approvals.use(given, one.digest)


@pytest.mark.parametrize("answer", ["pending", "deny", "expire", "withdraw"])
def test_what_is_no_yes_cannot_be_used(approvals: Approvals, answer: str) -> None:
    one = approvals.ask(question())
    if answer == "deny":
        approvals.deny(one.approval_id, "ann")
    elif answer != "pending":
        getattr(approvals, answer)(one.approval_id)
    with pytest.raises(Conflict):
        approvals.use(approvals.get(one.approval_id), one.digest)
    with pytest.raises(Conflict):  # also when the caller claims that it was a yes
        approvals.use(replace(one, state=APPROVED), one.digest)


def test_expired_question_cannot_be_answered(approvals: Approvals) -> None:
    one = approvals.ask(question(timeout_s=0.0))
    with pytest.raises(Conflict, match="no answer in time means no"):
        approvals.approve(one.approval_id, "ann")
    assert approvals.get(one.approval_id).state == EXPIRED


def test_time_that_runs_out_while_an_answer_is_given_means_no(
    approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = approvals.ask(question(timeout_s=0.0))
    swept: list[str | None] = []
    sweep = approvals.sweep

    def late(approval_id: str | None = None) -> None:
        if swept:  # not before the answer: as if the time were up only then
            sweep(approval_id)
        swept.append(approval_id)

    monkeypatch.setattr(approvals, "sweep", late)
    with pytest.raises(Conflict, match="has expired"):
        approvals.approve(one.approval_id, "ann")


@pytest.mark.parametrize(
    "changed",
    [
        lambda: digest_of(refund(9001), "p", "run-1"),
        lambda: digest_of(refund(9000, "eve"), "p", "run-1"),
        lambda: digest_of(refund(9000, more=None), "p", "run-1"),
        lambda: digest_of(refund(9000), "q", "run-1"),
        lambda: digest_of(refund(9000), "p", "run-2"),
        lambda: digest_of(replace(refund(9000), name="other"), "p", "run-1"),
        lambda: digest_of(replace(refund(9000), kind=Kind.HTTP), "p", "run-1"),
    ],
)
def test_digest_changes_with_arguments_policy_run_and_call(changed: Any) -> None:
    assert changed() != digest_of(refund(9000), "p", "run-1")


def test_digest_does_not_depend_on_the_order_of_arguments() -> None:
    one = Action(Kind.TOOL, "t", {"a": 1, "b": {"c": 2, "d": 3}})
    other = Action(Kind.TOOL, "t", {"b": {"d": 3, "c": 2}, "a": 1})
    assert digest_of(one, "p", "r") == digest_of(other, "p", "r")


@pytest.mark.parametrize("arguments", [[1], "x", {"a": float("nan")}, {"a": object()}])
def test_edit_that_is_no_json_object_is_refused_and_leaves_the_question(
    approvals: Approvals, arguments: Any
) -> None:
    one = approvals.ask(question())
    with pytest.raises(InvalidInput):
        approvals.edit(one.approval_id, "ann", arguments)
    assert approvals.get(one.approval_id).state == PENDING


@pytest.mark.parametrize("content", ["{", "[]", "null", '"x"'])
def test_damaged_question_cannot_be_answered(
    approvals: Approvals, tmp_path: Path, content: str
) -> None:
    one = approvals.ask(question())
    with sqlite3.connect(tmp_path / "gate.sqlite") as other:
        other.execute("UPDATE approvals SET content = ?", (content,))
    other.close()
    with pytest.raises(IntegrityError, match="damaged"):
        approvals.approve(one.approval_id, "ann")


# ---- whoever asked is gone -----------------------------------------------------------------------

ASKER = """
import sys; from pathlib import Path
from paddock.gate.approvals import Approvals
from paddock.gate.store import GateStore
from unit.gate.approvals.test_questions import question
print(Approvals(GateStore(Path(sys.argv[1]))).ask(question()).approval_id, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_reaped", [True, False])
def test_approval_of_a_dead_run_is_withdrawn(
    approvals: Approvals, tmp_path: Path, is_reaped: bool
) -> None:
    asker = python(ASKER, tmp_path / "gate.sqlite", stdin=subprocess.PIPE)
    assert asker.stdout is not None
    approval_id = asker.stdout.readline().strip()
    assert [one.approval_id for one in approvals.all()] == [approval_id]
    asker.kill()
    if is_reaped:
        asker.wait(30)
    else:  # a zombie, which its parent has not looked at
        os.waitid(os.P_PID, asker.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(Conflict, match="the run that asked has ended"):
        approvals.approve(approval_id, "ann")
    assert approvals.get(approval_id).state == WITHDRAWN
    assert approvals.all() == []
    asker.communicate()


def test_question_of_another_pid_namespace_is_left_alone(
    approvals: Approvals, store: GateStore
) -> None:
    one = approvals.ask(question())
    with store.writing() as connection:
        connection.execute("UPDATE approvals SET holder = '4000000:17:pid:[1]'")
    assert [found.approval_id for found in approvals.all()] == [one.approval_id]


def test_question_is_withdrawn_when_the_asker_is_cancelled(opener: Opener) -> None:
    gate, tool = opener(), Tool()

    async def cross() -> Approval:
        task = asyncio.ensure_future(gate.cross(refund(9000), tool))
        (one,) = await asked(gate.approvals)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return gate.approvals.get(one.approval_id)

    assert asyncio.run(cross()).state == WITHDRAWN
    assert tool.calls == []


# ---- through the gate ----------------------------------------------------------------------------


def test_no_and_its_reason_reach_the_agent_and_the_journal(opener: Opener, tmp_path: Path) -> None:
    gate, tool = opener(), Tool()
    crossing = gate.cross(refund(9000), tool)
    receipt = asyncio.run(
        answered(gate, crossing, lambda one: gate.approvals.deny(one.approval_id, "ann", "why?"))
    )
    assert (receipt.outcome, receipt.error) == (Outcome.REFUSED, "ann said no: why?")
    assert tool.calls == []
    assert [kind for kind, _ in records(tmp_path)] == [
        "proposed", "decided", "asked", "answered", "settled",
    ]  # fmt: skip


def test_nobody_answers_and_that_means_no(opener: Opener) -> None:
    gate, tool = opener(REFUNDS.replace("30s", "1s")), Tool()
    receipt = asyncio.run(gate.cross(refund(9000), tool))
    assert receipt.outcome is Outcome.REFUSED
    assert "Nobody answered in time" in (receipt.error or "")
    assert tool.calls == []
    assert gate.approvals.all(state=EXPIRED)


def test_same_call_asks_again_after_it_was_approved(opener: Opener) -> None:
    gate, tool = opener(), Tool()
    given: list[str] = []

    def yes(one: Approval) -> None:
        given.append(gate.approvals.approve(one.approval_id, "ann").approval_id)

    async def twice() -> None:
        for _ in range(2):
            await answered(gate, gate.cross(refund(9000), tool), yes)

    asyncio.run(twice())
    assert len(set(given)) == 2
    assert len(tool.calls) == 2


def test_arguments_that_change_while_the_question_waits_are_not_carried_out(
    opener: Opener,
) -> None:
    gate, tool, action = opener(), Tool(), refund(9000)

    def swap(one: Approval) -> None:
        action.arguments["amount"] = 80000  # type: ignore[index]
        gate.approvals.approve(one.approval_id, "ann")

    receipt = asyncio.run(answered(gate, gate.cross(action, tool), swap))
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []


def test_yes_for_one_run_does_not_pass_in_another(opener: Opener, approvals: Approvals) -> None:
    first, second, tool = opener(run="run-a"), opener(run="run-b"), Tool()

    async def cross() -> None:
        tasks = [asyncio.ensure_future(gate.cross(refund(9000), tool)) for gate in (first, second)]
        for one in await asked(approvals, 2):
            if one.run == "run-a":
                approvals.approve(one.approval_id, "ann")
            else:
                approvals.deny(one.approval_id, "ann")
        outcomes = [receipt.outcome for receipt in await asyncio.gather(*tasks)]
        assert outcomes == [Outcome.DONE, Outcome.REFUSED]

    asyncio.run(cross())
    assert len(tool.calls) == 1


def test_yes_under_another_policy_does_not_pass(opener: Opener) -> None:
    old, new = opener(run="a"), opener(REFUNDS.replace("50.00", "fifty"), run="b")
    assert old.policy.digest != new.policy.digest
    one = old.approvals.ask(question(refund(9000)))
    given = old.approvals.approve(one.approval_id, "ann")
    with pytest.raises(Conflict):
        new.approvals.use(given, digest_of(refund(9000), new.policy.digest, "run-1"))


# ---- edits ---------------------------------------------------------------------------------------


def edited(opener: Opener, **changes: Any) -> tuple[Any, Tool, int]:
    """What comes of an edit; a question that it leads to is denied by bob and counted."""
    gate, tool = opener(), Tool()
    denied: list[Approval] = []

    async def cross() -> Any:
        task = asyncio.ensure_future(gate.cross(refund(9000), tool))
        (one,) = await asked(gate.approvals)
        gate.approvals.edit(one.approval_id, "ann", {**one.content["arguments"], **changes})
        while not task.done():
            denied.extend(
                gate.approvals.deny(more.approval_id, "bob") for more in gate.approvals.all()
            )
            await asyncio.sleep(0.01)
        return task.result()

    return asyncio.run(cross()), tool, len(denied)


def test_edit_under_the_threshold_goes_through_as_edited(opener: Opener, tmp_path: Path) -> None:
    receipt, tool, again = edited(opener, amount=100)
    assert (receipt.outcome, again) == (Outcome.DONE, 0)
    assert tool.calls == [{"amount": 100, "customer": "ada"}]
    steps = [step for kind, step in records(tmp_path) if kind == "settled"]
    assert steps == [1, 2]  # what was asked is settled as not done


def test_edit_that_the_same_rule_asks_about_needs_no_second_yes(opener: Opener) -> None:
    receipt, tool, again = edited(opener, amount=6000)
    assert (receipt.outcome, again, receipt.answered_by) == (Outcome.DONE, 0, "ann")
    assert tool.calls == [{"amount": 6000, "customer": "ada"}]


def test_edit_into_what_is_blocked_stays_blocked(opener: Opener) -> None:
    receipt, tool, again = edited(opener, amount=95000)
    assert (receipt.outcome, again) == (Outcome.REFUSED, 0)
    assert "Nobody gets that much" in (receipt.error or "")
    assert tool.calls == []


def test_edit_that_another_rule_asks_about_asks_again(opener: Opener) -> None:
    receipt, tool, again = edited(opener, customer="odd")
    assert (receipt.outcome, again) == (Outcome.REFUSED, 1)
    assert tool.calls == []


def test_edit_that_breaks_a_rule_is_blocked(opener: Opener) -> None:
    receipt, tool, _ = edited(opener, amount="a lot")
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []


def test_endless_edits_end(opener: Opener) -> None:
    gate, tool = opener(), Tool()

    async def cross() -> Outcome:
        task = asyncio.ensure_future(gate.cross(refund(9000), tool))
        while not task.done():
            for one in gate.approvals.all():
                customer = "odd" if one.content["asked_by"] == ["big-refunds"] else "even"
                amount = 9000 if customer == "even" else 100
                edit = {"amount": amount, "customer": customer}
                gate.approvals.edit(one.approval_id, "ann", edit)
            await asyncio.sleep(0.01)
        return task.result().outcome

    assert asyncio.run(cross()) is Outcome.REFUSED
    assert tool.calls == []


# ---- secrets -------------------------------------------------------------------------------------


def test_approver_sees_no_secret_and_an_edit_beside_it_keeps_it(opener: Opener) -> None:
    gate, tool = opener(secrets={"TOKEN": "hunter2-hunter2"}), Tool()

    def edit(one: Approval) -> None:
        assert "hunter2" not in json.dumps(one.content)
        shown = one.content["arguments"]
        gate.approvals.edit(one.approval_id, "ann", {**shown, "amount": 1})

    crossing = gate.cross(refund(9000, note="hunter2-hunter2"), tool)
    asyncio.run(answered(gate, crossing, edit))
    assert tool.calls == [{"amount": 1, "customer": "ada", "note": "hunter2-hunter2"}]


def test_time_left_is_never_negative(approvals: Approvals) -> None:
    one = approvals.ask(question(timeout_s=0.0))
    assert one.left_s == 0.0
    assert one.asked_at <= time.time()
