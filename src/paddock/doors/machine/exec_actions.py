"""Programs that a sandbox's programs start, as actions."""

from __future__ import annotations

from typing import Any

from paddock.fence.container.attempts import Truth
from paddock.model.action import Action, Effect, Kind
from paddock.model.results import ExecEvent


def exec_action(event: ExecEvent, truth: Truth, step: int | None) -> Action:
    """A program that is about to run."""
    arguments: dict[str, Any] = {
        "program": event.program,
        "argv": list(event.argv),
        "cwd": event.cwd,
        "pid": event.pid,
    }
    if truth.real_path is not None:
        arguments["real_path"] = truth.real_path
    if truth.same_as:
        arguments["same_as"] = list(truth.same_as)
    name = event.program.rpartition("/")[2] or event.program
    return Action(Kind.EXEC, name, arguments, Effect.WRITE, is_contained=True, parent=step)


def other_action(event: ExecEvent, program: str, step: int | None) -> Action:
    """A program that runs because of another: a script's interpreter, what a loader loads."""
    arguments = {
        "program": program,
        "argv": [program, *event.argv],
        "cwd": event.cwd,
        "pid": event.pid,
        "because_of": event.program,
    }
    name = program.rpartition("/")[2] or program
    return Action(Kind.EXEC, name, arguments, Effect.WRITE, is_contained=True, parent=step)
