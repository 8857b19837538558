"""Validation of values against schemas, by the library jsonschema.

Each node of the document is translated lazily into one flat JSON Schema whose inner schemas are
`{_NODE: node}`. The keyword `_NODE` translates and descends further, so it is the one place where
recursion can be bounded: choices within choices multiply, and a schema may be a choice of itself.
Some keywords are replaced, because an agent chooses the values: patterns are matched in linear
time, and unique items are compared by hash.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from paddock_services.openapi import formats, patterns
from paddock_services.openapi.schemas import FlatSchema, SchemaNode, Schemas

MAX_STEPS = 100_000
MAX_VIOLATIONS = 20
_MAX_DEPTH = 100
_MAX_MESSAGE = 300  # jsonschema quotes the value
_NODE = "x-paddock-node"
_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_KEYWORDS = frozenset({
    "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties",
})  # fmt: skip


class Direction(Enum):
    """Whose value it is. The value names the keyword of properties that may be left out."""

    REQUEST = "readOnly"
    ANSWER = "writeOnly"


class Violation(msgspec.Struct, frozen=True):
    """One way in which a value breaks a schema."""

    path: str  # "items.0.name"; empty for the whole value
    message: str
    keyword: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class StepBudget:
    """The number of schemas that may still be visited. Several checks may share it."""

    def __init__(self, left: int = MAX_STEPS) -> None:
        self.left = left


class _Run(msgspec.Struct):
    """The state of one check."""

    direction: Direction
    budget: StepBudget
    depth: int = 0
    active: set[tuple[int, int]] = set()  # nodes and values that are being compared


class SchemaChecker:
    """Checks values against the schemas of one document."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._translated: dict[tuple[int, Direction], tuple[SchemaNode, dict[str, Any]]] = {}
        self._run = _Run(Direction.ANSWER, StepBudget())
        keywords = {**_REPLACED_KEYWORDS, _NODE: self._visit}
        self._validator: Any = extend(Draft202012Validator, keywords)({})

    def violations(
        self,
        node: SchemaNode,
        value: Any,
        direction: Direction = Direction.ANSWER,
        budget: StepBudget | None = None,
    ) -> list[Violation]:
        """Return what is wrong with a value, at most MAX_VIOLATIONS."""
        errors = self._errors(node, value, direction, budget)
        return [_violation(error) for error in itertools.islice(errors, MAX_VIOLATIONS)]

    def is_valid(self, node: SchemaNode, value: Any, budget: StepBudget | None = None) -> bool:
        """Return whether an answer may have this value."""
        schema = self._translate(node, Direction.ANSWER)
        if not schema or (schema.keys() == {"type"} and type_name(value) in schema["type"]):
            return True  # most schemas have only a type, and the library takes a while
        return next(self._errors(node, value, Direction.ANSWER, budget), None) is None

    def _errors(
        self, node: SchemaNode, value: Any, direction: Direction, budget: StepBudget | None
    ) -> Iterator[ValidationError]:
        self._run = _Run(direction, budget or StepBudget())
        return self._visit(self._validator, node, value, None)

    def _visit(
        self, validator: Any, node: SchemaNode, value: Any, _: Any
    ) -> Iterator[ValidationError]:
        run = self._run
        run.budget.left -= 1
        if run.budget.left < 0 or run.depth > _MAX_DEPTH:
            yield ValidationError("is too deep or too complex to be checked")
            return
        key = id(node), id(value)
        if key in run.active:
            yield ValidationError("refers to itself")
            return
        run.active.add(key)
        run.depth += 1
        try:
            # There are no references left to resolve, so the resolver stays the same.
            schema = self._translate(node, run.direction)
            yield from validator.evolve(schema=schema).iter_errors(value)
        finally:
            run.depth -= 1
            run.active.discard(key)

    def _translate(self, node: SchemaNode, direction: Direction) -> dict[str, Any]:
        """Return the node as a JSON Schema of one level."""
        cached = self._translated.get((id(node), direction))
        if cached is not None:
            return cached[1]
        schema = self._schemas.of(node)
        result = {name: value for name, value in schema.keywords.items() if name in _KEYWORDS}
        types = [name for name in schema.types if name in _TYPES]
        if types:
            result["type"] = types
        required = [name for name in schema.required if not self._may_omit(schema, name, direction)]
        if required:
            result["required"] = required
        if schema.properties:
            result["properties"] = _wrap_all(schema.properties)
        if schema.pattern_properties:
            result["patternProperties"] = _wrap_all(schema.pattern_properties)
        if schema.additional_properties is not True:
            result["additionalProperties"] = _wrap(schema.additional_properties)
        if schema.prefix_items:
            result["prefixItems"] = [_wrap(each) for each in schema.prefix_items]
        if schema.items is not True:
            result["items"] = _wrap(schema.items)
        conditions: list[dict[str, Any]] = [{"not": _wrap(each)} for each in schema.negated]
        for choice in schema.choices:
            keyword = "oneOf" if choice.is_exclusive else "anyOf"
            conditions.append({keyword: [_wrap(each) for each in choice.nodes]})
        if conditions:
            result["allOf"] = conditions
        self._translated[id(node), direction] = (node, result)
        return result

    def _may_omit(self, schema: FlatSchema, name: str, direction: Direction) -> bool:
        if name not in schema.properties:
            return False
        keywords = self._schemas.of(schema.properties[name]).keywords
        return keywords.get(direction.value) is True


def is_equal(first: Any, second: Any) -> bool:
    """Compare as in JSON: true is not 1, but 1.0 is."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_equal, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            is_equal(first[name], second[name]) for name in first
        )
    return bool(first == second)


def type_name(value: Any) -> str:
    """Return the JSON Schema type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _wrap(node: SchemaNode) -> Any:
    return node if isinstance(node, bool) else {_NODE: node}


def _wrap_all(nodes: Mapping[str, SchemaNode]) -> dict[str, Any]:
    return {name: _wrap(node) for name, node in nodes.items()}


def _violation(error: ValidationError) -> Violation:
    path = ".".join(str(part) for part in error.absolute_path)
    return Violation(path, error.message[:_MAX_MESSAGE], str(error.validator))


# Keywords that replace those of jsonschema: (validator, value of the keyword, value, schema).


def _required(_: Any, names: list[str], value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for name in names:
            if name not in value:
                yield ValidationError("is required", path=(name,))


def _pattern(_: Any, pattern: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and isinstance(pattern, str) and not patterns.matches(pattern, value):
        yield ValidationError(f"does not match {pattern!r}")


def _pattern_properties(
    validator: Any, nodes: Mapping[str, Any], value: Any, _: Any
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for name, inner in value.items():
            for pattern, node in nodes.items():
                if patterns.matches(pattern, name):
                    yield from validator.descend(inner, node, path=name)


def _additional_properties(
    validator: Any, node: Any, value: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        is_declared = name in schema.get("properties", ()) or any(
            patterns.matches(pattern, name) for pattern in schema.get("patternProperties", ())
        )
        if is_declared:
            continue
        if node is False:
            yield ValidationError("is not a property that is known here", path=(name,))
        else:
            yield from validator.descend(inner, node, path=name)


def _format(_: Any, name: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not formats.is_valid(name, value):
        yield ValidationError(f"is not a valid {name}")


def _multiple_of(_: Any, step: float, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not step:
        return
    try:
        # Decimals compare as people write numbers: 0.3 is a multiple of 0.1.
        is_multiple = Decimal(repr(value)) % Decimal(repr(step)) == 0
    except ArithmeticError:  # too far apart to tell
        is_multiple = False
    if not is_multiple:
        yield ValidationError(f"{value!r} is not a multiple of {step!r}")


def _unique_items(_: Any, is_unique: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    if is_unique is True and isinstance(value, list):
        texts = {json.dumps(item, sort_keys=True) for item in value}
        if len(texts) < len(value):
            yield ValidationError("has non-unique items")


_REPLACED_KEYWORDS = {
    "required": _required,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "format": _format,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
}
