"""A schema made flat: references followed, allOf merged, the words of 3.0 said as in 3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock_services.openapi.document import Document

Node = Any  # a schema as it stands in the document: a mapping, or a truth value
_MAX_NESTED = 32  # references and allOf within each other
_LEAST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_NUMBERS = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
})  # fmt: skip
_MOST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")


class Choice(msgspec.Struct, frozen=True):
    """anyOf or oneOf, with the property that says which, if there is one."""

    nodes: tuple[Node, ...]
    is_exclusive: bool
    discriminator: Mapping[str, Any] = {}


class Shape(msgspec.Struct, frozen=True):
    """What values may look like."""

    types: tuple[str, ...] = ()  # none: of any type
    properties: Mapping[str, Node] = {}
    required: tuple[str, ...] = ()
    additional: Node = True
    patterns: Mapping[str, Node] = {}
    items: Node = True
    first: tuple[Node, ...] = ()  # items that have schemas of their own, by place
    choices: tuple[Choice, ...] = ()
    excluded: tuple[Node, ...] = ()
    words: Mapping[str, Any] = {}  # enum, format, minimum ...
    names: frozenset[str] = frozenset()  # of the references that led here

    def allows(self, kind: str) -> bool:
        if not self.types or kind in self.types:
            return True
        return kind == "integer" and "number" in self.types

    @property
    def main_type(self) -> str:
        """The first that is not null. Where none is said, what the other words speak of."""
        for kind in self.types:
            if kind != "null":
                return kind
        if self.types:
            return "null"
        if self.properties or self.required or self.additional not in (True,):
            return "object"
        if self.items is not True or self.first:
            return "array"
        return "number" if "minimum" in self.words or "maximum" in self.words else "string"


class Shapes:
    """The shapes of one document. Each is made once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._made: dict[int, tuple[Node, Shape]] = {}  # the node too, that its id stays its own
        self._properties: dict[int, tuple[Node, Mapping[str, Node]]] = {}
        self._chosen: dict[tuple[int, int], tuple[Node, Node]] = {}

    def of(self, node: Node) -> Shape:
        kept = self._made.get(id(node))
        if kept is None:
            kept = self._made[id(node)] = (node, self._make(node, (), 0))
        return kept[1]

    def properties(self, node: Node) -> Mapping[str, Node]:
        """Those of the schema and of all its choices."""
        kept = self._properties.get(id(node))
        if kept is None:
            kept = self._properties[id(node)] = (node, self._gather(node, 0))
        return kept[1]

    def _gather(self, node: Node, depth: int) -> Mapping[str, Node]:
        shape = self.of(node)
        if not shape.choices or depth > 3:
            return shape.properties
        found: dict[str, Node] = {}
        for branch in (one for choice in shape.choices for one in choice.nodes):
            found = {**self._gather(branch, depth + 1), **found}
        return {**found, **shape.properties}

    def chosen(self, node: Node, branch: Node) -> Node:
        """The node with one branch of its choices taken, as a node."""
        key = id(node), id(branch)
        kept = self._chosen.get(key)
        if kept is None:
            taken: Node = {"allOf": [node, branch]}
            shape = self.of(node)
            rest = tuple(one for one in shape.choices if not _has(one, branch))
            merged = _merged(replace(shape, choices=rest), self.of(branch))
            self._made[id(taken)] = (taken, merged)
            kept = self._chosen[key] = (branch, taken)
        return kept[1]

    def _make(self, node: Node, chain: tuple[str, ...], depth: int) -> Shape:
        if node is True or not isinstance(node, Mapping) or depth > _MAX_NESTED:
            return Shape(excluded=(True,)) if node is False else Shape()
        shape = _own(node)
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in chain:
            target = self._make(self.document.at(reference), (*chain, reference), depth + 1)
            name = reference.rsplit("/", 1)[-1]
            shape = _merged(shape, replace(target, names=target.names | {name}))
        for part in _list(node.get("allOf")):
            merged = self._make(part, chain, depth + 1)
            shape = _merged(shape, replace(merged, names=frozenset()))
        return shape


def is_null(shape: Shape) -> bool:
    return shape.types == ("null",)


def _has(choice: Choice, branch: Node) -> bool:
    return any(one is branch for one in choice.nodes)


def _own(node: Mapping[str, Any]) -> Shape:
    properties, patterns = node.get("properties"), node.get("patternProperties")
    return Shape(
        types=_types(node),
        properties=properties if isinstance(properties, Mapping) else {},
        required=tuple(str(name) for name in _list(node.get("required"))),
        additional=node.get("additionalProperties", True),
        patterns=patterns if isinstance(patterns, Mapping) else {},
        items=node.get("items", True),
        first=tuple(_list(node.get("prefixItems"))),
        choices=tuple(_choices(node)),
        excluded=(node["not"],) if "not" in node else (),
        words=_words(node),
    )


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _types(node: Mapping[str, Any]) -> tuple[str, ...]:
    said = node.get("type")
    types = tuple(said) if isinstance(said, list) else (said,) if isinstance(said, str) else ()
    if node.get("nullable") is True and types and "null" not in types:
        types = (*types, "null")
    return types


def _choices(node: Mapping[str, Any]) -> list[Choice]:
    found = []
    discriminator = node.get("discriminator")
    for word in ("oneOf", "anyOf"):
        nodes = tuple(_list(node.get(word)))
        if nodes:
            telling = discriminator if isinstance(discriminator, Mapping) else {}
            found.append(Choice(nodes, word == "oneOf", telling))
    return found


_STRUCTURE = frozenset({
    "$ref", "type", "properties", "required", "additionalProperties", "patternProperties", "items",
    "prefixItems", "oneOf", "anyOf", "allOf", "not", "discriminator", "nullable",
    "title", "description",
})  # fmt: skip


def _words(node: Mapping[str, Any]) -> dict[str, Any]:
    words = {key: value for key, value in node.items() if _is_sound(key, value)}
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # 3.0 says it with a truth value.
        if isinstance(words.get(exclusive), bool) and words.pop(exclusive) and plain in words:
            words[exclusive] = words.pop(plain)
    if isinstance(words.get("examples"), list) and words["examples"]:
        words.setdefault("example", words["examples"][0])
    if node.get("nullable") is True and isinstance(words.get("enum"), list):
        words["enum"] = [*words["enum"], None]
    return words


def _is_sound(word: str, value: Any) -> bool:
    """A word with a value that it cannot have says nothing."""
    if word in _STRUCTURE:
        return False
    if word in _NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number or (word.startswith("exclusive") and isinstance(value, bool))
    return isinstance(value, list) if word == "enum" else True


def _merged(one: Shape, two: Shape) -> Shape:
    return Shape(
        types=_both_types(one.types, two.types),
        properties=_both_properties(one.properties, two.properties),
        required=tuple(dict.fromkeys((*one.required, *two.required))),
        additional=_both_additional(one.additional, two.additional),
        patterns={**one.patterns, **two.patterns},
        items=one.items if one.items is not True else two.items,
        first=one.first or two.first,
        choices=one.choices + two.choices,
        excluded=one.excluded + two.excluded,
        words=_both_words(one.words, two.words),
        names=one.names | two.names,
    )


def _both_types(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    if not one or not two:
        return one or two
    both = [kind for kind in one if kind in two or (kind == "integer" and "number" in two)]
    both += [kind for kind in two if kind == "integer" and "number" in one and kind not in both]
    return tuple(both) or one


def _both_properties(one: Mapping[str, Node], two: Mapping[str, Node]) -> Mapping[str, Node]:
    if not one or not two:
        return one or two
    both = dict(one)
    for name, node in two.items():
        same = name not in both or both[name] is node
        both[name] = node if same else {"allOf": [both[name], node]}
    return both


def _both_additional(one: Node, two: Node) -> Node:
    if one is False or two is False:
        return False
    return two if one is True else one


def _both_words(one: Mapping[str, Any], two: Mapping[str, Any]) -> Mapping[str, Any]:
    if not one or not two:
        return one or two
    both = {**two, **one}
    for word in _LEAST:
        if word in one and word in two:
            both[word] = min(one[word], two[word])
    for word in _MOST:
        if word in one and word in two:
            both[word] = max(one[word], two[word])
    if "enum" in one and "enum" in two:
        both["enum"] = [value for value in one["enum"] if value in two["enum"]] or one["enum"]
    return both
