"""Programs that a sandbox's programs start, as actions."""

from __future__ import annotations

from typing import Any

from paddock.fence.processes.programs import ProgramFile
from paddock.model.action import Action, Effect, Kind
from paddock.model.results import ExecEvent


def exec_action(event: ExecEvent, file: ProgramFile, step: int | None) -> Action:
    """Return the action for a program that is about to run."""
    arguments: dict[str, Any] = {
        "program": event.program,
        "argv": list(event.argv),
        "cwd": event.cwd,
        "pid": event.pid,
        **file_arguments(file),
    }
    return _action(event.program, arguments, step)


def named_action(
    file: ProgramFile, because_of: str, cwd: str, pid: int | None, step: int | None
) -> Action:
    """Return the action for a program that runs because another one names it: a script's
    interpreter, what a loader loads."""
    arguments: dict[str, Any] = {
        "program": file.called,
        "argv": list(file.argv),
        "cwd": cwd,
        "because_of": because_of,
        **file_arguments(file),
    }
    if pid is not None:
        arguments["pid"] = pid
    return _action(file.called, arguments, step)


def file_arguments(file: ProgramFile) -> dict[str, Any]:
    """Return what is known of a program's file, for rules."""
    arguments: dict[str, Any] = {"real_path": file.real_path}
    if file.same_as:
        arguments["same_as"] = list(file.same_as)
    if file.is_writable:
        arguments["is_writable"] = True
    return arguments


def _action(program: str, arguments: dict[str, Any], step: int | None) -> Action:
    name = program.rpartition("/")[2] or program
    return Action(Kind.EXEC, name, arguments, Effect.WRITE, is_contained=True, parent=step)
