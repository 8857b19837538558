"""Tools that look like LangChain's, without LangChain."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from paddock.doors.tools.langchain import from_langchain
from paddock.gate.approvals import Approval
from paddock.gate.gate import Gate
from paddock.model.errors import InvalidInput
from unit.doors.tools.conftest import Opener
from unit.doors.tools.sets import Past, file_for
from unit.gate.gates import answered

SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "self": {"type": "string", "default": "ada"}},
    "required": ["amount"],
    "additionalProperties": False,
}


class Refund:
    """A tool by its looks."""

    name = "refund"
    description = "Pays money back."

    def __init__(self, schema: Any = SCHEMA) -> None:
        self.args_schema = schema
        self.ran: list[dict[str, Any]] = []

    def invoke(self, given: dict[str, Any]) -> Any:
        return self.run(given, tool_call_id="call-1")

    async def ainvoke(self, given: dict[str, Any]) -> Any:
        return await self._arun(**given)

    def run(self, given: dict[str, Any], tool_call_id: str | None = None) -> Any:
        return self._run(**given)

    def _run(self, /, run_manager: Any = None, **given: Any) -> Any:
        self.ran.append(given)
        return given["amount"]

    async def _arun(self, /, **given: Any) -> Any:
        await asyncio.sleep(0)
        return self._run(**given)


def test_tool_is_gated_by_its_looks(gate: Gate) -> None:
    tool = Refund()
    gated = from_langchain(gate, tool)
    assert isinstance(gated, Refund)
    assert gated.invoke({"amount": 5}) == 5
    assert asyncio.run(gated.ainvoke({"amount": 6})) == 6
    assert "Nobody gets that much." in gated.invoke({"amount": 95_000})
    assert tool.ran == [{"amount": 5, "self": "ada"}, {"amount": 6, "self": "ada"}]
    first, second, _ = Past(gate).proposed()
    assert (first.context, second.context) == ({"tool_call_id": "call-1"}, {})


@pytest.mark.parametrize("given", [{}, {"amount": 1, "more": 2}, {"amount": object()}])
def test_arguments_that_do_not_fit_do_not_cross(gate: Gate, given: dict[str, Any]) -> None:
    assert "rguments" in from_langchain(gate, Refund()).invoke(given)
    assert Past(gate).steps() == []


def test_what_the_host_passes_is_not_an_argument_unless_the_tool_says_so(opener: Opener) -> None:
    gate = opener(file_for("refund"))
    manager = object()
    gated = from_langchain(gate, Refund())
    assert gated._run(amount=1, run_manager=manager) == 1
    assert Past(gate).proposed()[0].arguments == {"amount": 1, "self": "ada"}

    managed = Refund({"properties": {"amount": {}, "run_manager": {}}})
    assert from_langchain(gate, managed)._run(amount=1, run_manager="agent's") == 1
    assert Past(gate).proposed()[1].arguments == {"amount": 1, "run_manager": "agent's"}


def test_persons_edit_is_what_runs(gate: Gate) -> None:
    tool = Refund()

    def lower(approval: Approval) -> None:
        edited = {**approval.content["arguments"], "amount": 10}
        gate.approvals.edit(approval.approval_id, "eve", edited)

    call = from_langchain(gate, tool).ainvoke({"amount": 6000})
    assert asyncio.run(answered(gate, call, lower)) == 10
    assert tool.ran == [{"amount": 10, "self": "ada"}]


def test_something_else_is_no_tool(gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="no LangChain tool"):
        from_langchain(gate, object())


def test_room_loads_neither_the_vendors_packages_nor_pydantic() -> None:
    program = (
        "import sys, importlib\n"
        "for name in ('toolset', 'wrapping', 'langchain', 'openai_agents', 'openai_calls',"
        " 'anthropic_calls'):\n"
        "    importlib.import_module(f'paddock.doors.tools.{name}')\n"
        "heavy = {'pydantic', 'langchain_core', 'agents', 'openai', 'anthropic', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
