"""Finds where two JSON values differ, path by path. Pure; the number and length of differences are
bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from paddock.run.matching.recorded_step import ABSENT

MAX_FIELDS = 200
MAX_VALUE = 2000  # characters of one value; whole ones are asked for with `full`
_MAX_DEPTH = 12  # below it values are compared as a whole
_MAX_PARSED = 1 << 20  # of a text that looks like JSON


class FieldDifference(msgspec.Struct, frozen=True):
    """One value that differs. What is not there is ABSENT."""

    at: str
    here: Any
    there: Any

    def as_json(self) -> dict[str, Any]:
        """Return it for programs. A side that does not have the value has no key."""
        sides = {"a": self.here, "b": self.there}
        return {
            "at": self.at,
            **{key: value for key, value in sides.items() if value is not ABSENT},
        }


def differences(here: Any, there: Any, *, is_full: bool = False) -> list[FieldDifference]:
    """Return the differences, at most `limit` of them, each shortened unless whole values are
    wanted."""
    fields = list(islice(_walk("", here, there, 0), None if is_full else MAX_FIELDS))
    if is_full:
        return fields
    return [FieldDifference(field.at, *windows(field.here, field.there)) for field in fields]


def shortened(value: Any, most: int = MAX_VALUE) -> Any:
    """Return the value if it is short, else the beginning of its text and how much is left out."""
    if value is ABSENT or value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= most else f"{text[:most]} (... {len(text) - most} more characters)"


def windows(here: Any, there: Any, most: int = MAX_VALUE) -> tuple[Any, Any]:
    """Cut two long texts to the part that begins shortly before their first difference."""
    if not (isinstance(here, str) and isinstance(there, str)):
        return shortened(here, most), shortened(there, most)
    if max(len(here), len(there)) <= most:
        return here, there
    start = max(_parting(here, there) - most // 4, 0)
    front = f"(... {start} characters) " if start else ""
    return front + shortened(here[start:], most), front + shortened(there[start:], most)


def _parting(here: str, there: str) -> int:
    for at, (ours, theirs) in enumerate(zip(here, there, strict=False)):
        if ours != theirs:
            return at
    return min(len(here), len(there))


def _walk(at: str, here: Any, there: Any, depth: int) -> Iterator[FieldDifference]:
    if here is ABSENT or there is ABSENT or depth >= _MAX_DEPTH:
        if here is ABSENT or there is ABSENT or not _is_same(here, there):
            yield FieldDifference(at, here, there)
    elif isinstance(here, Mapping) and isinstance(there, Mapping):
        yield from _walk_mapping(at, here, there, depth)
    elif isinstance(here, list) and isinstance(there, list):
        yield from _walk_list(at, here, there, depth)
    elif not _is_same(here, there):
        yield from _walk_text(at, here, there, depth)


def _walk_mapping(
    at: str, here: Mapping[str, Any], there: Mapping[str, Any], depth: int
) -> Iterator[FieldDifference]:
    for name in {**here, **there}:
        inner = f"{at}.{name}" if at else str(name)
        yield from _walk(inner, here.get(name, ABSENT), there.get(name, ABSENT), depth + 1)


def _walk_list(
    at: str, here: Sequence[Any], there: Sequence[Any], depth: int
) -> Iterator[FieldDifference]:
    for index in range(max(len(here), len(there))):
        mine, yours = (side[index] if index < len(side) else ABSENT for side in (here, there))
        yield from _walk(f"{at}[{index}]", mine, yours, depth + 1)


def _walk_text(at: str, here: Any, there: Any, depth: int) -> Iterator[FieldDifference]:
    """Compare two texts, as JSON if both are JSON."""
    mine, yours = _parsed(here), _parsed(there)
    if mine is not None and yours is not None and not _is_same(mine, yours):
        yield from _walk(at, mine, yours, depth + 1)
    else:
        yield FieldDifference(at, here, there)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > _MAX_PARSED or value[:1] not in ("{", "["):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _is_same(value: Any, other: Any) -> bool:
    """Compare two values strictly: 1 is neither true nor 1.0."""
    return type(value) is type(other) and bool(value == other)
