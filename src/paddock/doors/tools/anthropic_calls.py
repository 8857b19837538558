"""Anthropic's shape of tools and tool calls. Plain data in and out; objects of the `anthropic`
package are read by their attributes and never needed."""

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


def anthropic_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Return the tools as `tools=` of messages takes them."""
    return [
        {"name": one.name, "description": one.description, "input_schema": dict(one.schema)}
        for one in tools
    ]


def dispatch_anthropic(
    tools: Tools, message: Any, *, context: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Make the tool uses of a message, or of a list of its blocks, and return the blocks that
    answer them, for the content of the next user message."""
    calls = list(_calls(message))
    return list(map(_block, answers(tools, calls, context_of(message, context))))


async def adispatch_anthropic(
    tools: Tools, message: Any, *, context: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Do the same for async code: the calls are made concurrently."""
    calls = list(_calls(message))
    return list(map(_block, await aanswers(tools, calls, context_of(message, context))))


def _calls(message: Any) -> Iterator[VendorToolCall]:
    blocks = message if isinstance(message, list | tuple) else parts(part(message, "content"))
    for block in blocks:
        if part(block, "type") == "tool_use":
            yield made_call(part(block, "id"), part(block, "name"), part(block, "input"))


def _block(answer: Answer) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": answer.call.call_id,
        "content": answer.result.text,
        "is_error": answer.result.is_error,
    }
