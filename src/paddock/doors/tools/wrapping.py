"""A function that crosses the gate when it is called, for code that knows nothing of tools."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar, cast

from paddock.doors.tools.definition import Tool, tool
from paddock.doors.tools.toolset import Tools
from paddock.gate.gate import Gate
from paddock.model.action import Effect

F = TypeVar("F", bound=Callable[..., Any])


def wrap(
    gate: Gate,
    function: F,
    *,
    name: str | None = None,
    effect: str | Effect | None = None,
    reversible: bool | None = None,
    preview: Callable[..., Any] | None = None,
) -> F:
    """Return the function, with its signature, plain or async as before, whose calls go through the
    gate. What did not happen raises ToolRefused (ToolDrafted when it is a draft now), what failed
    ToolError with the function's own exception as its cause."""
    made = tool(effect=effect, reversible=reversible, name=name, preview=preview)(function)
    calls = _Calls(Tools(gate, [made]), made)
    return cast(F, _dressed(_shaped(calls, function), function, made))


class _Calls:
    """Calls of one tool with plain arguments."""

    def __init__(self, tools: Tools, made: Tool) -> None:
        self._tools = tools
        self._made = made

    def plain(self, /, *args: Any, **kwargs: Any) -> Any:
        arguments = self._made.parameters.named(args, kwargs)
        return self._tools.call(self._made.name, arguments).unwrap()

    async def waiting(self, /, *args: Any, **kwargs: Any) -> Any:
        arguments = self._made.parameters.named(args, kwargs)
        return (await self._tools.acall(self._made.name, arguments)).unwrap()


def _shaped(calls: _Calls, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the same kind. A generator has run to its end before its first item is
    yielded, so that nothing of it happens after the call was settled."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        return calls.plain(*args, **kwargs)

    async def waiting(*args: Any, **kwargs: Any) -> Any:
        return await calls.waiting(*args, **kwargs)

    def items(*args: Any, **kwargs: Any) -> Iterator[Any]:
        return iter(calls.plain(*args, **kwargs))

    async def items_waiting(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for item in await calls.waiting(*args, **kwargs):
            yield item

    if inspect.iscoroutinefunction(function):
        return waiting
    if inspect.isasyncgenfunction(function):
        return items_waiting
    return items if inspect.isgeneratorfunction(function) else plain


def _dressed(made: Callable[..., Any], function: Callable[..., Any], of: Tool) -> Any:
    """Set the name, docstring and signature of the function, but without exposing it."""
    functools.update_wrapper(made, function)
    del made.__wrapped__  # type: ignore[attr-defined]
    made.__signature__ = of.parameters.signature  # type: ignore[attr-defined]
    made.__annotations__ = dict(of.parameters.hints)
    return made
