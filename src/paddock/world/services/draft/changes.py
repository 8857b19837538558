"""The changes of one record, done again to the real one at each read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.world.overlay.patches import merged, patched, replaced, touched

MAX_CHANGES = 500
Change = dict[str, Any]  # how (merge, strict, patch, replace), body, seconds


def applied(record: Any, changes: Sequence[Mapping[str, Any]]) -> Any:
    """The record after all of them. Raises CannotApply for a JSON patch that does not fit."""
    for change in changes:
        record = touched(_one(record, change), change["seconds"])
    return record


def applied_leniently(record: Any, changes: Sequence[Mapping[str, Any]]) -> Any:
    """As far as they fit: the real record may have become another one."""
    for change in changes:
        try:
            record = applied(record, [change])
        except ValueError:
            continue
    return record


def added(changes: Sequence[Change], change: Change) -> tuple[Change, ...]:
    """The changes with one more; as few as say the same."""
    if change["how"] == "replace":
        return (change,)
    if changes and change["how"] == changes[-1]["how"] == "merge":
        both = merged(changes[-1]["body"], change["body"])
        return (*changes[:-1], {**change, "body": both})
    return (*changes, change)


def _one(record: Any, change: Mapping[str, Any]) -> Any:
    body = change["body"]
    match change["how"]:
        case "replace":
            return replaced(record, body)
        case "patch":
            return record if record is None else patched(record, body)
        case "strict":
            return merged(record, body, is_strict=True)
    return merged(record, body) if isinstance(body, Mapping) else record
