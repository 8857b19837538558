"""The section `tools` of a paddock file: its values, and how they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from paddock.model.action import Effect
from paddock.model.errors import InvalidInput
from paddock.policy.globs import any_of
from paddock.policy.problems import suggest
from paddock.policy.rules import check_expression
from paddock.policy.section import (
    ByType,
    Cursor,
    Key,
    MapOf,
    Section,
    Value,
    as_given,
    truth,
)

_MAX_TOOLS = 2000
# Effects from the strictest to the loosest: the order in which they are looked at.
STRICTEST_FIRST = (Effect.ADMIN, Effect.WRITE, Effect.READ)
TOOL_NAMES = frozenset({"args", "context"})  # that the expressions of a tool can read
_EFFECTS = [effect.value for effect in Effect]

Conditions = tuple[tuple[Effect, str | bool], ...]


class ToolTerms(msgspec.Struct, frozen=True):
    """A tool that the agent may know of, and what it does to the world."""

    name: str
    # One effect, or for some effects the expression that says when it is that one.
    effect: Effect | Conditions
    is_reversible: bool = False


def plain_tool(tool: ToolTerms) -> dict[str, Any]:
    """Return the tool as the file writes it, without its name."""
    plain: dict[str, Any] = {}
    if isinstance(tool.effect, Effect):
        plain["effect"] = tool.effect.value
    else:
        plain["effect"] = {effect.value: condition for effect, condition in tool.effect}
    if tool.is_reversible:
        plain["reversible"] = True
    return plain


def undeclared(patterns: Iterable[str], tools: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each pattern that matches no declared tool."""
    for pattern in patterns:
        if not any(map(any_of([pattern], ""), tools)):
            hint = suggest(pattern, tools) if tools else "declare it under tools"
            yield f"no tool {pattern!r} is declared", hint


def _build_tool(
    cursor: Cursor, effect: Effect | dict[str, str | bool], is_reversible: bool = False
) -> ToolTerms:
    tool_name = str(cursor.path[-1])
    if not tool_name or not tool_name.isprintable() or "*" in tool_name or len(tool_name) > 200:
        cursor.report("not the name of a tool", "write the name as the agent calls it")
    if not isinstance(effect, dict):
        return ToolTerms(tool_name, effect, is_reversible)
    return ToolTerms(tool_name, _build_conditions(cursor.at("effect"), effect), is_reversible)


def _build_conditions(cursor: Cursor, conditions: dict[str, str | bool]) -> Conditions:
    """Order the conditions from the strictest effect down: the first that holds decides."""
    ordered: list[tuple[Effect, str | bool]] = []
    for effect in STRICTEST_FIRST:
        if effect.value not in conditions:
            continue
        condition = conditions[effect.value]
        inner = cursor.at(effect.value)
        if ordered and ordered[-1][1] is True:
            message = f"never reached: {ordered[-1][0]} is always true"
            inner.report(message, "give the stricter effect an expression")
        if isinstance(condition, str):
            check_expression(condition, TOOL_NAMES, inner)
        ordered.append((effect, condition))
    if not ordered:
        cursor.report("says of no effect when a call has it", "write effect: write")
    return tuple(ordered)


def _parse_effect(value: Any) -> Effect:
    if value in _EFFECTS:
        return Effect(value)
    raise InvalidInput(f"{value!r} is not an effect", hint=suggest(value, _EFFECTS))


def _parse_condition(value: Any) -> str | bool:
    if isinstance(value, str | bool):
        return value
    raise InvalidInput(f"{value!r} is neither an expression nor true")


_CONDITION = Key(Value(_parse_condition, {"type": ["string", "boolean"]}))
_EFFECT_CONDITIONS = Section(
    "For each effect the expression that says when a call has it; the strictest that holds.",
    as_given,
    dict.fromkeys((effect.value for effect in STRICTEST_FIRST), _CONDITION),
)
_TOOL = Section(
    "One tool that the agent may call.",
    _build_tool,
    {
        "effect": Key(
            ByType(Value(_parse_effect, {"enum": _EFFECTS}), mapping=_EFFECT_CONDITIONS),
            missing="write effect: read, write or admin",
            description="read, write or admin, or a mapping from these to CEL",
        ),
        "reversible": Key(
            truth(), into="is_reversible", description="whether a write can be undone"
        ),
    },
    hint="write {effect: read}, or write or admin",
)
TOOLS = MapOf(_TOOL, _MAX_TOOLS, "write tools: {search: {effect: read}}")
