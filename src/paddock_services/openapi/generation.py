"""Values made to fit a schema: what is given is kept, what is missing is filled in, and what is not
allowed is dropped. The same input always gives the same value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.world.context import START, token
from paddock_services.openapi import formats, patterns
from paddock_services.openapi.schemas import Choice, FlatSchema, SchemaNode, Schemas
from paddock_services.openapi.validation import (
    Direction,
    SchemaChecker,
    StepBudget,
    is_equal,
    type_name,
)

MISSING: Any = object()
MAX_PARTS = 20_000  # of one value
MAX_STEPS = 100_000  # spent on checks of one value
_DEEP = 6  # from this depth on null is preferred to deeper values
_MAX_DEPTH = 40
_RICH_DEPTH = 3  # down to which optional properties are filled in


class Source(msgspec.Struct, frozen=True):
    """The inputs that made-up values are derived from."""

    key: str = ""
    timestamp: float = START
    is_rich: bool = False  # optional properties are made up, too

    def enriched(self) -> Source:
        return replace(self, is_rich=True)


class ValueFitter:
    """Fits values to the schemas of one document."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.checker = SchemaChecker(schemas)
        self._examples: dict[int, tuple[SchemaNode, Any]] = {}

    def fit(self, node: SchemaNode, supplied: Any = MISSING, source: Source | None = None) -> Any:
        """Return a value of the schema, or None if the schema cannot be satisfied."""
        value = _Fitting(self, source or Source()).value(node, supplied, "", 0)
        return None if value is MISSING else value

    def example(self, node: SchemaNode) -> Any:
        """Return a value that the schema itself offers, if that is valid; else MISSING."""
        cached = self._examples.get(id(node))
        if cached is None:
            cached = self._examples[id(node)] = (node, self._find_example(node))
        return cached[1]

    def _find_example(self, node: SchemaNode) -> Any:
        keywords = self.schemas.of(node).keywords
        candidates = [
            keywords[name] for name in ("const", "example", "default") if name in keywords
        ]
        candidates += [value for value in keywords.get("enum") or () if value is not None]
        for candidate in candidates:
            if self.checker.is_valid(node, candidate):
                return candidate
        return MISSING


class _Fitting:
    """The construction of one value. A path such as `/address/city` locates its parts."""

    def __init__(self, fitter: ValueFitter, source: Source) -> None:
        self._fitter = fitter
        self._schemas = fitter.schemas
        self._source = source
        self._parts_left = MAX_PARTS
        self._budget = StepBudget(MAX_STEPS)
        self._open_branches: set[tuple[str, int]] = set()

    def value(self, node: SchemaNode, supplied: Any, path: str, depth: int) -> Any:
        self._parts_left -= 1
        if depth > _MAX_DEPTH or self._parts_left < 0:
            return MISSING
        schema = self._schemas.of(node)
        if supplied is MISSING:
            supplied = self._fitter.example(node)
            if supplied is not MISSING and not isinstance(supplied, dict | list):
                return supplied
        for choice in schema.choices:
            value = self._choose(node, choice, supplied, path, depth)
            if value is not MISSING:
                return value
        return self._by_type(node, schema, supplied, path, depth)

    def _by_type(
        self, node: SchemaNode, schema: FlatSchema, supplied: Any, path: str, depth: int
    ) -> Any:
        if supplied is None and schema.allows_type("null"):
            return None
        if supplied is MISSING and depth > _DEEP and "null" in schema.types:
            return None
        kind = schema.main_type if supplied is MISSING else type_name(supplied)
        if not schema.allows_type(kind):
            kind = schema.main_type
            supplied = _cast(supplied, kind)
        if kind == "object":
            return self._object(schema, supplied if isinstance(supplied, dict) else {}, path, depth)
        if kind == "array":
            return self._array(schema, supplied, path, depth)
        if supplied is not MISSING and self._is_acceptable(node, supplied):
            return supplied
        example = self._fitter.example(node)
        return self._scalar(node, schema, path) if example is MISSING else example

    def _is_acceptable(self, node: SchemaNode, value: Any) -> bool:
        """Return whether a value fits; if the budget is spent, it is taken unchecked."""
        return self._budget.left < 0 or self._fitter.checker.is_valid(node, value, self._budget)

    def _choose(
        self, node: SchemaNode, choice: Choice, supplied: Any, path: str, depth: int
    ) -> Any:
        for branch in self._by_likelihood(choice, supplied, depth):
            key = path, id(branch)
            if key in self._open_branches:
                continue  # a schema that is a choice of itself
            self._open_branches.add(key)
            chosen = self._schemas.choose(node, branch)
            value = self.value(chosen, supplied, path, depth + 1)
            value = _with_discriminator(choice, branch, value)
            self._open_branches.discard(key)
            if value is not MISSING and self._is_acceptable(node, value):
                return value
        return MISSING

    def _by_likelihood(self, choice: Choice, supplied: Any, depth: int) -> list[SchemaNode]:
        checker, budget = self._fitter.checker, self._budget

        def violations(branch: SchemaNode) -> int:
            return len(checker.violations(branch, supplied, Direction.ANSWER, budget))

        if supplied is not MISSING:
            return sorted(choice.nodes, key=violations)
        prefers_null = depth > _DEEP
        return sorted(choice.nodes, key=lambda n: self._schemas.of(n).is_null is not prefers_null)

    def _object(
        self, schema: FlatSchema, supplied: dict[str, Any], path: str, depth: int
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, node in schema.properties.items():
            value = self._property(schema, name, node, supplied, path, depth)
            if value is not MISSING:
                made[name] = value
        for name, inner in supplied.items():
            if name not in schema.properties:
                value = self._additional_property(schema, name, inner, path, depth)
                if value is not MISSING:
                    made[name] = value
        for name in schema.required:
            if name not in made and name not in schema.properties:
                is_closed = schema.additional_properties is False
                node = True if is_closed else schema.additional_properties
                made[name] = self._value_or_none(node, MISSING, f"{path}/{name}", depth + 1)
        return made

    def _property(
        self,
        schema: FlatSchema,
        name: str,
        node: SchemaNode,
        supplied: dict[str, Any],
        path: str,
        depth: int,
    ) -> Any:
        keywords = self._schemas.of(node).keywords
        if keywords.get(Direction.ANSWER.value) is True:
            return MISSING
        inner_path = f"{path}/{name}"
        is_required = name in schema.required
        if name in supplied:
            value = self.value(node, supplied[name], inner_path, depth + 1)
            return value if is_required or _is_derived(supplied[name], value) else MISSING
        if is_required:
            return self._value_or_none(node, MISSING, inner_path, depth + 1)
        if "default" in keywords and self._is_acceptable(node, keywords["default"]):
            return keywords["default"]
        if self._source.is_rich and depth < _RICH_DEPTH:
            return self.value(node, MISSING, inner_path, depth + 1)
        return MISSING

    def _additional_property(
        self, schema: FlatSchema, name: str, supplied: Any, path: str, depth: int
    ) -> Any:
        for pattern, node in schema.pattern_properties.items():
            if patterns.matches(pattern, name):
                return self.value(node, supplied, f"{path}/{name}", depth + 1)
        if schema.additional_properties is False:
            return MISSING
        value = self.value(schema.additional_properties, supplied, f"{path}/{name}", depth + 1)
        return value if _is_derived(supplied, value) else MISSING

    def _value_or_none(self, node: SchemaNode, supplied: Any, path: str, depth: int) -> Any:
        """Return a value, or None for a schema that requires itself without end."""
        value = self.value(node, supplied, path, depth)
        return None if value is MISSING else value

    def _array(self, schema: FlatSchema, supplied: Any, path: str, depth: int) -> list[Any]:
        values = list(supplied) if isinstance(supplied, list) else []
        minimum = max(int(schema.keywords.get("minItems", 0)), len(schema.prefix_items))
        if supplied is MISSING and self._source.is_rich and depth < _RICH_DEPTH:
            minimum = max(minimum, 1)
        values += [MISSING] * (min(minimum, MAX_PARTS) - len(values))
        values = values[: int(schema.keywords.get("maxItems", len(values)))]
        made: list[Any] = []
        for index, inner in enumerate(values):
            is_prefix = index < len(schema.prefix_items)
            node = schema.prefix_items[index] if is_prefix else schema.items
            value = self._value_or_none(node, inner, f"{path}/{index}", depth + 1)
            is_unique = schema.keywords.get("uniqueItems") is True
            if not (is_unique and any(is_equal(value, other) for other in made)):
                made.append(value)
        return made

    def _scalar(self, node: SchemaNode, schema: FlatSchema, path: str) -> Any:
        match schema.main_type:
            case "null":
                return None
            case "boolean":
                return False
            case "integer" | "number":
                return _number(schema.keywords, schema.main_type == "integer")
        for candidate in self._candidate_texts(schema.keywords, path):
            if self._fitter.checker.is_valid(node, candidate, self._budget):
                return candidate
        return _with_length(path.rsplit("/", 1)[-1] or "text", schema.keywords)

    def _candidate_texts(self, keywords: Mapping[str, Any], path: str) -> list[str]:
        key = f"{self._source.key}{path}"
        texts: list[str | None] = []
        if isinstance(keywords.get("pattern"), str):
            variant = int.from_bytes(token(key, 6).encode(), "big")
            texts += [patterns.example_of(keywords["pattern"], each) for each in (variant, 0)]
        if isinstance(keywords.get("format"), str):
            texts.append(formats.example(keywords["format"], key, self._source.timestamp))
        name = path.rsplit("/", 1)[-1] or "text"
        if name.isdecimal():
            name = f"item {name}"
        texts.append(_with_length(name, keywords))
        return [text for text in texts if text is not None]


def _with_discriminator(choice: Choice, branch: SchemaNode, value: Any) -> Any:
    """Set the property that names the branch."""
    name = choice.discriminator.get("propertyName")
    if not isinstance(name, str) or not isinstance(value, dict):
        return value
    reference = branch.get("$ref", "") if isinstance(branch, Mapping) else ""
    component = reference.rsplit("/", 1)[-1]
    mapping = choice.discriminator.get("mapping") or {}
    for label, target in mapping.items():
        if target in (reference, component):
            return {**value, name: label}
    return {**value, name: component} if component and not mapping else value


def _is_derived(supplied: Any, value: Any) -> bool:
    """Return whether a value is the supplied one, perhaps converted, and not made up."""
    if value is MISSING:
        return False
    if isinstance(supplied, dict | list) or isinstance(value, dict | list):
        return isinstance(supplied, type(value)) or isinstance(value, type(supplied))
    return is_equal(supplied, value) or str(supplied) == str(value)


def _cast(supplied: Any, kind: str) -> Any:
    is_number = isinstance(supplied, int | float) and not isinstance(supplied, bool)
    if kind == "string" and is_number:
        return str(supplied)
    if isinstance(supplied, str) and kind in ("integer", "number") and len(supplied) < 20:
        try:
            return int(supplied) if kind == "integer" else float(supplied)
        except ValueError:
            return MISSING
    return MISSING


def _number(keywords: Mapping[str, Any], is_integer: bool) -> float:
    low = keywords.get("minimum", keywords.get("exclusiveMinimum"))
    high = keywords.get("maximum", keywords.get("exclusiveMaximum"))
    if low is None:
        low = 0 if high is None or high > 0 else high - 1
    step = keywords.get("multipleOf") or (1 if is_integer else 0)
    value: float = math.ceil(low / step) * step if step else low
    if "exclusiveMinimum" in keywords and value <= keywords["exclusiveMinimum"]:
        gap = 1 if high is None else (high - low) / 2
        value += step or gap
    return int(value) if is_integer else value


def _with_length(text: str, keywords: Mapping[str, Any]) -> str:
    minimum = min(int(keywords.get("minLength", 0)), MAX_PARTS)
    text = text.ljust(minimum, "x")
    return text[: int(keywords.get("maxLength", len(text)))]
