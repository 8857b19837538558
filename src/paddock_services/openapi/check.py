"""Whether a value fits a schema, and if not, where and why. Bounded, whatever the two are."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec

from paddock_services.openapi import formats, pattern
from paddock_services.openapi.shape import Choice, Node, Shape, Shapes

MAX_STEPS = 100_000  # choices within choices would multiply without end
MAX_FAULTS = 20
_MAX_DEPTH = 100


class Way(Enum):
    """A request may leave out what is read-only, an answer what is write-only."""

    REQUEST = "readOnly"
    ANSWER = "writeOnly"


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a value."""

    at: str  # "items.0.name"; "" for the whole
    message: str
    word: str  # of the schema that it breaks

    def __str__(self) -> str:
        return f"{self.at}: {self.message}" if self.at else self.message


class Effort:
    """Steps that are left. Several checks may share it."""

    def __init__(self, left: int = MAX_STEPS) -> None:
        self.left = left


class _Misfit(Exception):
    """A value that is tried on one of several schemas does not fit it."""


class Checker:
    """Checks values against the schemas of one document."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def faults(
        self, node: Node, value: Any, way: Way = Way.ANSWER, effort: Effort | None = None
    ) -> list[Fault]:
        """Nothing means that it fits."""
        walk = _Walk(self.shapes, way, effort or Effort())
        walk.visit(node, value, "", 0)
        return walk.faults[:MAX_FAULTS]

    def fits(self, node: Node, value: Any, effort: Effort | None = None) -> bool:
        """Whether an answer may have this value."""
        return _Walk(self.shapes, Way.ANSWER, effort or Effort()).fits(node, value, 0)


def same(one: Any, two: Any) -> bool:
    """Equality as in JSON: true is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return bool(one == two)


def kind_of(value: Any) -> str:
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


class _Walk:
    def __init__(self, shapes: Shapes, way: Way, effort: Effort) -> None:
        self.faults: list[Fault] = []
        self._shapes = shapes
        self._way = way
        self._effort = effort
        self._trials = 0  # within each other
        self._trying: set[tuple[int, int]] = set()

    def visit(self, node: Node, value: Any, at: str, depth: int) -> None:
        self._effort.left -= 1
        if self._effort.left < 0 or depth > _MAX_DEPTH:
            self._fault(at, "is too deep or too complex to be checked", "depth")
            return
        shape = self._shapes.of(node)
        kind = kind_of(value)
        if not shape.allows(kind):
            wanted = " or ".join(shape.types)
            self._fault(at, f"must be {_article(wanted)}, not {kind}", "type")
            return
        self._words(shape, value, at)
        if kind == "object":
            self._object(shape, value, at, depth)
        elif kind == "array":
            self._array(shape, value, at, depth)
        for choice in shape.choices:
            self._choice(choice, value, at, depth)
        for excluded in shape.excluded:
            if self.fits(excluded, value, depth):
                self._fault(at, "is not allowed", "not")

    def fits(self, node: Node, value: Any, depth: int) -> bool:
        trial = id(node), id(value)
        if trial in self._trying:
            return False  # a schema that is a choice of itself says nothing more
        self._trying.add(trial)
        self._trials += 1
        try:
            self.visit(node, value, "", depth + 1)
        except _Misfit:
            return False
        finally:
            self._trials -= 1
            self._trying.discard(trial)
        return True

    def _fault(self, at: str, message: str, word: str) -> None:
        if self._trials:
            raise _Misfit
        self.faults.append(Fault(at, message, word))

    def _choice(self, choice: Choice, value: Any, at: str, depth: int) -> None:
        count = 0
        for node in choice.nodes:
            count += self.fits(node, value, depth)
            if count and not choice.is_exclusive:
                return
        if count != 1:
            what = "fits none of" if not count else "fits more than one of"
            word = "oneOf" if choice.is_exclusive else "anyOf"
            self._fault(at, f"{what} the schemas that are allowed", word)

    def _words(self, shape: Shape, value: Any, at: str) -> None:
        words = shape.words
        if not words:
            return
        if "enum" in words and not any(same(value, one) for one in words["enum"]):
            allowed = ", ".join(str(one) for one in words["enum"][:20])
            self._fault(at, f"must be one of: {allowed}", "enum")
        if "const" in words and not same(value, words["const"]):
            self._fault(at, f"must be {words['const']}", "const")
        if isinstance(value, str):
            self._text(words, value, at)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._number(words, value, at)

    def _text(self, words: Mapping[str, Any], value: str, at: str) -> None:
        if len(value) < words.get("minLength", 0):
            self._fault(at, f"must have {words['minLength']} characters or more", "minLength")
        if len(value) > words.get("maxLength", len(value)):
            self._fault(at, f"must have at most {words['maxLength']} characters", "maxLength")
        if isinstance(words.get("pattern"), str) and not pattern.matches(words["pattern"], value):
            self._fault(at, f"must match {words['pattern']}", "pattern")
        if not formats.is_valid(words.get("format"), value):
            self._fault(at, f"is no {words['format']}", "format")

    def _number(self, words: Mapping[str, Any], value: float, at: str) -> None:
        if value < words.get("minimum", value):
            self._fault(at, f"must be at least {words['minimum']}", "minimum")
        if value > words.get("maximum", value):
            self._fault(at, f"must be at most {words['maximum']}", "maximum")
        if "exclusiveMinimum" in words and value <= words["exclusiveMinimum"]:
            self._fault(at, f"must be more than {words['exclusiveMinimum']}", "exclusiveMinimum")
        if "exclusiveMaximum" in words and value >= words["exclusiveMaximum"]:
            self._fault(at, f"must be less than {words['exclusiveMaximum']}", "exclusiveMaximum")
        step = words.get("multipleOf")
        if step and not _is_multiple(value, step):
            self._fault(at, f"must be a multiple of {step}", "multipleOf")

    def _object(self, shape: Shape, value: dict[str, Any], at: str, depth: int) -> None:
        for name in shape.required:
            if name not in value and not self._may_lack(shape, name):
                self._fault(_join(at, name), "is required", "required")
        if len(value) < shape.words.get("minProperties", 0):
            self._fault(at, "has too few properties", "minProperties")
        if len(value) > shape.words.get("maxProperties", len(value)):
            self._fault(at, "has too many properties", "maxProperties")
        for name, one in value.items():
            self._property(shape, name, one, at, depth)

    def _property(self, shape: Shape, name: str, value: Any, at: str, depth: int) -> None:
        node = shape.properties.get(name)
        matched = [one for text, one in shape.patterns.items() if pattern.matches(text, name)]
        if node is not None:
            matched.append(node)
        if not matched and shape.additional is False:
            self._fault(_join(at, name), "is not a property that is known here", "properties")
        elif not matched and shape.additional is not True:
            matched = [shape.additional]
        for one in matched:
            self.visit(one, value, _join(at, name), depth + 1)

    def _may_lack(self, shape: Shape, name: str) -> bool:
        if name not in shape.properties:
            return False
        return self._shapes.of(shape.properties[name]).words.get(self._way.value) is True

    def _array(self, shape: Shape, value: list[Any], at: str, depth: int) -> None:
        words = shape.words
        if len(value) < words.get("minItems", 0):
            self._fault(at, f"must have {words['minItems']} items or more", "minItems")
        if len(value) > words.get("maxItems", len(value)):
            self._fault(at, f"must have at most {words['maxItems']} items", "maxItems")
        if words.get("uniqueItems") is True and not self._is_unique(value):
            self._fault(at, "has an item twice", "uniqueItems")
        for place, one in enumerate(value):
            node = shape.first[place] if place < len(shape.first) else shape.items
            self.visit(node, one, _join(at, str(place)), depth + 1)

    def _is_unique(self, value: list[Any]) -> bool:
        self._effort.left -= len(value) ** 2 // 8
        if self._effort.left < 0:
            return False
        return not any(same(one, two) for n, one in enumerate(value) for two in value[:n])


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _article(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "aeiou" else f"a {noun}"


def _is_multiple(value: float, step: float) -> bool:
    try:
        # As people write numbers: 0.3 is a multiple of 0.1.
        return Decimal(repr(value)) % Decimal(repr(step)) == 0
    except ArithmeticError:  # too far apart to tell
        return False
