"""What a crossing keeps from those who look on, and what it keeps for those who edit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.gate.approvals import Approval, Approvals
from paddock.journal.errors import JournalBroken
from paddock.journal.log import RunLog
from paddock.journal.writer import JournalEntry
from paddock.model.action import Action, Outcome
from paddock.model.events import Asked, Settled
from unit.gate.conftest import Opener
from unit.gate.gates import REFUNDS, Tool, answered, refund

SECRET = "hunter2-hunter2"


def ask_with(opener: Opener, action: Action, preview: Any = None, **options: Any) -> Approval:
    gate = opener(secrets={"T": SECRET}, **options)
    seen: list[Approval] = []

    def deny(one: Approval) -> None:
        seen.append(gate.approvals.deny(one.approval_id, "ann"))

    asyncio.run(answered(gate, gate.cross(action, Tool(), preview), deny))
    return seen[0]


def test_secret_in_the_context_is_masked_for_the_approver(opener: Opener) -> None:
    one = ask_with(opener, replace(refund(9000), context={"prompt": SECRET}))
    assert SECRET not in json.dumps(dict(one.content))


def test_secret_in_the_error_of_a_preview_is_masked(opener: Opener) -> None:
    async def preview(action: Action) -> object:
        raise ValueError(f"401 for {SECRET}")

    one = ask_with(opener, refund(9000), preview)
    assert SECRET not in json.dumps(dict(one.content))


def test_secret_in_the_context_of_a_draft_is_masked(opener: Opener) -> None:
    gate = opener(REFUNDS.replace("broad", "draft"), secrets={"T": SECRET})
    action = replace(refund(1), context={"prompt": SECRET})
    receipt = asyncio.run(gate.cross(action, Tool()))
    assert receipt.draft_id is not None
    assert SECRET not in repr(gate.drafts.get(receipt.draft_id))


def test_edit_beside_a_secret_in_a_key_keeps_the_key(opener: Opener) -> None:
    gate, tool = opener(secrets={"T": SECRET}), Tool()

    def edit(one: Approval) -> None:
        gate.approvals.edit(one.approval_id, "ann", {**one.content["arguments"], "amount": 1})

    crossing = gate.cross(refund(9000, **{SECRET: "x"}), tool)
    asyncio.run(answered(gate, crossing, edit))
    assert tool.calls == [{"amount": 1, "customer": "ada", SECRET: "x"}]


def test_edit_beside_a_secret_in_a_list_keeps_the_secret(opener: Opener) -> None:
    gate, tool = opener(secrets={"T": SECRET}), Tool()

    def edit(one: Approval) -> None:
        changed = {**one.content["arguments"], "headers": [one.content["arguments"]["headers"][0]]}
        gate.approvals.edit(one.approval_id, "ann", {**changed, "amount": 1})

    crossing = gate.cross(refund(9000, headers=[f"Bearer {SECRET}", "x"]), tool)
    asyncio.run(answered(gate, crossing, edit))
    assert tool.calls == [{"amount": 1, "customer": "ada", "headers": [f"Bearer {SECRET}"]}]


def test_edit_from_true_to_one_is_a_change(opener: Opener) -> None:
    gate, tool = opener(), Tool()

    def edit(one: Approval) -> None:
        gate.approvals.edit(one.approval_id, "ann", {**one.content["arguments"], "notify": 1})

    asyncio.run(answered(gate, gate.cross(refund(9000, notify=True), tool), edit))
    assert tool.calls[0]["notify"] is not True


def test_draft_keeps_large_numbers_as_numbers(opener: Opener) -> None:
    gate = opener(REFUNDS.replace("broad", "draft"))
    receipt = asyncio.run(gate.cross(refund(1, ticket=1 << 60), Tool()))
    assert receipt.draft_id is not None
    assert gate.drafts.get(receipt.draft_id).action.arguments["ticket"] == 1 << 60


def test_question_that_could_not_be_recorded_does_not_stay_open(
    opener: Opener, approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tool = opener(), Tool()
    extend = gate._journal.extend

    def fail(entries: Sequence[JournalEntry]) -> int:
        if any(isinstance(entry.event, Asked) for entry in entries):
            raise JournalBroken("full")
        return extend(entries)

    monkeypatch.setattr(gate._journal, "extend", fail)
    receipt = asyncio.run(gate.cross(refund(9000), tool))
    assert (receipt.outcome, tool.calls) == (Outcome.REFUSED, [])
    assert approvals.all() == []


def test_refusal_does_not_tell_the_agent_where_things_lie(opener: Opener, tmp_path: Path) -> None:
    gate = opener()
    (tmp_path / "gate.sqlite").unlink()
    receipt = asyncio.run(gate.cross(refund(9000), Tool()))
    assert str(tmp_path) not in (receipt.error or "")


def test_question_carries_what_asked_so_that_always_needs_no_file(opener: Opener) -> None:
    one = ask_with(opener, refund(9000))
    assert [rule["id"] for rule in one.content["terms"]["rules"]] == ["big-refunds"]


def test_result_that_cannot_be_written_down_does_not_hide_that_it_happened(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tool = opener(), Tool()
    extend = gate._journal.extend

    def refuse(entries: Any) -> int:
        for entry in entries:
            if isinstance(entry.event, Settled) and entry.event.result is not None:
                raise ValueError("no JSON has this")
        return extend(entries)

    monkeypatch.setattr(gate._journal, "extend", refuse)
    receipt = asyncio.run(gate.cross(refund(1), tool))
    assert (receipt.outcome, len(tool.calls)) == (Outcome.DONE, 1)
    settled = [record.event for record in RunLog(gate._journal.directory).events(Settled)]
    assert settled == [Settled(Outcome.DONE, None)]
