"""Tools of the OpenAI Agents SDK (`FunctionTool`) that cross the gate. The package is not needed:
a tool is known by its name, its schema and `on_invoke_tool`."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any, TypeVar

import msgspec

from paddock.doors.tools.arguments import SchemaReader
from paddock.doors.tools.crossing import Entry, cross, entry, record_invalid
from paddock.doors.tools.definition import effect_of
from paddock.doors.tools.errors import InvalidArguments
from paddock.doors.tools.result import ToolResult, invalid
from paddock.doors.tools.running import run
from paddock.doors.tools.toolset import done
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.model.action import Action, Effect, Outcome
from paddock.model.errors import InvalidInput

T = TypeVar("T")


def from_openai_agents(
    gate: Gate, tool: T, *, effect: str | Effect | None = None, reversible: bool | None = None
) -> T:
    """Return the same tool, whose invocations go through the gate. A refusal is the tool's output;
    what the tool raises, it raises as before."""
    found: Any = tool
    if not callable(getattr(found, "on_invoke_tool", None)):
        raise InvalidInput(f"{type(tool).__name__} is no function tool: it has no on_invoke_tool")
    made = entry(gate.policy, found.name, effect_of(effect), reversible)
    gated = _Gated(gate, made, found)
    if dataclasses.is_dataclass(tool) and not isinstance(tool, type):
        return dataclasses.replace(tool, on_invoke_tool=gated.invoke)
    changed: Any = copy.copy(tool)
    changed.on_invoke_tool = gated.invoke
    return changed  # type: ignore[no-any-return]


class _Gated(msgspec.Struct, frozen=True):
    """One tool, and the gate before it."""

    gate: Gate
    entry: Entry
    tool: Any

    async def invoke(self, context: Any, text: str) -> Any:
        result = await self._invoke(context, text)
        if result.outcome in (Outcome.DONE, Outcome.SIMULATED):
            return result.value
        if isinstance(result.cause, Exception):
            raise result.cause
        return result.text

    async def _invoke(self, context: Any, text: str) -> ToolResult:
        about = _about(context)
        reader = SchemaReader(self.tool.params_json_schema)
        try:
            arguments = reader.read(text)
        except InvalidArguments as error:
            return record_invalid(self.gate, invalid(self.entry.name, error.message), about)

        async def live(action: Action) -> Done:
            try:
                decided = json.dumps(reader.values(action.arguments))
            except InvalidArguments as error:
                return Done(outcome=Outcome.FAILED, error=error)
            function = self.tool.on_invoke_tool
            return done(await run(function, (context, decided), {}, is_here=True))

        return await cross(self.gate, self.entry, arguments, live, None, about)


def _about(context: Any) -> dict[str, Any]:
    found = {
        "tool_call_id": getattr(context, "tool_call_id", None),
        "model": getattr(getattr(context, "agent", None), "model", None),
    }
    return {name: value[:200] for name, value in found.items() if isinstance(value, str)}
