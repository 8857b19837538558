"""A record as the server might have created it: with the fields and formats of its siblings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paddock.world.overlay.ids import ID_FIELDS, has_id, id_style
from paddock.world.overlay.patches import typed_like
from paddock.world.overlay.times import format_like, is_creation_time, is_update_time, parse_time

Record = Mapping[str, Any]
NewId = Callable[[str], str | int]  # takes a style
_INITIAL_STATES = ("new", "open", "draft", "pending", "todo", "created", "active", "queued")


def new_record(
    body: Record, siblings: Sequence[Record], new_id: NewId, seconds: float, *, is_form: bool
) -> dict[str, Any]:
    """Return the body that was sent, completed by the siblings, the newest of which comes first.
    Without siblings only an id is added."""
    if not siblings:
        return dict(body) if has_id(body) else {"id": new_id("str"), **body}
    record: dict[str, Any] = {}
    for name in dict.fromkeys(name for sibling in siblings for name in sibling):
        values = [sibling[name] for sibling in siblings if name in sibling]
        if name not in body:
            record[name] = _fill_in(name, values, new_id, seconds)
        elif is_form:
            record[name] = typed_like(body[name], _example(values))
        else:
            record[name] = body[name]
    for name, value in body.items():
        record.setdefault(name, value)
    return _with_own_links(record, siblings[0])


def latest_creation(siblings: Sequence[Record]) -> float:
    """Return the latest creation time of the siblings; a new record must be later."""
    times = [
        parse_time(value)
        for sibling in siblings
        for name, value in sibling.items()
        if is_creation_time(name)
    ]
    return max((time for time in times if time is not None), default=0.0)


def _fill_in(name: str, values: Sequence[Any], new_id: NewId, seconds: float) -> Any:
    example = _example(values)
    if name in ID_FIELDS and isinstance(example, str | int) and not isinstance(example, bool):
        return new_id(id_style(values))
    is_time = parse_time(example) is not None
    if is_time and (is_creation_time(name) or is_update_time(name)):
        return format_like(example, seconds)
    if is_time and isinstance(example, str):
        return None  # closed_at, paid_at: not yet
    return _usual_value(values)


def _usual_value(values: Sequence[Any]) -> Any:
    """Return the value that all have, or an initial state, or an empty value of the type."""
    first = values[0]
    if isinstance(first, list):
        return []
    if len(values) == 1:
        is_typical = isinstance(first, bool) or _is_state(first)
        return first if is_typical else _empty_value({type(first)})
    if all(value == first and type(value) is type(first) for value in values):
        return first
    texts = {value for value in values if isinstance(value, str)}
    for state in _INITIAL_STATES:
        if state in texts:
            return state
    if None in values:
        return None
    return _empty_value({type(value) for value in values})


def _empty_value(types: set[type]) -> Any:
    if types <= {int, float}:
        return 0
    return False if types == {bool} else None


def _is_state(value: Any) -> bool:
    """Return whether a value names a state or a type, and is not text that somebody wrote."""
    if not isinstance(value, str) or len(value) > 24:
        return False
    letters = value.replace("_", "")
    return letters.islower() and letters.isalpha()


def _example(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _with_own_links(record: dict[str, Any], sibling: Record) -> dict[str, Any]:
    """Replace the sibling's id by the new one in links that lead to the sibling itself."""
    for name, value in sibling.items():
        if not isinstance(value, str) or "/" not in value or record.get(name) not in (value, None):
            continue
        path = value.partition("?")[0].removesuffix(".json")
        for field in ID_FIELDS:
            end = f"/{sibling.get(field)}"
            if field in record and path.endswith(end):
                record[name] = value.replace(end, f"/{record[field]}")
                break
    return record
