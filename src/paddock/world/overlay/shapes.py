"""Where the records are in an answer: bare, in a wrapper (`{"ticket": {...}}`), or a list in an
envelope (`{"data": [...], "has_more": false}`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.world.overlay.ids import has_id
from paddock.world.overlay.paths import singular

Keys = tuple[str, ...]
LISTS = ("data", "items", "results", "records", "entries", "values", "value", "objects", "content",
          "rows", "list", "elements", "nodes")  # fmt: skip
_AROUND = ("data", "result", "response", "_embedded", "payload")
_NEVER = frozenset({"errors", "warnings", "links", "included", "messages"})


def find_list(body: Any, name: str) -> Keys | None:
    """The way to the list of records, None when the answer is no list. `name` is the last part
    of the path."""
    if isinstance(body, list):
        return () if _is_list(body) else None
    if not isinstance(body, Mapping):
        return None
    lists = [key for key, value in body.items() if _is_list(value) and key not in _NEVER]
    if name in lists:
        return (name,)
    if has_id(body):
        return None
    if found := next((key for key in LISTS if key in lists), None):
        return (found,)
    if len(lists) == 1:
        return (lists[0],)
    return _deeper(body, name)


def find_record(body: Any, name: str) -> Keys:
    """The way to the record; `name` is the collection's."""
    if not isinstance(body, Mapping) or has_id(body):
        return ()
    inner = [key for key, value in body.items() if isinstance(value, Mapping) and has_id(value)]
    for key in (singular(name), "data"):
        if key in inner:
            return (key,)
    return (inner[0],) if len(inner) == 1 else ()


def wrapper_of(body: Any, name: str) -> Keys:
    """Of a body that was sent: `{"ticket": {...}}` to /tickets."""
    if isinstance(body, Mapping) and len(body) == 1:
        key = next(iter(body))
        if key in (singular(name), "data") and isinstance(body[key], Mapping):
            return (key,)
    return ()


def get(body: Any, keys: Keys) -> Any:
    for key in keys:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def put(body: Any, keys: Keys, value: Any) -> Any:
    """A copy with another value at that place."""
    if not keys:
        return value
    outer = dict(body) if isinstance(body, Mapping) else {}
    outer[keys[0]] = put(outer.get(keys[0]), keys[1:], value)
    return outer


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _deeper(body: Mapping[str, Any], name: str) -> Keys | None:
    for key in _AROUND:
        inner = body.get(key)
        if isinstance(inner, Mapping) and not has_id(inner):
            lists = [one for one, value in inner.items() if _is_list(value) and one not in _NEVER]
            if name in lists or len(lists) == 1:
                return (key, name if name in lists else lists[0])
    return None
