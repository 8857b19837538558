"""The two faces of a sandbox: what one has the other has, with the same parameters, explained."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, get_type_hints

import pytest

import paddock
from paddock.doors.machine import async_sandbox, sandbox
from paddock.model.spec import SpecWords

PAIRS = [
    (sandbox.Sandbox, async_sandbox.AsyncSandbox),
    (sandbox.Commands, async_sandbox.AsyncCommands),
    (sandbox.CommandHandle, async_sandbox.AsyncCommandHandle),
    (sandbox.Files, async_sandbox.AsyncFiles),
    (sandbox.Pty, async_sandbox.AsyncPty),
    (sandbox.WatchHandle, async_sandbox.AsyncWatchHandle),
]


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


@pytest.mark.parametrize(("plain", "awaited", "name"), METHODS)
def test_what_one_face_has_the_other_has(plain: type, awaited: type, name: str) -> None:
    assert name in public(plain)
    assert name in public(awaited)


@pytest.mark.parametrize(("plain", "awaited", "name"), METHODS)
def test_both_take_the_same_parameters(plain: type, awaited: type, name: str) -> None:
    assert parameters(public(plain)[name]) == parameters(public(awaited)[name])


@pytest.mark.parametrize(("plain", "awaited", "name"), METHODS)
def test_both_say_what_they_do(plain: type, awaited: type, name: str) -> None:
    for face in (plain, awaited):
        assert function(public(face)[name]).__doc__, f"{face.__name__}.{name} has no docstring"


@pytest.mark.parametrize(("plain", "awaited"), PAIRS)
def test_both_classes_say_what_they_are(plain: type, awaited: type) -> None:
    assert plain.__doc__
    assert awaited.__doc__


@pytest.mark.parametrize(("plain", "awaited", "name"), METHODS)
def test_one_waits_and_the_other_is_awaited(plain: type, awaited: type, name: str) -> None:
    if isinstance(public(plain)[name], property):
        assert isinstance(public(awaited)[name], property)
        return
    one, other = (getattr(public(f)[name], "__func__", public(f)[name]) for f in (plain, awaited))
    assert not inspect.iscoroutinefunction(one)
    is_context = hasattr(other, "__wrapped__") and inspect.isasyncgenfunction(other.__wrapped__)
    assert inspect.iscoroutinefunction(other) or is_context


def test_the_words_that_make_a_sandbox_are_those_of_the_spec() -> None:
    words = set(get_type_hints(SpecWords))
    assert words == {"limits", "mounts", "envs", "template", "snapshot", "timeout", "metadata",
                     "audit_files"}  # fmt: skip


@pytest.mark.parametrize("kind", ["Sandbox", "AsyncSandbox"])
def test_unknown_word_is_refused_before_anything_is_made(kind: str) -> None:
    with pytest.raises((TypeError, ValueError), match="colour"):
        made = getattr(paddock, kind).create(colour="red")
        asyncio.run(made)
