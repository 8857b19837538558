"""An action that an approver edits: made anew by its door, decided on anew, and settled once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.gate.approvals import Approval
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.journal.log import RunLog
from paddock.model.action import Action, Effect, Outcome, Receipt
from paddock.model.errors import InvalidInput
from unit.gate.conftest import Opener
from unit.gate.gates import REFUNDS, Tool, answered, asked, records, refund

SENTENCE = "the customer of a refund cannot be edited"


def _edit(gate: Gate, **changes: Any) -> Any:
    def edit(one: Approval) -> None:
        gate.approvals.edit(one.approval_id, "ann", {**one.content["arguments"], **changes})

    return edit


def _rebuild(action: Action, words: Mapping[str, Any]) -> Action:
    if words["customer"] != action.arguments["customer"]:
        raise InvalidInput(SENTENCE)
    return replace(action, name="issue_refund", arguments={**words, "built": True})


def _cross(gate: Gate, live: Any, rebuild: Any = _rebuild, **changes: Any) -> Receipt:
    means = {} if rebuild is None else {"rebuild": rebuild}
    crossing = gate.cross(refund(9000), live, **means)
    return asyncio.run(answered(gate, crossing, _edit(gate, **changes)))


def test_the_door_makes_the_edited_action(opener: Opener) -> None:
    gate, tool = opener(), Tool()
    receipt = _cross(gate, tool, amount=300)
    assert receipt.is_done
    assert tool.calls == [{"amount": 300, "customer": "ada", "built": True}]


def test_what_the_door_cannot_make_is_refused_with_its_sentence(
    opener: Opener, tmp_path: Path
) -> None:
    gate, tool = opener(), Tool()
    receipt = _cross(gate, tool, customer="bob")
    assert (receipt.outcome, receipt.error, tool.calls) == (Outcome.REFUSED, SENTENCE, [])
    assert [one for one in records(tmp_path) if one[0] == "settled"] == [("settled", 1)]


def test_a_door_that_fails_at_it_refuses_and_says_nothing_about_itself(opener: Opener) -> None:
    def broken(action: Action, words: Mapping[str, Any]) -> Action:
        raise KeyError("/root/.paddock")

    gate, tool = opener(), Tool()
    receipt = _cross(gate, tool, broken, amount=1)
    assert (receipt.outcome, tool.calls) == (Outcome.REFUSED, [])
    assert receipt.error == "It could not be edited."


def test_an_action_that_an_edit_makes_worse_is_decided_on_as_what_it_is(opener: Opener) -> None:
    def to_admin(action: Action, words: Mapping[str, Any]) -> Action:
        return replace(action, arguments=dict(words), effect=Effect.WRITE)

    text = REFUNDS.replace("stage: broad", "stage: observe")
    text = text.replace("issue_refund: {effect: write}", "issue_refund: {effect: read}")
    gate, tool = opener(text), Tool()
    crossing = gate.cross(replace(refund(9000), effect=Effect.READ), tool, rebuild=to_admin)
    receipt = asyncio.run(answered(gate, crossing, _edit(gate, amount=300)))
    assert (receipt.outcome, tool.calls) == (Outcome.REFUSED, [])


def _settled(directory: Path) -> dict[int | None, int]:
    found = records(directory)
    counts = Counter(step for kind, step in found if kind == "settled")
    return {step: counts[step] for kind, step in found if kind == "proposed"}


class _Slow:
    """A live executor that never ends by itself."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()

    async def __call__(self, action: Action) -> Done:
        self.has_begun.set()
        await asyncio.sleep(60)
        return Done()


def test_an_edited_action_that_is_cancelled_is_settled_once_and_so_is_the_first(
    opener: Opener, tmp_path: Path
) -> None:
    gate = opener()

    async def play() -> None:
        slow = _Slow()
        crossing = asyncio.ensure_future(gate.cross(refund(9000), slow))
        (one,) = await asked(gate.approvals)
        _edit(gate, amount=300)(one)
        async with asyncio.timeout(20):
            await slow.has_begun.wait()
        crossing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await crossing

    asyncio.run(play())
    assert _settled(tmp_path) == {1: 1, 2: 1}


def test_an_edited_action_that_is_asked_anew_and_cancelled_is_settled_once(
    opener: Opener, tmp_path: Path
) -> None:
    gate, tool = opener(), Tool()

    async def play() -> None:
        crossing = asyncio.ensure_future(gate.cross(refund(9000), tool))
        (one,) = await asked(gate.approvals)
        _edit(gate, customer="odd")(one)
        async with asyncio.timeout(20):
            while not [o for o in gate.approvals.all() if o.step == 2]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        crossing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await crossing

    asyncio.run(play())
    assert _settled(tmp_path) == {1: 1, 2: 1}
    assert tool.calls == []
    assert [one.state for one in gate.approvals.all() if one.step == 2] != ["pending"]


@pytest.mark.parametrize("changes", [{"amount": 300}, {"amount": 6000}, {"amount": 95000}])
def test_whatever_an_edit_leads_to_every_step_is_settled_once(
    opener: Opener, tmp_path: Path, changes: dict[str, Any]
) -> None:
    _cross(opener(), Tool(), None, **changes)
    assert _settled(tmp_path) == {1: 1, 2: 1}


def test_who_edited_has_answered_for_what_was_done(opener: Opener) -> None:
    receipt = _cross(opener(), Tool(), None, amount=6000)
    assert (receipt.is_done, receipt.answered_by) == (True, "ann")


@pytest.mark.parametrize("state", ["approve", "edit"])
def test_an_answer_to_a_question_that_the_terms_outlived_is_refused_and_says_so(
    opener: Opener, tmp_path: Path, state: str
) -> None:
    gate, tool = opener(), Tool()

    def answer(one: Approval) -> None:
        gate.policy = opener(REFUNDS.replace("5000", "6000"), run="run-2").policy
        if state == "edit":
            _edit(gate, amount=300)(one)
        else:
            gate.approvals.approve(one.approval_id, "ann")

    receipt = asyncio.run(answered(gate, gate.cross(refund(9000), tool), answer))
    assert (receipt.outcome, tool.calls) == (Outcome.REFUSED, [])
    assert receipt.error == "The terms changed while it was asked. Try it again."
    assert _settled(tmp_path) == {1: 1}


def test_what_runs_inside_cannot_be_edited_because_its_door_runs_it_as_it_stands(
    opener: Opener,
) -> None:
    gate, tool = opener(), Tool()
    crossing = gate.cross(replace(refund(9000), is_contained=True), tool)
    receipt = asyncio.run(answered(gate, crossing, _edit(gate, amount=300)))
    assert (receipt.outcome, tool.calls) == (Outcome.REFUSED, [])
    assert receipt.error == "'issue_refund' runs inside and cannot be edited."


def test_the_record_of_an_edited_action_names_the_step_that_was_made_of_it(
    opener: Opener, tmp_path: Path
) -> None:
    gate = opener()
    assert _cross(gate, Tool(), amount=300).step == 2
    step = RunLog(gate.records.journal.directory).step(1)
    assert (step.outcome, step.result) == (Outcome.REFUSED, {"edited_as": 2})


def test_new_steps_get_no_number_that_is_taken(opener: Opener) -> None:
    gate, tool = opener(), Tool()
    gate.count_from(4, taken={5, 6})
    steps = [asyncio.run(gate.cross(refund(1), tool)).step for _ in range(3)]
    assert steps == [4, 7, 8]
