"""Tools of LangChain (`BaseTool`) that cross the gate. The package is not needed: a tool is known
by its name, its schema and `_run`.

The gate stands where LangChain hands over to the tool, after it has read the input, so callbacks,
error handling and messages work as before. The tool that comes back is of the same class.
"""

from __future__ import annotations

import contextvars
import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from paddock.doors.tools.arguments import ModelReader, SchemaReader
from paddock.doors.tools.crossing import Entry, cross, entry, record_invalid
from paddock.doors.tools.definition import effect_of
from paddock.doors.tools.errors import InvalidArguments
from paddock.doors.tools.result import ToolResult, invalid
from paddock.doors.tools.running import run, wait_for
from paddock.doors.tools.toolset import done
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.model.action import Action, Effect, Outcome
from paddock.model.errors import InvalidInput

T = TypeVar("T")
_FROM_THE_HOST = frozenset({"run_manager", "config", "callbacks"})
_call_id: contextvars.ContextVar[str | None] = contextvars.ContextVar("call_id", default=None)


def from_langchain(
    gate: Gate, tool: T, *, effect: str | Effect | None = None, reversible: bool | None = None
) -> T:
    """Return the same tool, whose calls go through the gate. A refusal is the tool's output; what
    the tool raises, it raises as before. Arguments that LangChain injects are not the agent's: they
    are passed on and not decided on."""
    found: Any = tool
    if not callable(getattr(found, "_run", None)) or not isinstance(found.name, str):
        raise InvalidInput(f"{type(tool).__name__} is no LangChain tool: it has no _run")
    made = entry(gate.policy, found.name, effect_of(effect), reversible)
    gated = _Gated(gate, made, found, _shape(found))
    changed: Any = copy.copy(found)
    object.__setattr__(changed, "__class__", _gated_class(type(found), gated))
    for name in ("func", "coroutine"):
        function = getattr(found, name, None)
        if function is not None:
            # Others call these directly, and must not get past the gate.
            direct = functools.wraps(function)(gated.across(function))
            object.__setattr__(changed, name, direct)
    return changed  # type: ignore[no-any-return]


class _Shape(msgspec.Struct, frozen=True):
    """The arguments that the tool takes from the agent, and those from the host."""

    names: tuple[str, ...]
    injected: frozenset[str]
    reader: ModelReader | SchemaReader


class _Gated(msgspec.Struct, frozen=True):
    """One tool, and the gate before it."""

    gate: Gate
    entry: Entry
    tool: Any
    shape: _Shape

    def across(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the tool, plain or async as before, that goes through the gate."""

        def plain(*args: Any, **kwargs: Any) -> Any:
            return self._given_back(wait_for(self._cross(function, args, kwargs)))

        async def waiting(*args: Any, **kwargs: Any) -> Any:
            return self._given_back(await self._cross(function, args, kwargs))

        return waiting if inspect.iscoroutinefunction(function) else plain

    async def _cross(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ToolResult:
        call_id = _call_id.get()
        about = {} if call_id is None else {"tool_call_id": call_id[:200]}
        hosts = {name: kwargs[name] for name in kwargs if self._is_hosts(name)}
        given = {name: kwargs[name] for name in kwargs if name not in hosts}
        by_place = self.shape.names[: len(args)]
        reader = SchemaReader({}) if args else self.shape.reader
        try:
            if len(by_place) != len(args) or given.keys() & set(by_place):
                raise InvalidArguments("The arguments do not fit the tool's parameters.")
            arguments = reader.read({**dict(zip(by_place, args, strict=True)), **given})
        except InvalidArguments as error:
            return record_invalid(self.gate, invalid(self.entry.name, error.message), about)

        async def live(action: Action) -> Done:
            try:
                values = reader.values(action.arguments)
            except InvalidArguments as error:
                return Done(outcome=Outcome.FAILED, error=error)
            placed = tuple(values.pop(name) for name in by_place)
            return done(await run(function, placed, {**values, **hosts}, is_here=True))

        return await cross(self.gate, self.entry, arguments, live, None, about)

    def _is_hosts(self, name: str) -> bool:
        is_agents = name in self.shape.names
        return name in self.shape.injected or (name in _FROM_THE_HOST and not is_agents)

    def _given_back(self, result: ToolResult) -> Any:
        if result.outcome in (Outcome.DONE, Outcome.SIMULATED):
            return result.value
        if isinstance(result.cause, Exception):
            raise result.cause
        if getattr(self.tool, "response_format", None) == "content_and_artifact":
            return result.text, None
        return result.text


def _gated_class(kind: type, gated: _Gated) -> type:
    """Return the tool's class with its entry points replaced; their signatures stay, because
    LangChain reads them."""
    body: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    for name in ("_run", "_arun"):
        # The usual `_arun` calls `_run` on a thread, and so crosses there.
        if name == "_run" or _has_own(kind, name):
            body[name] = _as_method(gated.across(getattr(gated.tool, name)), getattr(kind, name))
    for name in ("run", "arun"):
        if hasattr(kind, name):
            body[name] = _noting_id(getattr(kind, name))
    return type(kind)(kind.__name__, (kind,), body)


def _as_method(call: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(call):

        @functools.wraps(original)
        async def waiting(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        return waiting

    @functools.wraps(original)
    def plain(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return plain


def _noting_id(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to record the id of the call; the tool itself does not get it."""

    @functools.wraps(original)
    def noting(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        token = _call_id.set(_text(kwargs.get("tool_call_id")))
        try:
            return original(self, *args, **kwargs)
        finally:
            _call_id.reset(token)

    @functools.wraps(original)
    async def anoting(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        token = _call_id.set(_text(kwargs.get("tool_call_id")))
        try:
            return await original(self, *args, **kwargs)
        finally:
            _call_id.reset(token)

    return anoting if inspect.iscoroutinefunction(original) else noting


def _has_own(kind: type, name: str) -> bool:
    """Return whether anything but LangChain's own base class defines it."""
    for one in kind.__mro__:
        if name in vars(one):
            return one.__module__ != "langchain_core.tools.base"
    return False


def _shape(tool: Any) -> _Shape:
    whole = getattr(tool, "args_schema", None)
    offered: Any = getattr(tool, "tool_call_schema", None) or whole
    fields = frozenset(getattr(whole, "model_fields", ()))
    injected = fields - frozenset(getattr(offered, "model_fields", fields))
    injected |= frozenset(getattr(tool, "_injected_args_keys", ()))
    if hasattr(offered, "model_validate_json"):
        return _Shape(_names(tool, offered.model_fields), injected, ModelReader(offered))
    schema = offered if isinstance(offered, Mapping) else _old_schema(offered)
    return _Shape(_names(tool, schema.get("properties", {})), injected, SchemaReader(schema))


def _names(tool: Any, fields: Mapping[str, Any]) -> tuple[str, ...]:
    known = getattr(tool, "args", None)
    return tuple(known if isinstance(known, Mapping) else fields)


def _old_schema(offered: Any) -> Mapping[str, Any]:
    """Return the schema of a pydantic 1 model."""
    schema = getattr(offered, "schema", None)
    found = schema() if callable(schema) else {}
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
