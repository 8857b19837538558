"""Anthropic's shapes, with plain data and with objects that have attributes."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.doors.tools.anthropic_calls import (
    adispatch_anthropic,
    anthropic_tools,
    dispatch_anthropic,
)
from paddock.doors.tools.definition import tool
from paddock.doors.tools.toolset import Tools
from paddock.gate.gate import Gate
from unit.doors.tools.sets import Past


@tool(effect="write")
def refund(amount: int) -> str:
    """Pays money back."""
    return f"paid {amount}"


@pytest.fixture
def tools(gate: Gate) -> Tools:
    return Tools(gate, [refund])


def use(call_id: Any, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "refund", "input": given}


def test_definitions_have_the_vendors_shape(tools: Tools) -> None:
    [found] = anthropic_tools(tools)
    assert set(found) == {"name", "description", "input_schema"}
    assert found["input_schema"]["required"] == ["amount"]


def test_message_and_blocks_are_answered_alike(tools: Tools) -> None:
    blocks = [{"type": "text", "text": "hm"}, use("a", amount=5), use("b", amount=95_000)]
    message = {"model": "claude-x", "role": "assistant", "content": blocks}
    as_objects = json.loads(json.dumps(message), object_hook=lambda one: SimpleNamespace(**one))
    as_objects.content[1].input = {"amount": 5}  # the package leaves the input as it is
    as_objects.content[2].input = {"amount": 95_000}
    for one in (message, blocks, as_objects):
        first, second = dispatch_anthropic(tools, one)
        assert first == {
            "type": "tool_result", "tool_use_id": "a", "content": "paid 5", "is_error": False,
        }  # fmt: skip
        assert second["is_error"] and "Nobody gets that much." in second["content"]
        found = asyncio.run(adispatch_anthropic(tools, one))
        assert found == [first, second]
    context = Past(tools.gate).proposed()[0].context
    assert context == {"model": "claude-x", "tool_call_id": "a"}


@pytest.mark.parametrize(
    "bad",
    [
        use("a", amount="5"),
        use("a"),
        {**use("a"), "input": "{"},
        {**use("a"), "input": [1]},
        {**use("a"), "name": "nothing"},
        {**use("a"), "id": None},
        {"type": "tool_use"},
    ],
)
def test_malformed_use_is_an_error_and_the_others_go_on(tools: Tools, bad: Any) -> None:
    first, second = dispatch_anthropic(tools, [bad, use("good", amount=1)])
    assert first["is_error"] and second["content"] == "paid 1"


def test_second_use_of_one_id_is_not_made(tools: Tools) -> None:
    _, second = dispatch_anthropic(tools, [use("a", amount=1), use("a", amount=2)])
    assert second["is_error"] and "same id" in second["content"]
    assert len(Past(tools.gate).steps()) == 1
