"""Function tools of the real OpenAI Agents SDK, behind the gate, in a real run with a model whose
answers are written here."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from paddock.doors.tools.openai_agents import from_openai_agents
from paddock.doors.tools.wrapping import wrap
from paddock.gate.gate import Gate
from unit.doors.tools.conftest import Opener
from unit.doors.tools.sets import Past, file_for

agents = pytest.importorskip("agents", reason="openai-agents is not installed")
import httpx  # noqa: E402
from agents.tool_context import ToolContext  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402

agents.set_tracing_disabled(True)


@agents.function_tool
def refund(amount: int, to: str = "ada") -> str:
    """Pays money back.

    Args:
        amount: In cents.
    """
    return f"paid {amount} to {to}"


def completion(message: dict[str, Any]) -> dict[str, Any]:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-x",
            "choices": [choice]}  # fmt: skip


def scripted(*messages: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """A model of the SDK that gives these answers, and the requests that it got."""
    waiting, requests = list(messages), []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(json.loads(request.content))
        return httpx.Response(200, json=completion(waiting.pop(0)))

    client = AsyncOpenAI(
        api_key="none", http_client=httpx.AsyncClient(transport=httpx.MockTransport(answer))
    )
    return agents.OpenAIChatCompletionsModel("gpt-x", client), requests


def calls(*arguments: str) -> dict[str, Any]:
    made = [
        {"id": f"call-{n}", "type": "function", "function": {"name": "refund", "arguments": one}}
        for n, one in enumerate(arguments)
    ]
    return {"content": None, "tool_calls": made}


def outputs(request: dict[str, Any]) -> list[str]:
    return [one["content"] for one in request["messages"] if one["role"] == "tool"]


def run(tool: Any, *messages: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    model, requests = scripted(*messages, {"content": "all done"})
    agent = agents.Agent(name="a", instructions="Help.", tools=[tool], model=model)
    result = asyncio.run(agents.Runner.run(agent, "please"))
    return result.final_output, requests


def test_run_of_an_agent_crosses_the_gate(gate: Gate) -> None:
    gated = from_openai_agents(gate, refund)
    assert isinstance(gated, agents.FunctionTool)
    said = calls('{"amount": 5, "to": "bob"}', '{"amount": 95000, "to": "bob"}', "{")
    final, requests = run(gated, said)
    assert final == "all done"
    paid, refused, broken = outputs(requests[1])
    assert paid == "paid 5 to bob"
    assert "Nobody gets that much." in refused
    assert "not valid JSON" in broken
    first, second = Past(gate).proposed()
    assert first.arguments == {"amount": 5, "to": "bob"}
    assert first.context["tool_call_id"] == "call-0"
    assert second.context["tool_call_id"] == "call-1"
    assert Past(gate).invalid_calls()[0].context["tool_call_id"] == "call-2"


def test_model_sees_the_same_definition_as_without_the_gate(gate: Gate) -> None:
    _, with_gate = run(from_openai_agents(gate, refund))
    _, without = run(refund)
    assert with_gate[0]["tools"] == without[0]["tools"]


def context_for(text: str) -> Any:
    return ToolContext(context=None, tool_name="t", tool_call_id="call-9", tool_arguments=text)


def invoke(tool: Any, text: str) -> Any:
    return asyncio.run(tool.on_invoke_tool(context_for(text), text))


def test_default_of_a_parameter_is_decided_on(gate: Gate) -> None:
    loose = agents.function_tool(_refund, strict_mode=False, name_override="refund")
    assert invoke(from_openai_agents(gate, loose), '{"amount": 5}') == "paid 5 to ada"
    assert Past(gate).proposed()[0].arguments == {"amount": 5, "to": "ada"}


def _refund(amount: int, to: str = "ada") -> str:
    return f"paid {amount} to {to}"


def test_tool_that_raises_raises_as_before(opener: Opener) -> None:
    gate = opener(file_for("bad", "soft"))

    def bad() -> str:
        raise ValueError("broken")

    raising = agents.function_tool(bad, failure_error_function=None)
    with pytest.raises(ValueError, match="broken"):
        invoke(from_openai_agents(gate, raising), "{}")
    soft = agents.function_tool(bad, name_override="soft")
    assert invoke(from_openai_agents(gate, soft), "{}") == invoke(soft, "{}")
    assert [one.outcome for one in Past(gate).settled()] == ["failed", "done"]


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"amount": 1, "to": "x", "more": 1}', "{}"])
def test_arguments_that_are_no_arguments_do_not_cross(gate: Gate, text: str) -> None:
    assert "rguments" in invoke(from_openai_agents(gate, refund), text)
    assert Past(gate).steps() == []


def test_key_given_twice_is_decided_on_as_it_runs(gate: Gate) -> None:
    text = '{"amount": 95000, "amount": 5, "to": "x"}'
    assert invoke(from_openai_agents(gate, refund), text) == "paid 5 to x"
    assert Past(gate).proposed()[0].arguments["amount"] == 5


def test_wrapped_function_makes_a_function_tool(gate: Gate) -> None:
    made = agents.function_tool(wrap(gate, _refund, name="refund", effect="write"))
    assert invoke(made, '{"amount": 5, "to": "bob"}') == "paid 5 to bob"
    assert "error occurred" in invoke(made, '{"amount": 95000, "to": "bob"}')
    assert [one.outcome for one in Past(gate).settled()] == ["done", "refused"]
