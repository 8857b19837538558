"""Limits that OpenAI enforces on requests, besides their shape: for chat completions and for
responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.llm.conversation import InvalidRequest

_TOOL_CHOICES = ("none", "auto", "required")


def check_temperature(body: Mapping[str, Any]) -> None:
    value = body.get("temperature")
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest("temperature is not a number.", "temperature")
    if not 0 <= value <= 2:
        raise InvalidRequest("temperature must be between 0 and 2.", "temperature")


def check_tool_choice(body: Mapping[str, Any], tools: tuple[str, ...]) -> None:
    """Refuse a choice that is no mode, or that names a tool which is not among the tools."""
    choice = body.get("tool_choice")
    if choice is None:
        return
    if isinstance(choice, str):
        if choice not in _TOOL_CHOICES:
            modes = ", ".join(_TOOL_CHOICES)
            raise InvalidRequest(
                f"tool_choice must be one of {modes}, or name a tool.", "tool_choice"
            )
        if choice == "required" and not tools:
            raise InvalidRequest("tool_choice is required, but there are no tools.", "tool_choice")
        return
    if not isinstance(choice, Mapping):
        raise InvalidRequest("tool_choice is neither a text nor an object.", "tool_choice")
    function = choice.get("function", choice)
    name = function.get("name") if isinstance(function, Mapping) else None
    if choice.get("type") in ("function", "custom") and name not in tools:
        raise InvalidRequest(f"tool_choice: there is no tool {str(name)[:80]!r}.", "tool_choice")


def check_schema(format: Any, where: str) -> None:
    """Refuse the format `json_schema` without a schema or a name."""
    if not isinstance(format, Mapping) or format.get("type") != "json_schema":
        return
    described = format.get("json_schema", format)
    for key, kind in (("name", str), ("schema", dict)):
        if not isinstance(described, Mapping) or not isinstance(described.get(key), kind):
            raise InvalidRequest(f"Missing required parameter: {where}.{key}.", f"{where}.{key}")
