"""A record that was never made, as the server might have made it: in the shape of its siblings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paddock.world.overlay.ids import ID_FIELDS, style
from paddock.world.overlay.patches import typed
from paddock.world.overlay.times import is_created, is_time_text, is_updated, moment, written_like

Record = Mapping[str, Any]
NewId = Callable[[str], str | int]  # in a style
_BEGINNINGS = ("new", "open", "draft", "pending", "todo", "created", "active", "queued")


def fresh(
    body: Record, siblings: Sequence[Record], new_id: NewId, seconds: float, *, is_form: bool
) -> dict[str, Any]:
    """What was sent, and the rest by the siblings, the newest of which is the first. Without any
    it is what was sent, with an id."""
    fields = list(dict.fromkeys(name for one in siblings for name in one))
    if not siblings:
        has_own = any(isinstance(body.get(name), str | int) for name in ID_FIELDS[:7])
        return {**({} if has_own else {"id": new_id("str")}), **body}
    made: dict[str, Any] = {}
    for name in fields:
        values = [one[name] for one in siblings if name in one]
        if name in body:
            made[name] = typed(body[name], _example(values)) if is_form else body[name]
        else:
            made[name] = _filled(name, values, new_id, seconds)
    made.update((name, value) for name, value in body.items() if name not in made)
    return _relinked(made, siblings[0])


def latest(siblings: Sequence[Record]) -> float:
    """When the newest of them was made; a new one is later."""
    moments = (moment(value) for one in siblings for name, value in one.items() if is_created(name))
    return max((at for at in moments if at is not None), default=0.0)


def _filled(name: str, values: Sequence[Any], new_id: NewId, seconds: float) -> Any:
    example = _example(values)
    if name in ID_FIELDS and isinstance(example, str | int) and not isinstance(example, bool):
        return new_id(style(values))
    if (is_created(name) or is_updated(name)) and moment(example) is not None:
        return written_like(example, seconds)
    if is_time_text(example):
        return None  # closed_at, paid_at: not yet
    return _usual(values)


def _usual(values: Sequence[Any]) -> Any:
    """What they all have, or what one begins with, or nothing in that type."""
    first = values[0]
    if isinstance(first, list):
        return []
    if len(values) == 1:
        return first if isinstance(first, bool) or _is_word(first) else _nothing({type(first)})
    if all(value == first and type(value) is type(first) for value in values):
        return first
    words = {value for value in values if isinstance(value, str)}
    if found := next((word for word in _BEGINNINGS if word in words), None):
        return found
    return None if None in values else _nothing({type(value) for value in values})


def _nothing(kinds: set[type]) -> Any:
    if kinds <= {int, float}:
        return 0
    return False if kinds == {bool} else None


def _is_word(value: Any) -> bool:
    """A state or a type of thing, not a text that somebody wrote."""
    return (
        isinstance(value, str)
        and len(value) <= 24
        and value.replace("_", "").islower()
        and (value.replace("_", "").isalpha())
    )


def _example(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _relinked(made: dict[str, Any], sibling: Record) -> dict[str, Any]:
    """Links of the sibling to itself lead to the new one."""
    for name, value in sibling.items():
        if not isinstance(value, str) or "/" not in value or made.get(name) not in (value, None):
            continue
        for field in ID_FIELDS:
            end = f"/{sibling.get(field)}"
            if field in made and value.partition("?")[0].removesuffix(".json").endswith(end):
                made[name] = value.replace(end, f"/{made[field]}")
                break
    return made
