"""Schemas made flat: references resolved, allOf merged, OpenAPI 3.0 keywords translated to 3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock_services.openapi.document import Document

SchemaNode = Any  # a schema as it stands in the document: a mapping or a boolean
_MAX_NESTING = 32  # of references and allOf
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_NUMERIC = frozenset({*_UPPER_BOUNDS, *_LOWER_BOUNDS, "multipleOf"})
_STRUCTURE = frozenset({
    "$ref", "type", "properties", "required", "additionalProperties", "patternProperties", "items",
    "prefixItems", "oneOf", "anyOf", "allOf", "not", "discriminator", "nullable",
    "title", "description",
})  # fmt: skip


class Choice(msgspec.Struct, frozen=True):
    """An anyOf or oneOf, with its discriminator if there is one."""

    nodes: tuple[SchemaNode, ...]
    is_exclusive: bool
    discriminator: Mapping[str, Any] = {}


class FlatSchema(msgspec.Struct, frozen=True):
    """One schema without references and allOf. Its inner schemas are still nodes."""

    types: tuple[str, ...] = ()  # empty: any type
    properties: Mapping[str, SchemaNode] = {}
    required: tuple[str, ...] = ()
    additional_properties: SchemaNode = True
    pattern_properties: Mapping[str, SchemaNode] = {}
    items: SchemaNode = True
    prefix_items: tuple[SchemaNode, ...] = ()
    choices: tuple[Choice, ...] = ()
    negated: tuple[SchemaNode, ...] = ()
    keywords: Mapping[str, Any] = {}  # enum, format, minimum ...
    components: frozenset[str] = frozenset()  # names of the references that led here

    def allows_type(self, name: str) -> bool:
        if not self.types or name in self.types:
            return True
        return name == "integer" and "number" in self.types

    @property
    def main_type(self) -> str:
        """The first type that is not null, or the type that the other keywords imply."""
        for name in self.types:
            if name != "null":
                return name
        if self.types:
            return "null"
        if self.properties or self.required or self.additional_properties is not True:
            return "object"
        if self.items is not True or self.prefix_items:
            return "array"
        is_number = "minimum" in self.keywords or "maximum" in self.keywords
        return "number" if is_number else "string"

    @property
    def is_null(self) -> bool:
        return self.types == ("null",)


class Schemas:
    """Flattens the schemas of one document, each once.

    Nodes are cached by identity. The caches keep the node too, so that its id stays its own.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._flat: dict[int, tuple[SchemaNode, FlatSchema]] = {}
        self._properties: dict[int, tuple[SchemaNode, Mapping[str, SchemaNode]]] = {}
        self._chosen: dict[tuple[int, int], tuple[SchemaNode, SchemaNode]] = {}

    def of(self, node: SchemaNode) -> FlatSchema:
        cached = self._flat.get(id(node))
        if cached is None:
            cached = self._flat[id(node)] = (node, self._flatten(node, (), 0))
        return cached[1]

    def properties(self, node: SchemaNode) -> Mapping[str, SchemaNode]:
        """Return the properties of the schema and of all its choices."""
        cached = self._properties.get(id(node))
        if cached is None:
            cached = self._properties[id(node)] = (node, self._all_properties(node, 0))
        return cached[1]

    def _all_properties(self, node: SchemaNode, depth: int) -> Mapping[str, SchemaNode]:
        schema = self.of(node)
        if not schema.choices or depth > 3:
            return schema.properties
        properties: dict[str, SchemaNode] = {}
        for choice in schema.choices:
            for branch in choice.nodes:
                properties = {**self._all_properties(branch, depth + 1), **properties}
        return {**properties, **schema.properties}

    def choose(self, node: SchemaNode, branch: SchemaNode) -> SchemaNode:
        """Return a node for the schema with one branch of its choices taken."""
        key = id(node), id(branch)
        cached = self._chosen.get(key)
        if cached is None:
            chosen: SchemaNode = {"allOf": [node, branch]}
            schema = self.of(node)
            others = tuple(
                choice
                for choice in schema.choices
                if not any(each is branch for each in choice.nodes)
            )
            merged = _merge(replace(schema, choices=others), self.of(branch))
            self._flat[id(chosen)] = (chosen, merged)
            cached = self._chosen[key] = (branch, chosen)
        return cached[1]

    def _flatten(self, node: SchemaNode, references: tuple[str, ...], depth: int) -> FlatSchema:
        if node is False:
            return FlatSchema(negated=(True,))
        if not isinstance(node, Mapping) or depth > _MAX_NESTING:
            return FlatSchema()
        schema = _parse(node)
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in references:
            target = self.document.at(reference)
            flat = self._flatten(target, (*references, reference), depth + 1)
            name = reference.rsplit("/", 1)[-1]
            schema = _merge(schema, replace(flat, components=flat.components | {name}))
        for part in _list(node.get("allOf")):
            flat = self._flatten(part, references, depth + 1)
            schema = _merge(schema, replace(flat, components=frozenset()))
        return schema


def _parse(node: Mapping[str, Any]) -> FlatSchema:
    return FlatSchema(
        types=_types(node),
        properties=_mapping(node.get("properties")),
        required=tuple(str(name) for name in _list(node.get("required"))),
        additional_properties=node.get("additionalProperties", True),
        pattern_properties=_mapping(node.get("patternProperties")),
        items=node.get("items", True),
        prefix_items=tuple(_list(node.get("prefixItems"))),
        choices=tuple(_choices(node)),
        negated=(node["not"],) if "not" in node else (),
        keywords=_keywords(node),
    )


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _types(node: Mapping[str, Any]) -> tuple[str, ...]:
    declared = node.get("type")
    types = (declared,) if isinstance(declared, str) else tuple(_list(declared))
    if node.get("nullable") is True and types and "null" not in types:
        types = (*types, "null")
    return types


def _choices(node: Mapping[str, Any]) -> list[Choice]:
    discriminator = _mapping(node.get("discriminator"))
    choices = []
    for keyword in ("oneOf", "anyOf"):
        nodes = tuple(_list(node.get(keyword)))
        if nodes:
            choices.append(Choice(nodes, keyword == "oneOf", discriminator))
    return choices


def _keywords(node: Mapping[str, Any]) -> dict[str, Any]:
    keywords = {name: value for name, value in node.items() if _is_valid_keyword(name, value)}
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # In OpenAPI 3.0 it is a boolean beside the bound.
        if isinstance(keywords.get(exclusive), bool):
            is_exclusive = keywords.pop(exclusive)
            if is_exclusive and bound in keywords:
                keywords[exclusive] = keywords.pop(bound)
    if isinstance(keywords.get("examples"), list) and keywords["examples"]:
        keywords.setdefault("example", keywords["examples"][0])
    if node.get("nullable") is True and "enum" in keywords:
        keywords["enum"] = [*keywords["enum"], None]
    return keywords


def _is_valid_keyword(name: str, value: Any) -> bool:
    """Return whether a keyword has a value that it can have; others are ignored."""
    if name in _STRUCTURE:
        return False
    if name == "enum":
        return isinstance(value, list)
    if name not in _NUMERIC:
        return True
    if isinstance(value, bool):
        return name.startswith("exclusive")
    return isinstance(value, int | float)


def _merge(first: FlatSchema, second: FlatSchema) -> FlatSchema:
    return FlatSchema(
        types=_merge_types(first.types, second.types),
        properties=_merge_properties(first.properties, second.properties),
        required=tuple(dict.fromkeys((*first.required, *second.required))),
        additional_properties=_merge_additional(
            first.additional_properties, second.additional_properties
        ),
        pattern_properties={**first.pattern_properties, **second.pattern_properties},
        items=first.items if first.items is not True else second.items,
        prefix_items=first.prefix_items or second.prefix_items,
        choices=first.choices + second.choices,
        negated=first.negated + second.negated,
        keywords=_merge_keywords(first.keywords, second.keywords),
        components=first.components | second.components,
    )


def _merge_types(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    if not first or not second:
        return first or second
    common = [name for name in first if name in second]
    for types, others in ((first, second), (second, first)):
        if "integer" in types and "number" in others and "integer" not in common:
            common.append("integer")
    return tuple(common) or first


def _merge_properties(
    first: Mapping[str, SchemaNode], second: Mapping[str, SchemaNode]
) -> Mapping[str, SchemaNode]:
    if not first or not second:
        return first or second
    merged = dict(first)
    for name, node in second.items():
        if name in merged and merged[name] is not node:
            node = {"allOf": [merged[name], node]}
        merged[name] = node
    return merged


def _merge_additional(first: SchemaNode, second: SchemaNode) -> SchemaNode:
    if first is False or second is False:
        return False
    return second if first is True else first


def _merge_keywords(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    if not first or not second:
        return first or second
    merged = {**second, **first}
    for name in first.keys() & second.keys():
        if name in _UPPER_BOUNDS:
            merged[name] = min(first[name], second[name])
        elif name in _LOWER_BOUNDS:
            merged[name] = max(first[name], second[name])
        elif name == "enum":
            common = [value for value in first["enum"] if value in second["enum"]]
            merged["enum"] = common or first["enum"]
    return merged
