"""The definition of a scenario's file: which keys there are, and how each is read. `parser` checks
what depends on files of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.policy.faults import FAULTS
from paddock.policy.section import (
    INVALID,
    ByType,
    Cursor,
    JsonSchema,
    Key,
    ListOf,
    MapOf,
    Section,
    Value,
    ValueForm,
    as_given,
    builder,
    duration,
    text,
    whole_number,
)
from paddock.policy.terms import ENVS, STAGE
from paddock.policy.world import WORLD
from paddock.run.scenarios.expectations import EXPECT, MAX_ENTRIES
from paddock.run.scenarios.scenario import fault_list

MAX_REPEAT = 10_000
MAX_AXIS = 1000


class CopiedFile(msgspec.Struct, frozen=True):
    """A file that is copied into the project."""

    source: str


class AsWritten(msgspec.Struct, frozen=True):
    """A value that must be of a form and stays as it is written."""

    form: ValueForm
    prepare: Callable[[Any], Any] | None = None

    def read(self, value: Any, cursor: Cursor) -> Any:
        prepared = value if self.prepare is None else self.prepare(value)
        return INVALID if self.form.read(prepared, cursor) is INVALID else value

    def json_schema(self) -> JsonSchema:
        return self.form.json_schema()


def _parse_argv(value: Any) -> tuple[str, ...]:
    hint = "write the words of the command, as in [python, agent.py]"
    if not isinstance(value, list) or not value or len(value) > MAX_ENTRIES:
        raise InvalidInput(f"{value!r:.60} is not a list of words", hint=hint)
    if not value[0] or not all(
        isinstance(argument, str) and "\0" not in argument for argument in value
    ):
        raise InvalidInput(f"{value!r:.60} is not a list of words", hint=hint)
    return tuple(value)


def _parse_set(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value and len(value) <= MAX_ENTRIES:
        return value
    raise InvalidInput(f"{value!r:.60} sets nothing", hint="write {limits.memory: 256MiB}")


def _parse_version(value: Any) -> int:
    if type(value) is int and value == 1:
        return value
    raise InvalidInput(f"{value!r:.60} is not known here", hint="write 1")


def _axis(form: ValueForm) -> Key:
    return Key(ListOf(form, MAX_AXIS, least=1))


_ARGV = Value(_parse_argv, {"type": "array", "items": {"type": "string"}, "minItems": 1})
_SET = Value(_parse_set, {"type": "object"})
_SEED = whole_number(0, (1 << 53) - 1)
_FAULTS = AsWritten(FAULTS, fault_list)
_SOURCE = Section(
    "A file that is copied.",
    builder(CopiedFile),
    {"from": Key(text(least=1), missing="write from: and the path of a file", into="source")},
)
MATRIX = Section(
    "Axes; each combination of their values is a case.",
    as_given,
    {
        "faults": _axis(_FAULTS),
        "seed": _axis(_SEED),
        "policy": _axis(text()),
        "stage": _axis(STAGE),
        "agent": _axis(_ARGV),
        "set": _axis(_SET),
    },
)
SCENARIO = Section(
    "An agent, what is around it, and what is expected.",
    as_given,
    {
        "version": Key(Value(_parse_version, {"const": 1}), missing="write version: 1"),
        "name": Key(text(least=1, most=200), missing="write name: and what the scenario is about"),
        "agent": Key(_ARGV, missing="write agent: [python, agent.py]"),
        "cwd": Key(text(), may_be_empty=True),
        "file": Key(text(), may_be_empty=True),
        "world": Key(AsWritten(WORLD), may_be_empty=True),
        "faults": Key(_FAULTS, may_be_empty=True),
        "seed": Key(_SEED, may_be_empty=True),
        "stage": Key(STAGE, may_be_empty=True),
        "set": Key(_SET, may_be_empty=True),
        "envs": Key(ENVS),
        "files": Key(MapOf(ByType(text(), mapping=_SOURCE), MAX_ENTRIES)),
        "stdin": Key(text(), may_be_empty=True),
        "repeat": Key(whole_number(1, MAX_REPEAT)),
        "timeout": Key(duration()),
        "matrix": Key(MATRIX, may_be_empty=True),
        "expect": Key(EXPECT),
    },
)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Paddock scenario",
        **SCENARIO.json_schema(),
    }
