"""Finds the Python function of a tool by `module:name`, and calls it for the gate."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from paddock.doors.tools.definition import Tool
from paddock.doors.tools.errors import InvalidArguments
from paddock.doors.tools.running import run
from paddock.doors.tools.toolset import done
from paddock.gate.executors import Done, Live
from paddock.model.action import Action, Kind
from paddock.model.errors import InvalidInput

Function = Callable[..., Any]


def find_function(where: str, action: Action) -> Function:
    """Return the function that carries out the action. The error names the tools that there are."""
    if action.kind is not Kind.TOOL:
        raise InvalidInput(
            f"a draft of kind {action.kind} cannot be sent from here",
            hint="only tools are functions",
        )
    functions = _functions(_load(where))
    function = functions.get(action.name)
    if function is None:
        names = ", ".join(sorted(functions)) or "none"
        raise InvalidInput(f"--tools: {where} has no tool {action.name!r}", hint=f"it has {names}")
    _check_signature(function, action, where)
    return function


def live(function: Function) -> Live:
    """Return an executor that calls the function, or the tool."""

    async def carry_out(action: Action) -> Done:
        if isinstance(function, Tool):
            call = function.parameters.call(action.arguments)
            return done(await run(function.function, call.args, call.kwargs, is_here=False))
        return done(await run(function, (), dict(action.arguments), is_here=False))

    return carry_out


def _load(where: str) -> Any:
    module_name, colon, attribute = where.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as for any program that is started here
    try:
        value: Any = importlib.import_module(module_name)
    except Exception as error:
        what = f"--tools: {module_name!r} cannot be imported: {type(error).__name__}: {error}"
        raise InvalidInput(what, hint="write MODULE:NAME, as in app.tools:TOOLS") from None
    for name in attribute.split(".") if colon else ():
        try:
            value = getattr(value, name)
        except AttributeError:
            raise InvalidInput(f"--tools: {module_name} has no {attribute!r}") from None
    return value


def _functions(value: Any) -> Mapping[str, Function]:
    if isinstance(value, ModuleType):
        value = {
            name: function for name, function in vars(value).items() if not name.startswith("_")
        }
        return {
            _name(function, name): function
            for name, function in value.items()
            if callable(function)
        }
    if isinstance(value, Mapping):
        return {str(name): function for name, function in value.items() if callable(function)}
    if isinstance(value, list | tuple | set | frozenset):
        return {_name(function, ""): function for function in value if callable(function)}
    return {_name(value, ""): value} if callable(value) else {}


def _name(function: Any, usual: str) -> str:
    """Return the name of a tool: its own, or that of the function's definition."""
    own = getattr(function, "name", None)
    return own if isinstance(own, str) else usual or getattr(function, "__name__", "")


def _check_signature(function: Function, action: Action, where: str) -> None:
    """Raise InvalidInput for a call that cannot fit, before anything is marked as sent."""
    try:
        if isinstance(function, Tool):
            function.parameters.call(action.arguments)
        else:
            inspect.signature(function).bind(**action.arguments)
    except (TypeError, InvalidArguments) as error:
        what = f"--tools: {action.name} of {where} does not take these arguments: {error}"
        raise InvalidInput(what) from None
    except ValueError:
        return  # it has no signature to look at
