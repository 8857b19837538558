"""What a write does to a record: merge patch, JSON patch, replacement."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.world.overlay.ids import ID_FIELDS, URL_FIELDS
from paddock.world.overlay.times import is_created, is_updated, moment, written_like

MAX_OPERATIONS = 1000
_MAX_DEPTH = 50
_KEPT = frozenset({*ID_FIELDS, *URL_FIELDS, "object", "type", "kind", "_links", "html_url"})


class CannotApply(ValueError):
    """A JSON patch that does not fit the record."""


def merged(record: Any, patch: Any, *, is_strict: bool = False, depth: int = 0) -> Any:
    """RFC 7396 when strict; else a null is a value as any other, as most APIs have it."""
    if not isinstance(patch, Mapping) or depth > _MAX_DEPTH:
        return patch
    result = dict(record) if isinstance(record, Mapping) else {}
    for name, value in patch.items():
        if value is None and is_strict:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value, is_strict=is_strict, depth=depth + 1)
    return result


def replaced(record: Any, body: Any) -> Any:
    """The body, with what the server keeps for itself: ids, times, its own links."""
    if not isinstance(body, Mapping) or not isinstance(record, Mapping):
        return body
    kept = {
        name: value
        for name, value in record.items()
        if name in body or name in _KEPT or is_created(name) or is_updated(name)
    }
    return {**kept, **body}


def is_operations(body: Any) -> bool:
    return isinstance(body, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("op"), str) and "path" in one
        for one in body
    )


def patched(record: Any, operations: Sequence[Any]) -> Any:
    """RFC 6902. Raises CannotApply; then nothing is changed."""
    if len(operations) > MAX_OPERATIONS:
        raise CannotApply(f"more than {MAX_OPERATIONS} operations")
    result = copy.deepcopy(record)
    for operation in operations:
        result = _operated(result, operation)
    return result


def touched(record: Any, seconds: float) -> Any:
    """The record with a later time of its last change, if it has one."""
    if not isinstance(record, Mapping):
        return record
    return {name: _later(value, seconds) if is_updated(name) else value
            for name, value in record.items()}  # fmt: skip


def typed(value: Any, sample: Any) -> Any:
    """What came from a form, in the types that the records have."""
    if isinstance(value, Mapping) and isinstance(sample, Mapping):
        return {name: typed(one, sample.get(name)) for name, one in value.items()}
    if not isinstance(value, str):
        return value
    if isinstance(sample, bool) and value in ("true", "false"):
        return value == "true"
    if isinstance(sample, int) and value.lstrip("-").isdecimal() and len(value) < 20:
        return int(value)
    return value


def _later(value: Any, seconds: float) -> Any:
    was = moment(value)
    return value if was is None else written_like(value, max(seconds, was + 1))


def _operated(document: Any, operation: Any) -> Any:
    if not isinstance(operation, Mapping):
        raise CannotApply("an operation is an object")
    name, path = operation.get("op"), _pointer(operation.get("path"))
    if name == "test":
        if _at(document, path) != operation.get("value"):
            raise CannotApply(f"the test of {operation['path']!r} failed")
        return document
    if name in ("add", "replace"):
        value = copy.deepcopy(operation.get("value"))
    elif name in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = copy.deepcopy(_at(document, source))
        if name == "move":
            document = _removed(document, source)
    elif name == "remove":
        return _removed(document, path)
    else:
        raise CannotApply(f"no operation {name!r}")
    if name == "replace":
        _at(document, path)  # it must be there
    return _put(document, path, value, is_insert=name != "replace")


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise CannotApply(f"{text!r} is no path")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
    return document


def _child(document: Any, part: str) -> Any:
    if isinstance(document, dict) and part in document:
        return document[part]
    if isinstance(document, list):
        return document[_index(part, len(document))]
    raise CannotApply(f"there is no {part!r}")


def _index(part: str, length: int) -> int:
    at = int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else length
    if at >= length:
        raise CannotApply(f"there is no place {part!r} in the list")
    return at


def _removed(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    holder = _at(document, path[:-1])
    _child(holder, path[-1])
    del holder[path[-1] if isinstance(holder, dict) else int(path[-1])]
    return document


def _put(document: Any, path: list[str], value: Any, *, is_insert: bool) -> Any:
    if not path:
        return value
    holder, part = _at(document, path[:-1]), path[-1]
    if isinstance(holder, dict):
        holder[part] = value
    elif isinstance(holder, list) and is_insert:
        holder.insert(len(holder) if part == "-" else _index(part, len(holder) + 1), value)
    elif isinstance(holder, list):
        holder[_index(part, len(holder))] = value
    else:
        raise CannotApply(f"{part!r} is in no object and no list")
    return document
