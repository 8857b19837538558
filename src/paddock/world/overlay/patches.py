"""Changes of a record: merge patch (RFC 7396), JSON patch (RFC 6902), replacement.

A draft stores the changes of a record, not the changed record, and applies them to the real one at
each read.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.world.overlay.ids import ID_FIELDS, URL_FIELDS
from paddock.world.overlay.times import format_like, is_creation_time, is_update_time, parse_time

MAX_CHANGES = 500  # of one record
MAX_OPERATIONS = 1000  # of one JSON patch
_MAX_DEPTH = 50
_SERVER_FIELDS = frozenset(
    {*ID_FIELDS, *URL_FIELDS, "object", "type", "kind", "_links", "html_url"}
)


Change = dict[str, Any]  # how (merge, strict, patch, replace), body, seconds


class CannotApply(ValueError):
    """A JSON patch that does not fit the record."""


def merge_patch(record: Any, patch: Any, *, is_strict: bool = False, depth: int = 0) -> Any:
    """Merge as RFC 7396 says if strict; otherwise null is an ordinary value, as in most APIs."""
    if not isinstance(patch, Mapping) or depth > _MAX_DEPTH:
        return patch
    result = dict(record) if isinstance(record, Mapping) else {}
    for name, value in patch.items():
        if value is None and is_strict:
            result.pop(name, None)
        else:
            result[name] = merge_patch(
                result.get(name), value, is_strict=is_strict, depth=depth + 1
            )
    return result


def replace_record(record: Any, body: Any) -> Any:
    """Return the body, with the fields that a server manages itself: ids, times, its own links."""
    if not isinstance(body, Mapping) or not isinstance(record, Mapping):
        return body
    managed = {
        name: value
        for name, value in record.items()
        if name in body or name in _SERVER_FIELDS or is_creation_time(name) or is_update_time(name)
    }
    return {**managed, **body}


def is_json_patch(body: Any) -> bool:
    return isinstance(body, list) and all(
        isinstance(operation, Mapping)
        and isinstance(operation.get("op"), str)
        and "path" in operation
        for operation in body
    )


def json_patch(record: Any, operations: Sequence[Any]) -> Any:
    """Return the record after a JSON patch (RFC 6902). Raises CannotApply."""
    if len(operations) > MAX_OPERATIONS:
        raise CannotApply(f"more than {MAX_OPERATIONS} operations")
    result = copy.deepcopy(record)
    for operation in operations:
        result = _apply_operation(result, operation)
    return result


def apply_changes(record: Any, changes: Sequence[Mapping[str, Any]]) -> Any:
    """Return the record after all changes. Raises CannotApply for a JSON patch that does not
    fit."""
    for change in changes:
        record = _with_update_time(_apply_change(record, change), change["seconds"])
    return record


def apply_leniently(record: Any, changes: Sequence[Mapping[str, Any]]) -> Any:
    """Return the record after the changes that fit: the real record may be another one by now."""
    for change in changes:
        try:
            record = apply_changes(record, [change])
        except ValueError:
            continue
    return record


def add_change(changes: Sequence[Change], change: Change) -> tuple[Change, ...]:
    """Return the changes and one more, joined where that has the same effect."""
    if change["how"] == "replace":
        return (change,)
    if changes and change["how"] == changes[-1]["how"] == "merge":
        body = merge_patch(changes[-1]["body"], change["body"])
        return (*changes[:-1], {**change, "body": body})
    return (*changes, change)


def _apply_change(record: Any, change: Mapping[str, Any]) -> Any:
    body = change["body"]
    match change["how"]:
        case "replace":
            return replace_record(record, body)
        case "patch":
            return record if record is None else json_patch(record, body)
        case "strict":
            return merge_patch(record, body, is_strict=True)
    return merge_patch(record, body) if isinstance(body, Mapping) else record


def _with_update_time(record: Any, seconds: float) -> Any:
    """Return the record with a later time of its last update, if it has one."""
    if not isinstance(record, Mapping):
        return record
    result = dict(record)
    for name, value in record.items():
        old = parse_time(value) if is_update_time(name) else None
        if old is not None:
            result[name] = format_like(value, max(seconds, old + 1))
    return result


def typed_like(value: Any, sample: Any) -> Any:
    """Return a value from a form in the type that the sample has."""
    if isinstance(value, Mapping) and isinstance(sample, Mapping):
        return {name: typed_like(inner, sample.get(name)) for name, inner in value.items()}
    if not isinstance(value, str):
        return value
    if isinstance(sample, bool) and value in ("true", "false"):
        return value == "true"
    if isinstance(sample, int) and value.lstrip("-").isdecimal() and len(value) < 20:
        return int(value)
    return value


def _apply_operation(document: Any, operation: Any) -> Any:
    if not isinstance(operation, Mapping):
        raise CannotApply("an operation is an object")
    name, path = operation.get("op"), _pointer(operation.get("path"))
    if name == "test":
        if _get(document, path) != operation.get("value"):
            raise CannotApply(f"the test of {operation['path']!r} failed")
        return document
    if name in ("add", "replace"):
        value = copy.deepcopy(operation.get("value"))
    elif name in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = copy.deepcopy(_get(document, source))
        if name == "move":
            document = _remove(document, source)
    elif name == "remove":
        return _remove(document, path)
    else:
        raise CannotApply(f"no operation {name!r}")
    if name == "replace":
        _get(document, path)  # raises if it does not exist
    return _put(document, path, value, is_insert=name != "replace")


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise CannotApply(f"{text!r} is no path")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:
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
    if part.isascii() and part.isdecimal() and len(part) < 10 and int(part) < length:
        return int(part)
    raise CannotApply(f"there is no place {part!r} in the list")


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    holder = _get(document, path[:-1])
    _child(holder, path[-1])
    key = path[-1] if isinstance(holder, dict) else int(path[-1])
    del holder[key]
    return document


def _put(document: Any, path: list[str], value: Any, *, is_insert: bool) -> Any:
    if not path:
        return value
    holder, part = _get(document, path[:-1]), path[-1]
    if isinstance(holder, dict):
        holder[part] = value
    elif isinstance(holder, list) and is_insert:
        index = len(holder) if part == "-" else _index(part, len(holder) + 1)
        holder.insert(index, value)
    elif isinstance(holder, list):
        holder[_index(part, len(holder))] = value
    else:
        raise CannotApply(f"{part!r} is in no object and no list")
    return document
