"""What a request makes of a record: a new one, a replaced or merged one, one that was acted on."""

from __future__ import annotations

from typing import Any

from paddock_services.openapi.api import Api
from paddock_services.openapi.asking import Asked
from paddock_services.openapi.check import Way
from paddock_services.openapi.envelope import find_one, plain
from paddock_services.openapi.keeping import Record, is_server_side
from paddock_services.openapi.resources import Resource
from paddock_services.openapi.shape import Shapes

_STATES = frozenset({"status", "state", "phase", "stage"})
_MERGE = "application/merge-patch+json"
_PATCH = "application/json-patch+json"


def own(api: Api, asked: Asked, resource: Resource) -> Any:
    """The record in a request's body, out of what is around it."""
    node = asked.operation.body_node(asked.media_type)
    if not isinstance(asked.body, dict) or node is None:
        return asked.body
    inner = find_one(api.shapes, node, resource.noun, resource.node).unwrap(asked.body)
    return inner if isinstance(inner, dict) else asked.body


def created(api: Api, resource: Resource, body: Any) -> Record:
    """A new record from a body: without what only the server may say."""
    if not isinstance(body, dict):
        return {}
    locked = _locked(api.shapes, resource)
    return {
        name: value
        for name, value in body.items()
        if name not in locked and not name.startswith("~")
    }


def updated(api: Api, asked: Asked, resource: Resource, record: Record) -> Record:
    """The record after a PUT (which replaces) or a PATCH or POST (which merges)."""
    body = own(api, asked, resource)
    if not isinstance(body, dict) or asked.media_type == _PATCH:
        return dict(record)
    change = created(api, resource, body)
    change.pop(resource.id_name or "", None)  # an id stays
    if asked.operation.method == "PUT":
        kept = {*_locked(api.shapes, resource), resource.id_name}
        old = {
            name: value
            for name, value in record.items()
            if name in kept or name.startswith("~") or is_server_side(name)
        }
        return {**old, **{n: v for n, v in change.items() if not is_server_side(n)}}
    if asked.media_type == _MERGE:
        merged: Record = _merged(record, change)
        return merged
    return {**record, **change}


def acted(api: Api, asked: Asked, resource: Resource, record: Record) -> Record:
    """The record after `POST .../cancel`: a state of the verb's stem, and what the body names."""
    properties = api.shapes.properties(resource.node)
    body = created(api, resource, own(api, asked, resource))
    change = {name: value for name, value in body.items() if name in properties}
    change.pop(resource.id_name or "", None)
    verb = plain(asked.operation.route.segments[-1])
    stem = verb.removesuffix("e")[: max(4, len(verb) - 1)]
    for name, node in properties.items():
        values = api.shapes.of(node).words.get("enum") or ()
        if plain(name) in _STATES and stem:
            for value in values:
                if isinstance(value, str) and plain(value).startswith(stem):
                    change[name] = value
                    break
    return {**record, **change}


def _locked(shapes: Shapes, resource: Resource) -> set[str]:
    properties = shapes.properties(resource.node)
    return {
        name
        for name, node in properties.items()
        if shapes.of(node).words.get(Way.REQUEST.value) is True
    }


def _merged(old: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged
