"""Tools that look like those of the OpenAI Agents SDK, without it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.doors.tools.openai_agents import from_openai_agents
from paddock.gate.approvals import Approval
from paddock.gate.gate import Gate
from paddock.model.errors import InvalidInput
from unit.doors.tools.sets import Past
from unit.gate.gates import answered

SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "to": {"type": "string", "default": "ada"}},
    "required": ["amount"],
    "additionalProperties": False,
}
CONTEXT = SimpleNamespace(tool_call_id="call-1", agent=SimpleNamespace(model="gpt-x"))


async def pay(context: Any, text: str) -> Any:
    given = json.loads(text)
    return f"{given['amount']} to {given['to']}"


@dataclass
class FunctionTool:
    """A tool by its looks."""

    name: str
    on_invoke_tool: Any
    params_json_schema: dict[str, Any] = field(default_factory=lambda: SCHEMA)


def plain_object() -> Any:
    return SimpleNamespace(name="refund", on_invoke_tool=pay, params_json_schema=SCHEMA)


@pytest.mark.parametrize("make", [lambda: FunctionTool("refund", pay), plain_object])
def test_tool_is_gated_by_its_looks(gate: Gate, make: Any) -> None:
    tool = make()
    gated = from_openai_agents(gate, tool)
    assert type(gated) is type(tool) and tool.on_invoke_tool is pay
    assert asyncio.run(gated.on_invoke_tool(CONTEXT, '{"amount": 5}')) == "5 to ada"
    refused = asyncio.run(gated.on_invoke_tool(CONTEXT, '{"amount": 95000}'))
    assert "Nobody gets that much." in refused
    assert Past(gate).proposed()[0].context == {"tool_call_id": "call-1", "model": "gpt-x"}


@pytest.mark.parametrize("text", ["", "{", "{}", '{"amount": 1, "x": 1}', '{"amount": NaN}'])
def test_arguments_that_do_not_fit_do_not_cross(gate: Gate, text: str) -> None:
    gated = from_openai_agents(gate, FunctionTool("refund", pay))
    assert "rguments" in asyncio.run(gated.on_invoke_tool(CONTEXT, text))
    assert Past(gate).steps() == []


@pytest.mark.parametrize(
    ("edited", "said"),
    [({"amount": 10, "to": "bob"}, "10 to bob"), ({"amount": 10}, "not complete")],
)
def test_persons_edit_is_what_runs_if_it_is_whole(
    gate: Gate, edited: dict[str, Any], said: str
) -> None:
    gated = from_openai_agents(gate, FunctionTool("refund", pay))

    def edit(approval: Approval) -> None:
        gate.approvals.edit(approval.approval_id, "eve", edited)

    call = gated.on_invoke_tool(CONTEXT, '{"amount": 6000}')
    assert said in asyncio.run(answered(gate, call, edit))


def test_something_else_is_no_tool(gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="no function tool"):
        from_openai_agents(gate, object())
