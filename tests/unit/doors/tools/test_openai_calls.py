"""OpenAI's shapes, with plain data and with objects that have attributes."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.doors.tools.definition import tool
from paddock.doors.tools.openai_calls import (
    adispatch_openai,
    adispatch_openai_responses,
    dispatch_openai,
    dispatch_openai_responses,
    openai_responses_tools,
    openai_tools,
)
from paddock.doors.tools.toolset import Tools
from paddock.gate.gate import Gate
from unit.doors.tools.sets import Past

CALLED: list[int] = []


@tool(effect="write")
def refund(amount: int) -> str:
    """Pays money back."""
    CALLED.append(amount)
    return f"paid {amount}"


@pytest.fixture
def tools(gate: Gate) -> Tools:
    CALLED.clear()
    return Tools(gate, [refund])


def call(call_id: Any, name: Any = "refund", arguments: Any = '{"amount": 5}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def objects(value: Any) -> Any:
    """The same as the vendor's package gives it: objects with attributes."""
    return json.loads(json.dumps(value), object_hook=lambda one: SimpleNamespace(**one))


def both(tools: Tools, message: Any) -> list[dict[str, Any]]:
    """The answers to a message, which are the same for plain and for async callers."""
    found = dispatch_openai(tools, message)
    assert asyncio.run(adispatch_openai(tools, message)) == found
    return found


def test_definitions_have_the_shapes_of_both_interfaces(tools: Tools) -> None:
    function = {
        "name": "refund",
        "description": "Pays money back.",
        "parameters": {
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"],
            "additionalProperties": False,
        },
    }
    assert openai_tools(tools) == [{"type": "function", "function": function}]
    assert openai_responses_tools(tools) == [{"type": "function", **function, "strict": False}]


def test_message_calls_or_completion_are_answered_alike(tools: Tools) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call("a")]}
    answer = [{"role": "tool", "tool_call_id": "a", "content": "paid 5"}]
    completion = {"model": "gpt-x", "choices": [{"message": message}]}
    for one in (message, message["tool_calls"], completion):
        assert both(tools, one) == answer
        assert both(tools, objects(one)) == answer


def test_model_and_call_id_are_recorded(tools: Tools) -> None:
    completion = {"model": "gpt-x", "choices": [{"message": {"tool_calls": [call("a")]}}]}
    dispatch_openai(tools, completion, context={"prompt_version": "7"})
    [proposed] = Past(tools.gate).proposed()
    assert proposed.context == {"model": "gpt-x", "tool_call_id": "a", "prompt_version": "7"}


def test_message_without_calls_has_no_answers(tools: Tools) -> None:
    for one in ({"content": "hi"}, {"tool_calls": None}, {"choices": []}, [], None, "x"):
        assert both(tools, one) == []


def test_parallel_calls_are_answered_in_order_and_each_is_a_step(tools: Tools) -> None:
    calls = [call(f"c{n}", arguments=json.dumps({"amount": n})) for n in range(32)]
    answers = asyncio.run(adispatch_openai(tools, calls))
    assert [one["tool_call_id"] for one in answers] == [f"c{n}" for n in range(32)]
    assert [one["content"] for one in answers] == [f"paid {n}" for n in range(32)]
    assert sorted(CALLED) == list(range(32))
    steps = [one.context["tool_call_id"] for one in Past(tools.gate).proposed()]
    assert steps == [f"c{n}" for n in range(32)]


MALFORMED = [
    (call("a", arguments="{"), "JSON"),
    (call("a", arguments="[1]"), "object"),
    (call("a", arguments=5), "object"),
    (call("a", arguments='{"amount": 1} trailing'), "JSON"),
    (call("a", name="nothing"), "no tool 'nothing'"),
    (call("a", name=None), "names no tool"),
    (call("a", name=["refund"]), "names no tool"),
    (call(None), "no id"),
    (call(5), "no id"),
    ({"id": "a"}, "names no tool"),
    ("text", "no id"),
    (None, "no id"),
]


@pytest.mark.parametrize(("bad", "words"), MALFORMED)
def test_malformed_call_is_an_error_and_the_others_go_on(
    tools: Tools, bad: Any, words: str
) -> None:
    answers = dispatch_openai(tools, [bad, call("good")])
    assert words in answers[0]["content"]
    assert answers[1] == {"role": "tool", "tool_call_id": "good", "content": "paid 5"}
    assert CALLED == [5]
    assert len(Past(tools.gate).invalid_calls()) == 1


def test_second_call_of_one_id_is_not_made(tools: Tools) -> None:
    calls = [call("a"), call("a", arguments='{"amount": 6}')]
    answers = dispatch_openai(tools, calls)
    assert "same id" in answers[1]["content"] and CALLED == [5]
    answers = asyncio.run(adispatch_openai(tools, calls))
    assert "same id" in answers[1]["content"] and CALLED == [5, 5]


def test_message_with_too_many_calls_does_not_make_them_all(tools: Tools) -> None:
    answers = dispatch_openai(tools, [call(f"c{n}") for n in range(130)])
    assert len(answers) == 130 and len(CALLED) == 128
    assert "More than 128" in answers[-1]["content"]


def test_response_items_are_answered(tools: Tools) -> None:
    output = [
        {"type": "reasoning", "id": "r"},
        {"type": "function_call", "id": "f", "call_id": "a", "name": "refund",
         "arguments": '{"amount": 7}'},
        {"type": "function_call", "id": "g", "call_id": "b", "name": "refund", "arguments": "x"},
    ]  # fmt: skip
    response = {"model": "gpt-y", "output": output}
    for one in (response, output, objects(response)):
        found = dispatch_openai_responses(tools, one)
        assert found[0] == {"type": "function_call_output", "call_id": "a", "output": "paid 7"}
        assert found[1]["call_id"] == "b" and "JSON" in found[1]["output"]
        assert asyncio.run(adispatch_openai_responses(tools, one)) == found
    assert Past(tools.gate).proposed()[0].context["model"] == "gpt-y"
