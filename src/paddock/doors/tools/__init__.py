"""Tools in Python: functions whose calls cross the gate, and adapters for those who call them.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.doors.tools.anthropic_calls import (
        adispatch_anthropic,
        anthropic_tools,
        dispatch_anthropic,
    )
    from paddock.doors.tools.definition import Tool, tool
    from paddock.doors.tools.errors import InvalidArguments, ToolDrafted, ToolError, ToolRefused
    from paddock.doors.tools.langchain import from_langchain
    from paddock.doors.tools.openai_agents import from_openai_agents
    from paddock.doors.tools.openai_calls import (
        adispatch_openai,
        adispatch_openai_responses,
        dispatch_openai,
        dispatch_openai_responses,
        openai_responses_tools,
        openai_tools,
    )
    from paddock.doors.tools.result import ToolResult
    from paddock.doors.tools.toolset import Tools
    from paddock.doors.tools.wrapping import wrap

_HOMES = {
    "Tool": "definition",
    "tool": "definition",
    "Tools": "toolset",
    "ToolResult": "result",
    "wrap": "wrapping",
    "InvalidArguments": "errors",
    "ToolDrafted": "errors",
    "ToolError": "errors",
    "ToolRefused": "errors",
    "from_langchain": "langchain",
    "from_openai_agents": "openai_agents",
    "anthropic_tools": "anthropic_calls",
    "dispatch_anthropic": "anthropic_calls",
    "adispatch_anthropic": "anthropic_calls",
    "openai_tools": "openai_calls",
    "openai_responses_tools": "openai_calls",
    "dispatch_openai": "openai_calls",
    "adispatch_openai": "openai_calls",
    "dispatch_openai_responses": "openai_calls",
    "adispatch_openai_responses": "openai_calls",
}

__all__ = [
    "InvalidArguments",
    "Tool",
    "ToolDrafted",
    "ToolError",
    "ToolRefused",
    "ToolResult",
    "Tools",
    "adispatch_anthropic",
    "adispatch_openai",
    "adispatch_openai_responses",
    "anthropic_tools",
    "dispatch_anthropic",
    "dispatch_openai",
    "dispatch_openai_responses",
    "from_langchain",
    "from_openai_agents",
    "openai_responses_tools",
    "openai_tools",
    "tool",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
