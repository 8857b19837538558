"""The records of a service: their keys in the store, and what a server adds or changes in them.

The key of a record has the ids of the parents that its path needs, and then its own. Names that
begin with a tilde are ours: they are stored with a record and never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.world.context import Context, token
from paddock.world.overlay.patches import merge_patch
from paddock.world.overlay.paths import singular
from paddock.world.overlay.times import is_creation_time, is_update_time
from paddock_services.openapi import formats, patterns
from paddock_services.openapi.api import OpenApiDescription
from paddock_services.openapi.envelope import find_record, plain
from paddock_services.openapi.request import CheckedRequest
from paddock_services.openapi.resources import Resource
from paddock_services.openapi.schemas import FlatSchema
from paddock_services.openapi.validation import Direction

SCOPE = "~scope"  # ids of the parents that the path named
ID = "~id"  # id of a record whose schema has no property for it
GONE = "~gone"  # marks a deleted singleton
_STATES = frozenset({"status", "state", "phase", "stage"})
_ID_NAMES = ("id", "gid", "key", "uuid", "slug", "number", "name")
_MAX_IDS = 200_000
Scope = Mapping[str, str]  # ids of the parents by name
Record = dict[str, Any]


class Records:
    """Reads and writes records in the store. The caller has a transaction open."""

    def __init__(self, api: OpenApiDescription, context: Context) -> None:
        self.api = api
        self.context = context
        self.store = context.store

    def get(self, resource: Resource, scope: Scope, id: str) -> Record | None:
        record = self.store.get(resource.kind, self.key(resource, scope, {}, id))
        if record is None or not _is_below(record, scope):
            return None
        return record

    def all(self, resource: Resource, scope: Scope) -> list[Record]:
        return [record for record in self.store.find(resource.kind) if _is_below(record, scope)]

    def put(self, resource: Resource, record: Record) -> None:
        self.store.put(resource.kind, self._own_key(resource, record), record)

    def delete(self, resource: Resource, record: Record) -> None:
        key = self._own_key(resource, record)
        self.store.delete(resource.kind, key)
        self._delete_children(resource, key)

    def _delete_children(self, resource: Resource, key: str) -> None:
        """Delete the records whose key begins with the parent's: no path leads to them any more."""
        parameter, noun = plain(resource.id_parameter), plain(singular(resource.noun))
        links = {parameter, noun + parameter, noun, f"{noun}id"}
        for child in self.api.resources.by_kind.values():
            is_level_below = len(child.parents) == len(resource.parents) + 1
            if child.kind == resource.kind or not is_level_below or child.parents[-1] not in links:
                continue
            for child_key in self.store.ids(child.kind):
                if child_key.startswith(f"{key}/"):
                    self.store.delete(child.kind, child_key)
                    self._delete_children(child, child_key)

    def key(self, resource: Resource, scope: Scope, record: Record, id: str) -> str:
        parts = [str(parent_id(record, name, scope) or "") for name in resource.parents]
        return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (*parts, id))

    def _own_key(self, resource: Resource, record: Record) -> str:
        return self.key(resource, record.get(SCOPE, {}), record, self.id_of(resource, record))

    def id_of(self, resource: Resource, record: Record) -> str:
        if resource.id_name is not None and resource.id_name in record:
            return text_of(record[resource.id_name])
        return str(record.get(ID, "-"))

    def new_id(self, resource: Resource, scope: Scope, record: Record) -> Any:
        """Return an id that no record has."""
        seed = f"{self.context.seed}/{self.context.name}"
        for _ in range(_MAX_IDS):
            number = self.store.next(self._counter(resource, scope, record))
            id = make_id(self.api, resource, number, seed)
            if not self.store.has(resource.kind, self.key(resource, scope, record, text_of(id))):
                return id
        raise RuntimeError(f"no free id for {resource.kind}")

    def advance_counter(self, resource: Resource, record: Record) -> None:
        """Let the numbers of new records continue after that of a seeded one."""
        id = self.id_of(resource, record)
        name = self._counter(resource, {}, record)
        if id.isdecimal() and int(id) < _MAX_IDS:
            while self.store.get_counter(name) < int(id):
                self.store.next(name)

    def _counter(self, resource: Resource, scope: Scope, record: Record) -> str:
        return f"{resource.kind}:{self.key(resource, scope, record, '')}"


def make_id(api: OpenApiDescription, resource: Resource, number: int, seed: str) -> Any:
    """Return an id of the type that the schema wants, another one for each number."""
    properties = api.schemas.properties(resource.node)
    schema = FlatSchema()
    if resource.id_name is not None and resource.id_name in properties:
        schema = api.schemas.of(properties[resource.id_name])
    keywords, key = schema.keywords, f"{seed}/{resource.kind}/{number}"
    if schema.main_type in ("integer", "number") and schema.types:
        return number + max(0, int(keywords.get("minimum", 1)) - 1)
    if keywords.get("format") == "uuid":
        return formats.make_uuid(key)
    if isinstance(keywords.get("pattern"), str):
        variant = int.from_bytes(token(key, 8).encode(), "big")
        text = patterns.example_of(keywords["pattern"], variant)
        if text is not None:
            return text
    text = _id_like(keywords.get("example"), singular(resource.noun), key)
    if keywords.get("minLength", 0) <= len(text) <= keywords.get("maxLength", len(text)):
        return text
    return str(number)


def _id_like(example: Any, noun: str, key: str) -> str:
    """Return an id like the example: `cus_9f8e` gives another one with `cus_`. Without an example
    the noun is the prefix."""
    text = example if isinstance(example, str) else ""
    if not text:
        return f"{noun}_{token(key, 12)}"
    if text.isdecimal():
        return "".join(str(ord(letter) % 9 + 1) for letter in token(key, min(len(text), 64)))
    prefix = text[: max(text.rfind("_"), text.rfind("-")) + 1]
    return prefix + token(key, min(max(len(text) - len(prefix), 4), 64))


def set_times(
    api: OpenApiDescription, resource: Resource, record: Record, timestamp: float, *, is_new: bool
) -> None:
    """Set the times of creation and of the last update."""
    for name, node in api.schemas.properties(resource.node).items():
        if is_update_time(name) or (is_creation_time(name) and is_new):
            value = _time_value(api.schemas.of(node), timestamp)
            if value is not None:
                record[name] = value


def _time_value(schema: FlatSchema, timestamp: float) -> Any:
    if schema.main_type == "string":
        text = formats.date_time(timestamp)
        return text[:10] if schema.keywords.get("format") == "date" else text
    if schema.main_type in ("integer", "number"):
        example = schema.keywords.get("example")
        is_in_ms = isinstance(example, int | float) and example > 100_000_000_000
        return int(timestamp * 1000) if is_in_ms else int(timestamp)
    return None


def set_parents(api: OpenApiDescription, resource: Resource, record: Record, scope: Scope) -> None:
    """Store the ids of a record's parents, also in the properties that are for them."""
    if not scope:
        return
    record[SCOPE] = {**record.get(SCOPE, {}), **scope}
    for name, node in api.schemas.properties(resource.node).items():
        if plain(name) in scope and name != resource.id_name:
            main_type, text = api.schemas.of(node).main_type, scope[plain(name)]
            if main_type == "integer" and text.isdecimal():
                record[name] = int(text)
            elif main_type == "string":
                record[name] = text


def parent_id(record: Record, name: str, scope: Scope) -> Any:
    """Return the id of a record's parent, by its path or a property: order_id, orderId, order."""
    if name in scope:
        return scope[name]
    stored = record.get(SCOPE, {})
    if name in stored:
        return stored[name]
    names = {name, f"{name}id", *(name.removesuffix(suffix) for suffix in _ID_NAMES)} - {""}
    for field, value in record.items():
        if plain(field) not in names:
            continue
        if isinstance(value, dict):
            value = next((value[each] for each in _ID_NAMES if each in value), None)
        if isinstance(value, str | int):
            return value
    return None


def _is_below(record: Record, scope: Scope) -> bool:
    """Return whether a record belongs to all these parents."""
    for name, wanted in scope.items():
        id = parent_id(record, name, {})
        if id is None or text_of(id) != wanted:
            return False
    return True


def without_marks(record: Record) -> Record:
    return {name: value for name, value in record.items() if not name.startswith("~")}


def text_of(value: Any) -> str:
    """Return an id as text; 7.0 and 7 are one id."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


# Changes by requests


def sent_record(api: OpenApiDescription, request: CheckedRequest, resource: Resource) -> Any:
    """Return the record in the body of a request, without its envelope."""
    node = request.operation.body_node(request.media_type)
    if not isinstance(request.body, dict) or node is None:
        return request.body
    envelope = find_record(api.schemas, node, resource.noun, resource.node)
    inner = envelope.unwrap(request.body)
    return inner if isinstance(inner, dict) else request.body


def writable_fields(api: OpenApiDescription, resource: Resource, body: Any) -> Record:
    """Return the fields of a body that a client may set."""
    if not isinstance(body, dict):
        return {}
    read_only = _read_only(api, resource)
    return {name: v for name, v in without_marks(body).items() if name not in read_only}


def updated_record(
    api: OpenApiDescription, request: CheckedRequest, resource: Resource, record: Record
) -> Record:
    """Return the record after a PUT, which replaces, or a PATCH or POST, which merges."""
    body = sent_record(api, request, resource)
    if not isinstance(body, dict) or request.media_type == "application/json-patch+json":
        return dict(record)
    fields = writable_fields(api, resource, body)
    fields.pop(resource.id_name or "", None)  # an id cannot be changed
    if request.operation.method == "PUT":
        read_only = {*_read_only(api, resource), resource.id_name}
        kept = {
            name: value
            for name, value in record.items()
            if name in read_only or name.startswith("~") or is_creation_time(name)
        }
        return {**kept, **{n: v for n, v in fields.items() if not is_creation_time(n)}}
    if request.media_type == "application/merge-patch+json":
        merged: Record = merge_patch(record, fields, is_strict=True)
        return merged
    return {**record, **fields}


def record_after_action(
    api: OpenApiDescription, request: CheckedRequest, resource: Resource, record: Record
) -> Record:
    """Return the record after `POST .../cancel`: its state becomes the value that begins like the
    action's name, and properties in the body are set."""
    properties = api.schemas.properties(resource.node)
    body = writable_fields(api, resource, sent_record(api, request, resource))
    fields = {name: value for name, value in body.items() if name in properties}
    fields.pop(resource.id_name or "", None)
    action = plain(request.operation.route.segments[-1])
    stem = action.removesuffix("e")[: max(4, len(action) - 1)]
    for name, node in properties.items():
        if plain(name) not in _STATES or not stem:
            continue
        for state in api.schemas.of(node).keywords.get("enum") or ():
            if isinstance(state, str) and plain(state).startswith(stem):
                fields[name] = state
                break
    return {**record, **fields}


def _read_only(api: OpenApiDescription, resource: Resource) -> set[str]:
    return {
        name
        for name, node in api.schemas.properties(resource.node).items()
        if api.schemas.of(node).keywords.get(Direction.REQUEST.value) is True
    }
