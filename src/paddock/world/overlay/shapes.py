"""Finding the records in an answer: bare, in a wrapper (`{"ticket": {...}}`), or as a list in an
envelope (`{"data": [...], "has_more": false}`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.world.overlay.ids import has_id
from paddock.world.overlay.paths import singular

Keys = tuple[str, ...]
LISTS = ("data", "items", "results", "records", "entries", "values", "value", "objects", "content",
          "rows", "list", "elements", "nodes")  # fmt: skip
_ENVELOPES = ("data", "result", "response", "_embedded", "payload")
_NO_RECORDS = frozenset({"errors", "warnings", "links", "included", "messages"})


def find_list(body: Any, name: str) -> Keys | None:
    """Return the keys that lead to the list of records, or None if the answer is no list. `name`
    is the last part of the path."""
    if isinstance(body, list):
        return () if _is_list(body) else None
    if not isinstance(body, Mapping):
        return None
    lists = [key for key, value in body.items() if _is_list(value) and key not in _NO_RECORDS]
    if name in lists:
        return (name,)
    if has_id(body):
        return None
    for key in LISTS:
        if key in lists:
            return (key,)
    if len(lists) == 1:
        return (lists[0],)
    return _find_in_envelope(body, name)


def find_record(body: Any, name: str) -> Keys:
    """Return the keys that lead to the record. `name` is the last part of the collection's path."""
    if not isinstance(body, Mapping) or has_id(body):
        return ()
    inner = [key for key, value in body.items() if isinstance(value, Mapping) and has_id(value)]
    for key in (singular(name), "data"):
        if key in inner:
            return (key,)
    return (inner[0],) if len(inner) == 1 else ()


def wrapper_of(body: Any, name: str) -> Keys:
    """Return the wrapper of a request body, such as `{"ticket": {...}}` sent to /tickets."""
    if isinstance(body, Mapping) and len(body) == 1:
        key = next(iter(body))
        if key in (singular(name), "data") and isinstance(body[key], Mapping):
            return (key,)
    return ()


def get_at(body: Any, keys: Keys) -> Any:
    """Return the value at these keys, or None."""
    for key in keys:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def put_at(body: Any, keys: Keys, value: Any) -> Any:
    """Return a copy with another value at these keys."""
    if not keys:
        return value
    outer = dict(body) if isinstance(body, Mapping) else {}
    outer[keys[0]] = put_at(outer.get(keys[0]), keys[1:], value)
    return outer


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _find_in_envelope(body: Mapping[str, Any], name: str) -> Keys | None:
    for key in _ENVELOPES:
        inner = body.get(key)
        if isinstance(inner, Mapping) and not has_id(inner):
            lists = [k for k, value in inner.items() if _is_list(value) and k not in _NO_RECORDS]
            if name in lists:
                return (key, name)
            if len(lists) == 1:
                return (key, lists[0])
    return None
