"""Makes a value fit a schema: keeps what is given, fills in what is missing, drops what may not be
there. The same input gives the same value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.world.context import START, token
from paddock_services.openapi import formats, pattern
from paddock_services.openapi.check import Checker, Effort, Way, kind_of, same
from paddock_services.openapi.shape import Choice, Node, Shape, Shapes, is_null

MISSING: Any = object()
MAX_PARTS = 20_000  # of one value that is made
MAX_EFFORT = 100_000  # spent on checks meanwhile
_DEEP = 6  # from here on the shortest way out is taken
_TOO_DEEP = 40
_RICH = 3  # levels on which optional properties are filled, too


class Source(msgspec.Struct, frozen=True):
    """What made-up values follow from."""

    key: str = ""
    moment: float = START
    is_rich: bool = False  # optional properties are made up as well


class Fitter:
    """Fits values to the schemas of one document."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.checker = Checker(shapes)
        self._examples: dict[int, tuple[Node, Any]] = {}

    def fit(self, node: Node, given: Any = MISSING, source: Source | None = None) -> Any:
        """A value of the schema. None where the schema cannot be satisfied."""
        value = _Fitting(self, source or Source()).value(node, given, "", 0)
        return None if value is MISSING else value

    def example(self, node: Node) -> Any:
        """What the schema itself offers, if that is valid. Else MISSING."""
        kept = self._examples.get(id(node))
        if kept is None:
            kept = self._examples[id(node)] = (node, self._offered(node))
        return kept[1]

    def _offered(self, node: Node) -> Any:
        words = self.shapes.of(node).words
        for word in ("const", "example", "default"):
            if word in words and self.checker.fits(node, words[word]):
                return words[word]
        for value in words.get("enum") or ():
            if value is not None and self.checker.fits(node, value):
                return value
        return MISSING


class _Fitting:
    """One value being made."""

    def __init__(self, fitter: Fitter, source: Source) -> None:
        self._fitter = fitter
        self._shapes = fitter.shapes
        self._source = source
        self._left = MAX_PARTS
        self._effort = Effort(MAX_EFFORT)
        self._taking: set[tuple[str, int]] = set()  # branches, by where

    def value(self, node: Node, given: Any, at: str, depth: int) -> Any:
        self._left -= 1
        if depth > _TOO_DEEP or self._left < 0:
            return MISSING
        shape = self._shapes.of(node)
        if given is MISSING:
            offered = self._fitter.example(node)
            if offered is not MISSING and not isinstance(offered, dict | list):
                return offered
            given = offered
        for choice in shape.choices:
            taken = self._choose(node, choice, given, at, depth)
            if taken is not MISSING:
                return taken
        return self._by_type(node, shape, given, at, depth)

    def _by_type(self, node: Node, shape: Shape, given: Any, at: str, depth: int) -> Any:
        if given is None and shape.allows("null"):
            return None
        if given is MISSING and depth > _DEEP and "null" in shape.types:
            return None
        kind = kind_of(given) if given is not MISSING else shape.main_type
        if not shape.allows(kind):
            given, kind = _cast(given, shape.main_type), shape.main_type
        if kind == "object":
            return self._object(shape, given if isinstance(given, dict) else {}, at, depth)
        if kind == "array":
            return self._array(shape, given, at, depth)
        if given is not MISSING and (self._effort.left < 0 or self._fits(node, given)):
            return given  # what was given rather than something made up
        offered = self._fitter.example(node)
        return offered if offered is not MISSING else self._scalar(node, shape, at)

    def _choose(self, node: Node, choice: Choice, given: Any, at: str, depth: int) -> Any:
        for branch in self._ordered(choice, given, depth):
            if (at, id(branch)) in self._taking:
                continue  # a schema that is a choice of itself
            self._taking.add((at, id(branch)))
            taken = self._shapes.chosen(node, branch)
            value = self._named(choice, branch, self.value(taken, given, at, depth + 1))
            self._taking.discard((at, id(branch)))
            if value is not MISSING and (self._effort.left < 0 or self._fits(node, value)):
                return value
        return MISSING

    def _ordered(self, choice: Choice, given: Any, depth: int) -> list[Node]:
        """The branches, the likeliest first."""
        nodes = list(choice.nodes)
        if given is not MISSING:
            return sorted(nodes, key=lambda one: self._misfit(one, given))
        nulls = [one for one in nodes if is_null(self._shapes.of(one))]
        others = [one for one in nodes if not is_null(self._shapes.of(one))]
        return nulls + others if depth > _DEEP else others + nulls

    def _misfit(self, node: Node, given: Any) -> int:
        return len(self._fitter.checker.faults(node, given, Way.ANSWER, self._effort))

    def _fits(self, node: Node, value: Any) -> bool:
        return self._fitter.checker.fits(node, value, self._effort)

    def _named(self, choice: Choice, branch: Node, value: Any) -> Any:
        name = choice.discriminator.get("propertyName")
        if not isinstance(name, str) or not isinstance(value, dict):
            return value
        said = branch.get("$ref", "") if isinstance(branch, Mapping) else ""
        known = choice.discriminator.get("mapping") or {}
        for word, target in known.items():
            if target in (said, said.rsplit("/", 1)[-1]):
                return {**value, name: word}
        return {**value, name: said.rsplit("/", 1)[-1]} if said and not known else value

    def _object(self, shape: Shape, given: dict[str, Any], at: str, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, node in shape.properties.items():
            value = self._property(shape, name, node, given, at, depth)
            if value is not MISSING:
                made[name] = value
        for name, one in given.items():
            if name not in shape.properties:
                self._additional(shape, name, one, made, at, depth)
        for name in shape.required:
            if name not in made and name not in shape.properties:
                node = True if shape.additional is False else shape.additional
                made[name] = self._known(self.value(node, MISSING, f"{at}/{name}", depth + 1))
        return made

    def _property(
        self, shape: Shape, name: str, node: Node, given: dict[str, Any], at: str, depth: int
    ) -> Any:
        words = self._shapes.of(node).words
        if words.get(Way.ANSWER.value) is True:
            return MISSING
        is_required = name in shape.required
        inner = f"{at}/{name}"
        if name in given:
            value = self.value(node, given[name], inner, depth + 1)
            is_kept = value is not MISSING and (is_required or _is_kin(given[name], value))
            return value if is_kept else MISSING
        if is_required:
            return self._known(self.value(node, MISSING, inner, depth + 1))
        if "default" in words and self._fits(node, words["default"]):
            return words["default"]
        if self._source.is_rich and depth < _RICH:
            return self.value(node, MISSING, inner, depth + 1)
        return MISSING

    def _known(self, value: Any) -> Any:
        return None if value is MISSING else value  # a schema that needs itself without end

    def _additional(
        self, shape: Shape, name: str, given: Any, made: dict[str, Any], at: str, depth: int
    ) -> None:
        for text, node in shape.patterns.items():
            if pattern.matches(text, name):
                made[name] = self.value(node, given, f"{at}/{name}", depth + 1)
                return
        if shape.additional is False:
            return
        value = self.value(shape.additional, given, f"{at}/{name}", depth + 1)
        if value is not MISSING and _is_kin(given, value):
            made[name] = value

    def _array(self, shape: Shape, given: Any, at: str, depth: int) -> list[Any]:
        values = list(given) if isinstance(given, list) else []
        least = max(int(shape.words.get("minItems", 0)), len(shape.first))
        if given is MISSING and self._source.is_rich and depth < _RICH:
            least = max(least, 1)
        values += [MISSING] * (min(least, MAX_PARTS) - len(values))
        values = values[: int(shape.words.get("maxItems", len(values)))]
        made = []
        for place, one in enumerate(values):
            node = shape.first[place] if place < len(shape.first) else shape.items
            made.append(self._known(self.value(node, one, f"{at}/{place}", depth + 1)))
        return _unique(made) if shape.words.get("uniqueItems") is True else made

    def _scalar(self, node: Node, shape: Shape, at: str) -> Any:
        match shape.main_type:
            case "null":
                return None
            case "boolean":
                return False
            case "integer" | "number":
                return _number(shape.words, shape.main_type == "integer")
        for candidate in self._texts(shape.words, at):
            if self._fits(node, candidate):
                return candidate
        return _sized(at.rsplit("/", 1)[-1] or "text", shape.words)

    def _texts(self, words: Mapping[str, Any], at: str) -> list[str]:
        key = f"{self._source.key}{at}"
        found = []
        if isinstance(words.get("pattern"), str):
            turn = int.from_bytes(token(key, 6).encode(), "big")
            made = (pattern.example_of(words["pattern"], one) for one in (turn, 0))
            found += [text for text in made if text is not None]
        if isinstance(words.get("format"), str):
            text = formats.example(words["format"], key, self._source.moment)
            found += [text] if text is not None else []
        name = at.rsplit("/", 1)[-1] or "text"
        return [*found, _sized(name if name.isdecimal() is False else f"item {name}", words)]


def richer(source: Source) -> Source:
    """The same, with optional properties made up as well."""
    return replace(source, is_rich=True)


def _is_kin(given: Any, value: Any) -> bool:
    """Whether a value is still what was given, and not a made-up one in its place."""
    if isinstance(given, dict | list) or isinstance(value, dict | list):
        return isinstance(given, type(value)) or isinstance(value, type(given))
    return same(given, value) or str(given) == str(value)


def _cast(given: Any, kind: str) -> Any:
    if kind == "string" and isinstance(given, int | float) and not isinstance(given, bool):
        return str(given)
    if isinstance(given, str) and kind in ("integer", "number") and len(given) < 20:
        try:
            return int(given) if kind == "integer" else float(given)
        except ValueError:
            return MISSING
    return MISSING


def _number(words: Mapping[str, Any], is_whole: bool) -> float:
    low = words.get("minimum", words.get("exclusiveMinimum"))
    high = words.get("maximum", words.get("exclusiveMaximum"))
    if low is None:
        low = 0 if high is None or high > 0 else high - 1
    step = words.get("multipleOf") or (1 if is_whole else 0)
    value: float = math.ceil(low / step) * step if step else low
    if "exclusiveMinimum" in words and value <= words["exclusiveMinimum"]:
        gap = (high - low) / 2 if high is not None else 1
        value += step or gap
    return int(value) if is_whole else value


def _sized(text: str, words: Mapping[str, Any]) -> str:
    least = min(int(words.get("minLength", 0)), MAX_PARTS)
    text = text + "x" * (least - len(text))
    return text[: int(words.get("maxLength", len(text)))]


def _unique(values: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if not any(same(value, one) for one in kept):
            kept.append(value)
    return kept
