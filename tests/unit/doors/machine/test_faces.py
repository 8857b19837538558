"""The two faces of a sandbox: what one has the other has, with the same parameters, explained."""

from __future__ import annotations

import asyncio
import gc
import inspect
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest

import paddock
from cases import for_each
from paddock.doors.machine import async_sandbox, sandbox
from paddock.doors.terms import CreateOptions

PAIRS = [
    (sandbox.Sandbox, async_sandbox.AsyncSandbox),
    (sandbox.Commands, async_sandbox.AsyncCommands),
    (sandbox.CommandHandle, async_sandbox.AsyncCommandHandle),
    (sandbox.Files, async_sandbox.AsyncFiles),
    (sandbox.Pty, async_sandbox.AsyncPty),
    (sandbox.WatchHandle, async_sandbox.AsyncWatchHandle),
    (sandbox.FileStream, async_sandbox.AsyncFileStream),
]

# Stands for a face of either kind: an unknown keyword is refused before anything is called.
RECEIVER = SimpleNamespace(_calls=None, _engine=SimpleNamespace(call=None, acall=None))


def public(face: type) -> dict[str, Any]:
    """Methods and properties that users see, inherited ones too."""
    return {
        name: inspect.getattr_static(face, name)
        for name in dir(face)
        if not name.startswith("_") and not isinstance(getattr(face, name, None), type)
    }


METHODS = [
    pytest.param(plain, awaited, name, id=f"{plain.__name__}.{name}")
    for plain, awaited in PAIRS
    for name in sorted({*public(plain), *public(awaited)})
]


def function(value: Any) -> Any:
    """What is behind a property, a class method or a context manager."""
    if isinstance(value, property):
        return value.fget
    return inspect.unwrap(getattr(value, "__func__", value))


def parameters(value: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function(value)).parameters.values()
    return [(p.name, p.kind, p.default) for p in found][1:]


def test_there_are_methods_to_compare() -> None:
    assert len(METHODS) > 40


@for_each(("plain", "awaited", "name"), METHODS)
def test_what_one_face_has_the_other_has(plain: type, awaited: type, name: str) -> None:
    assert name in public(plain)
    assert name in public(awaited)


@for_each(("plain", "awaited", "name"), METHODS)
def test_both_take_the_same_parameters(plain: type, awaited: type, name: str) -> None:
    assert parameters(public(plain)[name]) == parameters(public(awaited)[name])


@for_each(("plain", "awaited", "name"), METHODS)
def test_every_parameter_has_a_name_and_a_type(plain: type, awaited: type, name: str) -> None:
    for face in (plain, awaited):
        found = inspect.signature(function(public(face)[name])).parameters.values()
        for parameter in list(found)[1:]:
            assert parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            assert parameter.annotation not in (parameter.empty, "Any"), parameter


@for_each(("plain", "awaited", "name"), METHODS)
def test_unknown_keyword_is_a_type_error(plain: type, awaited: type, name: str) -> None:
    for face in (plain, awaited):
        if isinstance(public(face)[name], property):
            continue
        receiver = [] if inspect.ismethod(getattr(face, name)) else [RECEIVER]
        with pytest.raises(TypeError, match="colour"):
            asyncio.run(getattr(face, name)(*receiver, colour="red"))


@for_each(("plain", "awaited", "name"), METHODS)
def test_both_say_what_they_do(plain: type, awaited: type, name: str) -> None:
    for face in (plain, awaited):
        assert function(public(face)[name]).__doc__, f"{face.__name__}.{name} has no docstring"


@pytest.mark.parametrize(("plain", "awaited"), PAIRS)
def test_both_classes_say_what_they_are(plain: type, awaited: type) -> None:
    assert plain.__doc__
    assert awaited.__doc__


@for_each(("plain", "awaited", "name"), METHODS)
def test_one_waits_and_the_other_is_awaited(plain: type, awaited: type, name: str) -> None:
    if isinstance(public(plain)[name], property):
        assert isinstance(public(awaited)[name], property)
        return
    one, other = (getattr(public(f)[name], "__func__", public(f)[name]) for f in (plain, awaited))
    assert not inspect.iscoroutinefunction(one)
    is_context = hasattr(other, "__wrapped__") and inspect.isasyncgenfunction(other.__wrapped__)
    assert inspect.iscoroutinefunction(other) or is_context


def test_the_parameters_that_make_a_sandbox_are_all_that_can_be_said_of_one() -> None:
    said = {name for name, _, _ in parameters(public(sandbox.Sandbox)["create"])}
    assert said == {"policy", *get_type_hints(CreateOptions)}


@pytest.mark.parametrize("kind", ["Sandbox", "AsyncSandbox"])
def test_unknown_word_is_refused_before_anything_is_made(kind: str) -> None:
    with pytest.raises(TypeError, match="colour"):
        getattr(paddock, kind).create(colour="red")


def test_stream_that_is_dropped_lets_go_of_its_file() -> None:
    loop = SimpleNamespace(call_soon_threadsafe=lambda function: function())
    closed: list[bool] = []
    file = SimpleNamespace(close=lambda: closed.append(True))
    stream = sandbox.FileStream(SimpleNamespace(loop=loop), file)  # type: ignore[arg-type]
    del stream
    gc.collect()
    assert closed
