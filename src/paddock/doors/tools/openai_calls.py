"""OpenAI's two shapes of tools and tool calls: chat completions and responses. Plain data in and
out; objects of the `openai` package are read by their attributes and never needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from paddock.doors.tools.definition import Tool
from paddock.doors.tools.dispatching import (
    Answer,
    VendorToolCall,
    aanswers,
    answers,
    context_of,
    made_call,
    part,
    parts,
)
from paddock.doors.tools.toolset import Tools

_Context = Mapping[str, Any] | None


def openai_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Return the tools as `tools=` of chat completions takes them."""
    return [{"type": "function", "function": _function(one)} for one in tools]


def openai_responses_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Return the tools as `tools=` of responses takes them. They are not strict: optional
    parameters stay optional."""
    return [{"type": "function", **_function(one), "strict": False} for one in tools]


def dispatch_openai(
    tools: Tools, message: Any, *, context: _Context = None
) -> list[dict[str, Any]]:
    """Make the tool calls of a completion, of its message, or of a list of calls, and return the
    tool messages that answer them, one for each call."""
    calls = list(_chat_calls(message))
    return list(map(_message, answers(tools, calls, context_of(message, context))))


async def adispatch_openai(
    tools: Tools, message: Any, *, context: _Context = None
) -> list[dict[str, Any]]:
    """Do the same for async code: the calls are made concurrently."""
    calls = list(_chat_calls(message))
    return list(map(_message, await aanswers(tools, calls, context_of(message, context))))


def dispatch_openai_responses(
    tools: Tools, response: Any, *, context: _Context = None
) -> list[dict[str, Any]]:
    """Make the function calls of a response, or of a list of its items, and return the items that
    answer them."""
    calls = list(_response_calls(response))
    return list(map(_item, answers(tools, calls, context_of(response, context))))


async def adispatch_openai_responses(
    tools: Tools, response: Any, *, context: _Context = None
) -> list[dict[str, Any]]:
    """Do the same for async code: the calls are made concurrently."""
    calls = list(_response_calls(response))
    return list(map(_item, await aanswers(tools, calls, context_of(response, context))))


def _function(one: Tool) -> dict[str, Any]:
    return {"name": one.name, "description": one.description, "parameters": dict(one.schema)}


def _chat_calls(message: Any) -> Iterator[VendorToolCall]:
    choices = parts(part(message, "choices"))
    found = part(choices[0], "message") if choices else message
    calls = found if isinstance(found, list | tuple) else parts(part(found, "tool_calls"))
    for call in calls:
        function = part(call, "function")
        yield made_call(part(call, "id"), part(function, "name"), part(function, "arguments"))


def _response_calls(response: Any) -> Iterator[VendorToolCall]:
    items = response if isinstance(response, list | tuple) else parts(part(response, "output"))
    for item in items:
        if part(item, "type") == "function_call":
            yield made_call(part(item, "call_id"), part(item, "name"), part(item, "arguments"))


def _message(answer: Answer) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": answer.call.call_id,
        "content": answer.result.text,
    }


def _item(answer: Answer) -> dict[str, Any]:
    return {
        "type": "function_call_output",
        "call_id": answer.call.call_id,
        "output": answer.result.text,
    }
