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
    from paddock.model.errors import (
        Blocked,
        CannotEnforce,
        CommandExitException,
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

__version__ = "0.1.0"

_ERRORS = (
    "Blocked", "CannotEnforce", "CommandExitException", "Conflict", "FaultInjected", "FileError",
    "FileMissing", "HostCannot", "IntegrityError", "InvalidInput", "NotFound", "PaddockError",
    "SandboxDied", "SandboxError", "TimeoutReached",
)  # fmt: skip
_HOMES = {
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
    "CommandTimeout",
    "Conflict",
    "FaultInjected",
    "FileError",
    "FileMissing",
    "HostCannot",
    "IntegrityError",
    "InvalidInput",
    "NotFound",
    "PaddockError",
    "Sandbox",
    "SandboxDied",
    "SandboxError",
    "TimeoutReached",
    "Volume",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paddock' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
