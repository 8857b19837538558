"""What has to be kept whole, and does not fit into the budget of the run, does not happen."""

from __future__ import annotations

import asyncio
from pathlib import Path

from paddock.gate.gate import Gate
from paddock.journal.integrity.keys import SigningKey
from paddock.model.action import Outcome, Receipt
from unit.gate.gates import REFUNDS, Tool, make_gate, refund

LONG = "x" * 20_000


def crossed(gate: Gate, amount: int) -> tuple[Receipt, Tool]:
    tool = Tool()
    return asyncio.run(gate.cross(refund(amount, note=LONG), tool)), tool


def small_gate(directory: Path, key: SigningKey, text: str) -> Gate:
    gate = make_gate(directory, key, text)
    gate.records.journal.budget.limit = 90_000
    return gate


def test_a_draft_that_does_not_fit_is_refused(tmp_path: Path, key: SigningKey) -> None:
    gate = small_gate(tmp_path, key, REFUNDS.replace("stage: broad", "stage: draft"))
    receipts = [crossed(gate, amount)[0] for amount in range(6)]
    outcomes = [one.outcome for one in receipts]
    assert outcomes[0] is Outcome.DRAFTED and outcomes[-1] is Outcome.REFUSED
    assert receipts[-1].error is not None
    assert receipts[-1].error.startswith("The run has used up what it may store")
    assert len(gate.drafts.all()) == outcomes.count(Outcome.DRAFTED)
    gate.close()


def test_a_question_that_does_not_fit_is_not_asked_and_means_no(
    tmp_path: Path, key: SigningKey
) -> None:
    gate = small_gate(tmp_path, key, REFUNDS)
    gate.records.journal.budget.take(85_000)
    receipt, tool = crossed(gate, 6000)
    assert receipt.outcome is Outcome.REFUSED
    assert receipt.error == (
        "The run has used up what it may store, so nobody was asked, and that means no."
    )
    assert tool.calls == []
    assert gate.approvals.all() == []
    gate.close()
