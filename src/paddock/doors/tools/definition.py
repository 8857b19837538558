"""A tool: a function with a name, a schema and a declared effect. What it may do is the file's.

A Tool has no gate. Calling it directly is refused, because that would be a second way out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, overload

import msgspec
from msgspec.structs import replace

from paddock.doors.tools import docstrings
from paddock.doors.tools.parameters import Parameters
from paddock.model.action import Effect
from paddock.model.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what all model vendors take


class Tool(msgspec.Struct, frozen=True, eq=False):
    """A function that an agent may want to call. Effect and reversibility are None where the code
    leaves them to the paddock file."""

    name: str
    description: str
    parameters: Parameters
    function: Callable[..., Any]
    effect: Effect | None = None
    is_reversible: bool | None = None
    preview: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return (
            f"Tool(name={self.name!r}, description={self.description!r}, "
            f"effect={self.effect!r}, is_reversible={self.is_reversible!r})"
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return self.parameters.schema

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"the tool {self.name!r} is called through Tools or wrap(), which cross the gate"
        )

    def __set_name__(self, owner: type, name: str) -> None:
        # It was made in the body of a class, so its first parameter is the instance.
        setattr(owner, name, ToolMethod(self))


class ToolMethod:
    """A tool that is a method: each instance of the class has its own."""

    def __init__(self, tool: Tool) -> None:
        about = docstrings.parse(tool.function.__doc__).parameters
        self._tool = tool
        self._parameters = Parameters.of(tool.function, about, is_method=True)
        self.__doc__ = tool.function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> ToolMethod: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Tool: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> ToolMethod | Tool:
        if instance is None:
            return self
        return replace(
            self._tool,
            parameters=self._parameters,
            function=_bound(self._tool.function, instance),
            preview=None if self._tool.preview is None else _bound(self._tool.preview, instance),
        )


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    effect: str | Effect | None = None,
    reversible: bool | None = None,
    name: str | None = None,
    description: str | None = None,
    preview: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: str | Effect | None = None,
    reversible: bool | None = None,
    name: str | None = None,
    description: str | None = None,
    preview: Callable[..., Any] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a tool of a function, plain or async. What is not said about its effect, the paddock
    file has to say. `preview` takes the same arguments, changes nothing and tells what would
    come of the call; of a method it is a method too."""
    words = _Words(name, description, effect_of(effect), reversible, preview)
    if function is not None:
        return words.made(function)
    return words.made


class _Words(msgspec.Struct, frozen=True):
    """The arguments of the decorator."""

    name: str | None
    description: str | None
    effect: Effect | None
    is_reversible: bool | None
    preview: Callable[..., Any] | None

    def made(self, function: Callable[..., Any]) -> Tool:
        if isinstance(function, Tool | ToolMethod):
            raise InvalidInput(f"{function!r:.80} is a tool already")
        if isinstance(function, staticmethod | classmethod):
            kind = type(function).__name__
            raise InvalidInput(
                f"@tool does not go above @{kind}",
                hint="put @staticmethod above @tool; for a class method call tool(Class.method)",
            )
        documented = docstrings.parse(inspect.getdoc(function))
        parameters = Parameters.of(function, documented.parameters)
        if self.preview is not None:
            _check_preview(self.preview, parameters)
        return Tool(
            name=_checked_name(self.name or getattr(function, "__name__", "")),
            description=self.description or documented.summary,
            parameters=parameters,
            function=function,
            effect=self.effect,
            is_reversible=self.is_reversible,
            preview=self.preview,
        )


def effect_of(value: str | Effect | None) -> Effect | None:
    """Return the effect of that name. Raises InvalidInput."""
    if value is None:
        return None
    try:
        return Effect(value)
    except ValueError:
        known = ", ".join(Effect)
        raise InvalidInput(f"{value!r:.80} is not an effect", hint=f"one of {known}") from None


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r:.80} cannot be the name of a tool",
            hint="pass name=, with at most 64 letters, digits, - and _",
        )
    return name


def _check_preview(preview: Callable[..., Any], parameters: Parameters) -> None:
    kinds = {one.name: one.kind for one in parameters.signature.parameters.values()}
    by_place = [name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_ONLY]
    try:
        by_name = dict.fromkeys(kinds.keys() - set(by_place))
        inspect.signature(preview).bind(*by_place, **by_name)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the preview does not take what the tool takes: {error}") from None


def _bound(function: Callable[..., Any], instance: object) -> Callable[..., Any]:
    bind = getattr(function, "__get__", None)
    return function if bind is None else bind(instance, type(instance))
