"""Whatever fails on the way means no: nothing runs, and the agent gets a refusal."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.gate import store as store_module
from paddock.gate.approvals import Approval, Approvals
from paddock.gate.gate import Gate
from paddock.gate.store import GateStore
from paddock.journal.errors import JournalBroken
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.model.action import Action, Outcome, Receipt
from paddock.model.errors import HostCannot
from paddock.model.events import InternalError
from unit.gate.conftest import Opener
from unit.gate.gates import REFUNDS, Tool, answered, finished, make_gate, python, refund

LIMITED = REFUNDS.replace(
    "approvals:",
    """\
  - id: budget
    match: {kind: tool, name: issue_refund}
    limit: {sum: args.amount, max: 20000, per: 24h}
    decide: block
approvals:""",
)
BIG, SMALL = 9000, 10


def refused(gate: Gate, tool: Tool, amount: int = BIG) -> Receipt:
    """Crosses; it must end in a refusal, by itself."""
    receipt = asyncio.run(asyncio.wait_for(gate.cross(refund(amount), tool), 60))
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []
    return receipt


def told(gate: Gate) -> str:
    """What the journal says went wrong; the agent is not told."""
    errors = (record.event for record in RunLog(gate._journal.directory).events(InternalError))
    return " ".join(str(event.error) for event in errors if isinstance(event, InternalError))


# ---- the store -----------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [BIG, SMALL])
def test_deleted_store_means_no(opener: Opener, tmp_path: Path, amount: int) -> None:
    gate = opener(LIMITED)
    for path in tmp_path.glob("gate.sqlite*"):
        path.unlink()
    refused(gate, Tool(), amount)


def test_store_that_was_replaced_means_no(opener: Opener, tmp_path: Path) -> None:
    gate = opener(LIMITED)
    for path in tmp_path.glob("gate.sqlite*"):
        path.unlink()
    GateStore(tmp_path / "gate.sqlite").close()
    refused(gate, Tool(), SMALL)
    assert "replaced" in told(gate)


def test_store_deleted_while_a_question_waits_means_no(opener: Opener, tmp_path: Path) -> None:
    gate, tool = opener(), Tool()

    def delete(one: Approval) -> None:
        gate.approvals.approve(one.approval_id, "ann")
        (tmp_path / "gate.sqlite").unlink()

    receipt = asyncio.run(answered(gate, gate.cross(refund(BIG), tool), delete))
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []


@pytest.mark.parametrize("damage", ["pages", "header", "cut"])
@pytest.mark.parametrize("amount", [BIG, SMALL])
def test_corrupted_store_means_no(
    tmp_path: Path, store: GateStore, opener: Opener, amount: int, damage: str
) -> None:
    gate = opener(LIMITED)
    store.close()  # what it has read already is not read again
    path = tmp_path / "gate.sqlite"
    content = path.read_bytes()
    junk = os.urandom(len(content))
    path.write_bytes(
        {"pages": content[:100] + junk[100:], "header": junk, "cut": content[:5000]}[damage]
    )
    refused(gate, Tool(), amount)


def test_store_that_is_no_database_is_the_hosts_fault(tmp_path: Path) -> None:
    (tmp_path / "gate.sqlite").write_bytes(b"not a database, but long enough to be one" * 200)
    with pytest.raises(HostCannot, match="cannot be used"):
        GateStore(tmp_path / "gate.sqlite")


def test_damaged_row_of_the_question_means_no(opener: Opener, store: GateStore) -> None:
    gate, tool = opener(), Tool()

    def damage(one: Approval) -> None:
        with store.writing() as connection:
            connection.execute("UPDATE approvals SET state = 'approved', content = '{'")

    receipt = asyncio.run(answered(gate, gate.cross(refund(BIG), tool), damage))
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []


@pytest.mark.parametrize("amount", [BIG, SMALL])
def test_locked_store_means_no(
    opener: Opener, store: GateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amount: int
) -> None:
    gate = opener(LIMITED)
    monkeypatch.setattr(store_module, "_BUSY_MS", 200)
    store.close()
    other = sqlite3.connect(tmp_path / "gate.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        refused(gate, Tool(), amount)
        assert "locked" in told(gate)
    finally:
        other.close()


@pytest.mark.parametrize("amount", [BIG, SMALL])
def test_read_only_store_means_no(tiny_disk: Path, opener: Opener, amount: int) -> None:
    store = GateStore(tiny_disk / "gate.sqlite")
    gate = opener(LIMITED, store=store)
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    refused(gate, Tool(), amount)
    store.close()


@pytest.mark.parametrize("amount", [BIG, SMALL])
def test_full_disk_of_the_store_means_no(tiny_disk: Path, opener: Opener, amount: int) -> None:
    store = GateStore(tiny_disk / "gate.sqlite")
    gate = opener(LIMITED, store=store)
    _fill(tiny_disk)
    refused(gate, Tool(), amount)
    assert "full" in told(gate) or "space" in told(gate)
    store.close()


def test_disk_that_fills_while_a_question_waits_means_no(tiny_disk: Path, opener: Opener) -> None:
    store, tool = GateStore(tiny_disk / "gate.sqlite"), Tool()
    gate = opener(store=store)

    def fill(one: Approval) -> None:
        gate.approvals.approve(one.approval_id, "ann")
        _fill(tiny_disk)

    async def cross() -> Receipt:
        return await answered(gate, gate.cross(refund(BIG), tool), fill)

    receipt = asyncio.run(cross())
    # The write that spends the yes may find room in the log that SQLite has already.
    assert receipt.is_done == bool(tool.calls)
    if not receipt.is_done:
        assert receipt.outcome is Outcome.REFUSED
    store.close()


def test_full_disk_of_the_journal_means_no(
    tiny_disk: Path, key: SigningKey, store: GateStore
) -> None:
    gate, tool = make_gate(tiny_disk, key, store=store), Tool()
    _fill(tiny_disk)
    with pytest.raises(AssertionError):  # the first ones may fit the last page
        for _ in range(50):
            receipt = asyncio.run(gate.cross(refund(SMALL), tool))
            assert receipt.outcome is Outcome.DONE
    done = len(tool.calls)
    for _ in range(3):
        receipt = asyncio.run(gate.cross(refund(SMALL), tool))
        assert receipt.outcome is Outcome.REFUSED
        assert "could not be recorded" in (receipt.error or "")
    assert len(tool.calls) == done
    gate._journal.abandon()


def _fill(disk: Path) -> None:
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            return


# ---- the journal ---------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [BIG, SMALL])
def test_journal_that_is_broken_before_means_no(opener: Opener, amount: int) -> None:
    gate = opener(LIMITED)
    gate._journal.abandon()
    assert "not done" in (refused(gate, Tool(), amount).error or "")
    assert gate.approvals.all(state=None) == []


def test_journal_that_breaks_before_the_call_gives_the_budget_back(
    opener: Opener, store: GateStore
) -> None:
    gate = opener(LIMITED)
    gate._journal.abandon()
    refused(gate, Tool(), SMALL)
    with store.connection() as connection:
        assert connection.execute("SELECT count(*) FROM spends").fetchone()[0] == 0


def test_journal_that_breaks_while_a_question_waits_means_no(opener: Opener) -> None:
    gate, tool = opener(), Tool()

    def break_it(one: Approval) -> None:
        gate._journal.abandon()
        gate.approvals.approve(one.approval_id, "ann")

    receipt = asyncio.run(answered(gate, gate.cross(refund(BIG), tool), break_it))
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []


def test_intent_that_does_not_reach_the_disk_means_no(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tool = opener(), Tool()

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("paddock.journal.segments.os.fdatasync", fail)
    receipt = refused(gate, tool, SMALL)
    assert "Input/output error" in (receipt.error or "")


def test_journal_that_breaks_after_the_call_says_so_and_keeps_it_spent(
    opener: Opener, store: GateStore
) -> None:
    gate, calls = opener(LIMITED), []

    async def live(action: Action) -> Any:
        calls.append(action)
        gate._journal.abandon()
        return await Tool()(action)

    receipt = asyncio.run(gate.cross(refund(SMALL), live))
    assert receipt.outcome is Outcome.FAILED
    assert isinstance(receipt.exception, JournalBroken)
    assert len(calls) == 1
    with store.connection() as connection:
        spent = connection.execute("SELECT sum(amount) FROM spends").fetchone()[0]
    assert spent == SMALL


# ---- approvers, previews, policy -----------------------------------------------------------------


class Breaks:
    """An approver that fails, after it has closed the door to the others."""

    async def consider(self, approval: Approval, approvals: Approvals) -> None:
        approvals.withdraw(approval.approval_id)
        raise ValueError


def test_approver_that_withdraws_means_no(opener: Opener) -> None:
    gate = opener(approvers=[Breaks()])
    assert "withdrawn" in (refused(gate, Tool()).error or "")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [ValueError("dry run failed"), Unprintable()])
def test_preview_that_fails_does_not_answer(opener: Opener, error: Exception) -> None:
    gate, tool = opener(), Tool()

    async def preview(action: Action) -> object:
        raise error

    async def cross() -> Receipt:
        task = asyncio.ensure_future(gate.cross(refund(BIG), tool, preview))
        while not task.done():
            for one in gate.approvals.all():
                assert "error" in one.content["preview"]
                gate.approvals.deny(one.approval_id, "ann")
            await asyncio.sleep(0.01)
        return task.result()

    assert asyncio.run(cross()).outcome is Outcome.REFUSED
    assert tool.calls == []


def test_rule_that_cannot_be_evaluated_means_no(opener: Opener) -> None:
    gate, tool = opener(), Tool()
    action = refund(SMALL)
    del action.arguments["amount"]  # type: ignore[attr-defined]
    receipt = asyncio.run(gate.cross(action, tool))
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []


def test_ledger_that_fails_means_no(opener: Opener, store: GateStore) -> None:
    gate = opener(LIMITED)
    with store.writing() as connection:
        connection.execute("DROP TABLE spends")
    receipt = refused(gate, Tool(), SMALL)
    assert "could not be decided" in (receipt.error or "")


# ---- a fork --------------------------------------------------------------------------------------

FORKED = """
import os, sys; from pathlib import Path
from paddock.gate.approvals import Approvals
from paddock.gate.store import GateStore
from unit.gate.approvals.test_questions import question
approvals = Approvals(GateStore(Path(sys.argv[1])))
approvals.ask(question())
if os.fork() == 0:
    approvals.ask(question())
    os._exit(0)
os.wait()
approvals.ask(question())
print(len(approvals.all(state=None)))
"""


def test_connection_does_not_cross_a_fork(tmp_path: Path) -> None:
    assert finished(python(FORKED, tmp_path / "gate.sqlite")).strip() == "3"
    with sqlite3.connect(tmp_path / "gate.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
