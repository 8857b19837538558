"""Tool calls as vendors write them, answered in order. Knows no vendor.

A model's message is untrusted: a call that is malformed, unknown or a repetition is answered with
an error, and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from paddock.doors.tools.crossing import record_invalid
from paddock.doors.tools.result import ToolResult, invalid
from paddock.doors.tools.toolset import Tools

MAX_CALLS = 128  # of one message; the vendors' own bound on parallel calls
_MAX_ID = 200


class VendorToolCall(msgspec.Struct, frozen=True):
    """One call that a model asks for. A problem stands in for what is wrong with it."""

    call_id: str
    name: str
    arguments: Any
    problem: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """A call and what came of it."""

    call: VendorToolCall
    result: ToolResult


def part(value: Any, name: str) -> Any:
    """Return a part of a message, which may be a mapping or an object of a vendor's package."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def parts(value: Any) -> list[Any]:
    """Return the value when it is a list, else an empty list."""
    return list(value) if isinstance(value, list | tuple) else []


def made_call(call_id: Any, name: Any, arguments: Any) -> VendorToolCall:
    """Return a call from the parts of a message. Arguments are checked when they are read."""
    if not isinstance(call_id, str) or not call_id:
        return VendorToolCall("", str(name)[:_MAX_ID], arguments, "The call has no id.")
    if not isinstance(name, str) or not name:
        return VendorToolCall(call_id, "", arguments, "The call names no tool.")
    if arguments is not None and not isinstance(arguments, str | Mapping):
        return VendorToolCall(call_id, name, None, "The arguments are not an object.")
    return VendorToolCall(call_id, name, arguments)


def answers(
    tools: Tools, calls: Iterable[VendorToolCall], context: Mapping[str, Any]
) -> list[Answer]:
    """Answer all calls one after the other on the caller's thread."""
    found = []
    for call in _checked(calls):
        if call.problem is not None:
            result = _refused(tools, call, context)
        else:
            result = tools.call(call.name, call.arguments, context=_context(call, context))
        found.append(Answer(call, result))
    return found


async def aanswers(
    tools: Tools, calls: Iterable[VendorToolCall], context: Mapping[str, Any]
) -> list[Answer]:
    """Answer all calls concurrently, in the order in which they were asked."""

    async def one(call: VendorToolCall) -> Answer:
        if call.problem is not None:
            return Answer(call, _refused(tools, call, context))
        called = tools.acall(call.name, call.arguments, context=_context(call, context))
        return Answer(call, await called)

    checked = list(_checked(calls))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(call)) for call in checked]
    return [task.result() for task in tasks]


def context_of(message: Any, context: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is known about the origin of the calls; the caller's context overrides the
    message's."""
    model = part(message, "model")
    known = {"model": model[:_MAX_ID]} if isinstance(model, str) else {}
    return {**known, **(context or {})}


def _checked(calls: Iterable[VendorToolCall]) -> Iterator[VendorToolCall]:
    seen: set[str] = set()
    for number, call in enumerate(calls):
        if call.problem is None and number >= MAX_CALLS:
            yield _with(call, f"More than {MAX_CALLS} calls in one message.")
        elif call.problem is None and call.call_id in seen:
            yield _with(call, "Another call in this message has the same id.")
        else:
            yield call
        seen.add(call.call_id)


def _with(call: VendorToolCall, problem: str) -> VendorToolCall:
    return VendorToolCall(call.call_id, call.name, call.arguments, problem)


def _refused(tools: Tools, call: VendorToolCall, context: Mapping[str, Any]) -> ToolResult:
    result = invalid(call.name, f"Not done. {call.problem}")
    return record_invalid(tools.gate, result, _context(call, context))


def _context(call: VendorToolCall, context: Mapping[str, Any]) -> dict[str, Any]:
    return {**context, "tool_call_id": call.call_id[:_MAX_ID]}
