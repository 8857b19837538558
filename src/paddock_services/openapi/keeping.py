"""What a server adds to a record by itself: ids, times, and whose child it is. Nothing is kept
here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.world.context import token
from paddock_services.openapi import formats, pattern
from paddock_services.openapi.api import Api
from paddock_services.openapi.envelope import plain, singular
from paddock_services.openapi.resources import Resource
from paddock_services.openapi.shape import Shape

SCOPE = "~scope"  # of a record: the ids of its parents that its path named
ID = "~id"  # of a record whose schema has no property for it
GONE = "~gone"  # a record that is not there any more, where being there is the rule
_CREATED = frozenset({"created", "createdat", "createdon", "createddate", "creationdate",
                      "createtime", "datecreated", "creationtime", "createdtime",
                      "insertedat", "createdtimestamp"})  # fmt: skip
_UPDATED = frozenset({"updated", "updatedat", "updatedon", "modified", "modifiedat", "lastmodified",
                      "updatetime", "lastupdated", "datemodified", "modifiedon", "lastupdatedat",
                      "modifieddate", "updatedtime"})  # fmt: skip
_TAILS = ("id", "gid", "key", "uuid", "slug", "number", "name")
Scope = Mapping[str, str]
Record = dict[str, Any]


def make_id(api: Api, resource: Resource, number: int, seed: str) -> Any:
    """An id of the type that the schema wants, another one for each number."""
    shape = _id_shape(api, resource)
    words, key = shape.words, f"{seed}/{resource.kind}/{number}"
    if shape.main_type in ("integer", "number") and shape.types:
        return number + max(0, int(words.get("minimum", 1)) - 1)
    if words.get("format") == "uuid":
        return formats.make_uuid(key)
    if isinstance(words.get("pattern"), str):
        turn = int.from_bytes(token(key, 8).encode(), "big")
        made = pattern.example_of(words["pattern"], turn)
        if made is not None:
            return made
    made = _like(words.get("example"), singular(resource.noun), key)
    is_long_enough = words.get("minLength", 0) <= len(made) <= words.get("maxLength", len(made))
    return made if is_long_enough else str(number)


def touch(api: Api, resource: Resource, record: Record, moment: float, *, is_new: bool) -> None:
    """Sets the times that the server keeps."""
    for name, node in api.shapes.properties(resource.node).items():
        if plain(name) in _UPDATED or (plain(name) in _CREATED and is_new):
            value = _time(api.shapes.of(node), moment)
            if value is not None:
                record[name] = value


def adopt(api: Api, resource: Resource, record: Record, scope: Scope) -> None:
    """Notes whose child a record is, and says so in the properties that are for it."""
    if not scope:
        return
    record[SCOPE] = {**record.get(SCOPE, {}), **scope}
    for name, node in api.shapes.properties(resource.node).items():
        if plain(name) in scope and name != resource.id_name:
            shape = api.shapes.of(node)
            text = scope[plain(name)]
            if shape.main_type == "integer" and text.isdecimal():
                record[name] = int(text)
            elif shape.main_type == "string":
                record[name] = text


def is_server_side(name: str) -> bool:
    """Whether a property is one of those that the server sets at creation."""
    return plain(name) in _CREATED


def bare(record: Record) -> Record:
    """A record without what is ours."""
    return {name: value for name, value in record.items() if not name.startswith("~")}


def text_of(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def linked(record: Record, name: str, scope: Scope) -> Any:
    """The parent of a record, by its path or by a property: order_id, orderId, order."""
    if name in scope:
        return scope[name]
    kept = record.get(SCOPE, {})
    if name in kept:
        return kept[name]
    wanted = {name, f"{name}id", *(name.removesuffix(tail) for tail in _TAILS)} - {""}
    for field, value in record.items():
        if plain(field) not in wanted:
            continue
        if isinstance(value, dict):
            value = next((value[tail] for tail in _TAILS if tail in value), None)
        if isinstance(value, str | int):
            return value
    return None


def _id_shape(api: Api, resource: Resource) -> Shape:
    name, properties = resource.id_name, api.shapes.properties(resource.node)
    return Shape() if name is None or name not in properties else api.shapes.of(properties[name])


def _like(example: Any, noun: str, key: str) -> str:
    """`cus_9f8e` becomes another one with `cus_`; without an example the noun is in front."""
    text = example if isinstance(example, str) else ""
    prefix = text[: max(text.rfind("_"), text.rfind("-")) + 1]
    if text.isdecimal():
        return "".join(str(ord(letter) % 9 + 1) for letter in token(key, min(len(text), 64)))
    if text and not prefix:
        return token(key, min(max(len(text), 4), 64))
    if prefix:
        return prefix + token(key, min(max(len(text) - len(prefix), 4), 64))
    return f"{noun}_{token(key, 12)}"


def _time(shape: Shape, moment: float) -> Any:
    if shape.main_type == "string":
        is_day = shape.words.get("format") == "date"
        return formats.stamp(moment)[:10] if is_day else formats.stamp(moment)
    if shape.main_type in ("integer", "number"):
        example = shape.words.get("example")
        is_in_ms = isinstance(example, int | float) and example > 100_000_000_000
        return int(moment * 1000) if is_in_ms else int(moment)
    return None
