"""Decorators that turn a coroutine of the engine into a method for a plain caller or for another
event loop.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from paddock.doors.machine.calls import HandleCalls
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.files import OpenFile

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class Face:
    """Something with calls behind it, on an engine."""

    def __init__(self, engine: Engine, calls: Any) -> None:
        self._engine = engine
        self._calls = calls


class HandleFace(Face):
    """The facts about a running program that a handle has without asking."""

    _calls: HandleCalls

    @property
    def pid(self) -> int:
        """Returns the program's pid, as the sandbox numbers it."""
        return self._calls.pid

    @property
    def stdout(self) -> str:
        """Returns what it printed so far."""
        return self._calls.running.text(1)

    @property
    def stderr(self) -> str:
        """Returns what it printed to its error output so far."""
        return self._calls.running.text(2)


class FileStreamFace(Face):
    """A file that is being read piece by piece. The guest lets go of it when nobody holds this."""

    _calls: OpenFile

    def __del__(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        with contextlib.suppress(RuntimeError):  # the engine has ended, and the sandbox with it
            self._engine.loop.call_soon_threadsafe(self._calls.close)


def synced(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return a method that waits for the coroutine."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._engine.call(method(self._calls, *args, **kwargs))
        return result

    return call


def asynced(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a method that is awaited on another event loop."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = await self._engine.acall(method(self._calls, *args, **kwargs))
        return result

    return call
