"""The crossing: what each verdict, stage and effect comes to, with a real journal and store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from paddock.gate.approvals import Approval
from paddock.gate.executors import ActionRefused, Done, Fault, Live
from paddock.gate.gate import Gate
from paddock.model.action import Action, Effect, Kind, Outcome, Stage, Verdict
from unit.gate.conftest import Opener
from unit.gate.gates import Tool, answered, records

TABLE = """\
version: 1
agent: a
stage: {stage}
tools:
  read_it: {{effect: read}}
  write_it: {{effect: write, reversible: true}}
  burn_it: {{effect: write}}
  rule_it: {{effect: admin}}
rules:
{rules}
approvals: {{timeout: 30s}}
"""
EFFECTS = {
    "read_it": (Effect.READ, True),
    "write_it": (Effect.WRITE, True),
    "burn_it": (Effect.WRITE, False),
    "rule_it": (Effect.ADMIN, False),
}
DRAFTED, ASKED, DONE, REFUSED = "drafted", "asked", "done", "refused"
# What comes of a call that a rule allows, by stage.
ALLOWED = {
    Stage.OBSERVE: {"read_it": DONE, "write_it": REFUSED, "burn_it": REFUSED, "rule_it": REFUSED},
    Stage.DRAFT: {"read_it": DONE, "write_it": DRAFTED, "burn_it": DRAFTED, "rule_it": DRAFTED},
    Stage.APPROVE: {"read_it": DONE, "write_it": ASKED, "burn_it": ASKED, "rule_it": ASKED},
    Stage.NARROW: {"read_it": DONE, "write_it": DONE, "burn_it": ASKED, "rule_it": ASKED},
    Stage.BROAD: {"read_it": DONE, "write_it": DONE, "burn_it": DONE, "rule_it": DONE},
}


async def stand_in(action: Action) -> Done:
    """Answer everything in place of the real thing."""
    return Done(value="stand-in", outcome=Outcome.SIMULATED)


def expected(verdict: Verdict, stage: Stage, name: str) -> str:
    by_stage = ALLOWED[stage][name]
    if verdict is Verdict.BLOCK or by_stage == REFUSED:
        return REFUSED
    if verdict is Verdict.ASK or (by_stage == ASKED and verdict is not Verdict.BLOCK):
        return ASKED
    if verdict is Verdict.FAULT:
        return "faulted"
    return "simulated" if verdict is Verdict.SIMULATE else by_stage


def file_for(verdict: Verdict, stage: Stage) -> str:
    # With conditions, or the file would be refused: the grant would never decide alone.
    rules = [
        f"  - {{id: r{number}, match: {{kind: tool, name: '*_it'}}, when: 'true', decide: {one}}}"
        for number, one in enumerate(dict.fromkeys([Verdict.ALLOW, verdict]))
    ]
    return TABLE.format(stage=stage.value, rules="\n".join(rules))


def call(name: str) -> Action:
    effect, is_reversible = EFFECTS[name]
    return Action(Kind.TOOL, name, {"n": 1}, effect, is_reversible)


def came(gate: Gate, action: Action, tool: Tool, simulate: Live | None = None) -> str:
    """What came of the call: `asked` when it was, and then was not done after a no."""
    was_asked: list[Approval] = []

    async def cross() -> str:
        task = asyncio.ensure_future(gate.cross(action, tool, simulate=simulate))
        while not task.done():
            for one in gate.approvals.all():
                was_asked.append(gate.approvals.deny(one.approval_id, "bob", "not today"))
            await asyncio.sleep(0.01)
        receipt = task.result()
        assert receipt.is_done == bool(tool.calls)
        return ASKED if was_asked else receipt.outcome.value

    return asyncio.run(cross())


@pytest.mark.parametrize("name", EFFECTS)
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("verdict", Verdict)
def test_what_comes_of_a_call_by_verdict_stage_and_effect(
    opener: Opener, tmp_path: Path, verdict: Verdict, stage: Stage, name: str
) -> None:
    tool = Tool()
    gate = opener(file_for(verdict, stage))
    assert came(gate, call(name), tool, stand_in) == expected(verdict, stage, name)
    assert bool(tool.calls) == (expected(verdict, stage, name) == DONE)
    types = [kind for kind, _ in records(tmp_path)]
    assert types[:2] == ["proposed", "decided"]
    assert types[-1] == "settled"
    assert ("asked" in types) == (expected(verdict, stage, name) == ASKED)


@pytest.mark.parametrize("stage", ["approve", "narrow"])
def test_yes_to_what_the_stage_asked_lets_it_happen_once(opener: Opener, stage: str) -> None:
    tool = Tool()
    gate = opener(file_for(Verdict.ALLOW, Stage(stage)))

    async def cross() -> None:
        for number in (1, 2):
            receipt = await answered(
                gate,
                gate.cross(call("burn_it"), tool),
                lambda one: gate.approvals.approve(one.approval_id, "bob"),
            )
            assert (receipt.outcome, receipt.answered_by) == (Outcome.DONE, "bob")
            assert len(tool.calls) == number

    asyncio.run(cross())


def test_yes_in_the_stage_draft_gives_a_draft_and_nothing_real(opener: Opener) -> None:
    tool = Tool()
    gate = opener(file_for(Verdict.ASK, Stage.DRAFT))
    crossing = gate.cross(call("burn_it"), tool)
    receipt = asyncio.run(
        answered(gate, crossing, lambda one: gate.approvals.approve(one.approval_id, "bob"))
    )
    assert receipt.outcome is Outcome.DRAFTED
    assert receipt.draft_id is not None
    assert gate.drafts.get(receipt.draft_id).action.name == "burn_it"
    assert tool.calls == []


def test_undeclared_tool_is_refused(opener: Opener) -> None:
    tool = Tool()
    gate = opener()
    receipt = asyncio.run(gate.cross(Action(Kind.TOOL, "rm_all", {}), tool))
    assert receipt.outcome is Outcome.REFUSED
    assert isinstance(receipt.exception, ActionRefused)
    assert tool.calls == []


def test_error_of_a_tool_is_a_receipt_and_stays_spent(opener: Opener) -> None:
    gate = opener(
        "version: 1\nagent: a\nstage: broad\ntools: {t: {effect: write}}\nrules:\n"
        "  - {id: once, match: {kind: tool, name: t}, limit: {count: 1, max: 1, per: run},"
        " decide: block}\n"
    )
    tool = Tool(error=ValueError("no such ticket"))
    first = asyncio.run(gate.cross(Action(Kind.TOOL, "t", {}), tool))
    second = asyncio.run(gate.cross(Action(Kind.TOOL, "t", {}), tool))
    assert (first.outcome, first.error) == (Outcome.FAILED, "no such ticket")
    assert second.outcome is Outcome.REFUSED
    assert len(tool.calls) == 1


def test_fault_is_what_the_file_says_and_nothing_happens(opener: Opener) -> None:
    text = TABLE.format(
        stage="broad",
        rules="  - {id: f, match: {kind: tool, name: read_it}, decide: fault,"
        " fault: {error: Gone., status: 503}}",
    )
    tool = Tool()
    receipt = asyncio.run(opener(text).cross(call("read_it"), tool))
    assert receipt.outcome is Outcome.FAULTED
    assert isinstance(receipt.exception, Fault)
    assert (str(receipt.exception), receipt.exception.status) == ("Gone.", 503)
    assert tool.calls == []


def test_simulation_without_a_stand_in_is_refused(opener: Opener) -> None:
    tool = Tool()
    gate = opener(file_for(Verdict.SIMULATE, Stage.BROAD))
    assert came(gate, call("write_it"), tool) == REFUSED


def test_draft_keeps_the_call_and_its_preview(opener: Opener) -> None:
    async def preview(action: Action) -> dict[str, object]:
        return {"would": dict(action.arguments)}

    gate = opener(file_for(Verdict.ALLOW, Stage.DRAFT))
    receipt = asyncio.run(gate.cross(call("write_it"), Tool(), preview))
    assert receipt.draft_id is not None
    draft = gate.drafts.get(receipt.draft_id)
    assert draft.preview == {"would": {"n": 1}}
    assert (draft.run, draft.step, dict(draft.action.arguments)) == ("run-1", 1, {"n": 1})
