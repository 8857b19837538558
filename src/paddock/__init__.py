"""Paddock: a sandbox for AI agents, enforced below the model.

Names are loaded when they are first used, so that `import paddock` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.doors.machine.async_sandbox import AsyncSandbox
    from paddock.doors.machine.processes import CommandTimeout
    from paddock.doors.machine.sandbox import Sandbox
    from paddock.doors.machine.volumes import Volume
    from paddock.doors.tool_run import open_run
    from paddock.doors.tools import (
        InvalidArguments,
        Tool,
        ToolDrafted,
        ToolError,
        ToolRefused,
        ToolResult,
        Tools,
        adispatch_anthropic,
        adispatch_openai,
        adispatch_openai_responses,
        anthropic_tools,
        dispatch_anthropic,
        dispatch_openai,
        dispatch_openai_responses,
        from_langchain,
        from_openai_agents,
        openai_responses_tools,
        openai_tools,
        tool,
        wrap,
    )
    from paddock.model.errors import (
        Blocked,
        CannotEnforce,
        CommandExitException,
        CommandNotStarted,
        Conflict,
        FaultInjected,
        FileError,
        FileMissing,
        HostCannot,
        IntegrityError,
        InvalidInput,
        NotFound,
        PaddockError,
        SandboxDied,
        SandboxError,
        TimeoutReached,
    )
    from paddock.model.version import __version__ as __version__

_ERRORS = (
    "Blocked", "CannotEnforce", "CommandExitException", "CommandNotStarted", "Conflict",
    "FaultInjected", "FileError", "FileMissing", "HostCannot", "IntegrityError", "InvalidInput",
    "NotFound", "PaddockError", "SandboxDied", "SandboxError", "TimeoutReached",
)  # fmt: skip
_TOOLS = (
    "InvalidArguments", "Tool", "ToolDrafted", "ToolError", "ToolRefused", "ToolResult", "Tools",
    "adispatch_anthropic", "adispatch_openai", "adispatch_openai_responses", "anthropic_tools",
    "dispatch_anthropic", "dispatch_openai", "dispatch_openai_responses", "from_langchain",
    "from_openai_agents", "openai_responses_tools", "openai_tools", "tool", "wrap",
)  # fmt: skip
_HOMES = {
    "__version__": "paddock.model.version",
    "open_run": "paddock.doors.tool_run",
    **dict.fromkeys(_TOOLS, "paddock.doors.tools"),
    "Sandbox": "paddock.doors.machine.sandbox",
    "AsyncSandbox": "paddock.doors.machine.async_sandbox",
    "Volume": "paddock.doors.machine.volumes",
    "CommandTimeout": "paddock.doors.machine.processes",
    **dict.fromkeys(_ERRORS, "paddock.model.errors"),
}

__all__ = [
    "AsyncSandbox",
    "Blocked",
    "CannotEnforce",
    "CommandExitException",
    "CommandNotStarted",
    "CommandTimeout",
    "Conflict",
    "FaultInjected",
    "FileError",
    "FileMissing",
    "HostCannot",
    "IntegrityError",
    "InvalidArguments",
    "InvalidInput",
    "NotFound",
    "PaddockError",
    "Sandbox",
    "SandboxDied",
    "SandboxError",
    "TimeoutReached",
    "Tool",
    "ToolDrafted",
    "ToolError",
    "ToolRefused",
    "ToolResult",
    "Tools",
    "Volume",
    "adispatch_anthropic",
    "adispatch_openai",
    "adispatch_openai_responses",
    "anthropic_tools",
    "dispatch_anthropic",
    "dispatch_openai",
    "dispatch_openai_responses",
    "from_langchain",
    "from_openai_agents",
    "open_run",
    "openai_responses_tools",
    "openai_tools",
    "tool",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paddock' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
