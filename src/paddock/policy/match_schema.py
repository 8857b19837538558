"""The shape of what rules and faults match on. Loading this file loads pydantic."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.policy.problems import suggest
from paddock.policy.shape import Shape

MAX_PATTERNS = 500
_KINDS = [kind.value for kind in Kind]


def _texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of them of which any will do."""
    found = value if isinstance(value, list) else [value]
    if not found:
        raise InvalidInput("an empty list matches nothing", hint="leave the key out for anything")
    if len(found) > MAX_PATTERNS:
        raise InvalidInput(f"more than {MAX_PATTERNS} patterns", hint="use a glob")
    for one in found:
        if not isinstance(one, str):
            raise InvalidInput(f"{one!r} is not a text", hint=f'write "{one}" for the text')
    return tuple(found)


def _kinds(value: Any) -> tuple[Kind, ...]:
    found = _texts(value)
    for one in found:
        if one not in _KINDS:
            raise InvalidInput(f"{one!r} is not a kind of action", hint=suggest(one, _KINDS))
    return tuple(dict.fromkeys(Kind(one) for one in found))


def _argv(value: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, list) and value and all(isinstance(one, list) for one in value):
        return tuple(_texts(one) for one in value)
    return (_texts(value),)


def _ports(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list) else [value]
    return _texts([str(one) if type(one) is int else one for one in found])


_ONE_OR_MANY = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]
}
_WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_PORT = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, {"type": "string"}]}
_KIND_NAME = {"enum": _KINDS}

Kinds = Annotated[
    tuple[Kind, ...],
    PlainValidator(_kinds),
    WithJsonSchema({"anyOf": [_KIND_NAME, {"type": "array", "items": _KIND_NAME, "minItems": 1}]}),
]
Texts = Annotated[tuple[str, ...], PlainValidator(_texts), WithJsonSchema(_ONE_OR_MANY)]
Argv = Annotated[
    tuple[tuple[str, ...], ...],
    PlainValidator(_argv),
    WithJsonSchema({"anyOf": [_WORDS, {"type": "array", "items": _WORDS, "minItems": 1},
                              {"type": "string"}]}),
]  # fmt: skip
Ports = Annotated[
    tuple[str, ...],
    PlainValidator(_ports),
    WithJsonSchema({"anyOf": [_PORT, {"type": "array", "items": _PORT, "minItems": 1}]}),
]


class UnlessShape(Shape):
    """Fields of an action; a value is a pattern or a list of which any will do."""

    program: Texts | None = None
    argv: Argv | None = None
    cwd: Texts | None = None
    path: Texts | None = None
    name: Texts | None = None
    effect: Texts | None = None
    operation: Texts | None = None
    language: Texts | None = None
    host: Texts | None = None
    method: Texts | None = None
    query: Texts | None = None
    port: Ports | None = None
    provider: Texts | None = None
    model: Texts | None = None


class MatchShape(UnlessShape):
    """Which actions a rule is about: their kind, and fields that must all match."""

    kind: Kinds


class FaultMatchShape(UnlessShape):
    """Which actions a fault is about. Of a set, what is not said is as the set has it."""

    kind: Kinds | None = None
