"""Any Python value as a JSON value that the journal can hold.

Values that JSON cannot express exactly (64-bit integers, NaN, bytes, objects) are written as text:
the journal must be able to hold whatever a tool was given and whatever it returned.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from paddock.journal.canonical import MAX_DEPTH, MAX_INTEGER

_MAX_HEX = 2000
# A body adds a few levels of its own around a value.
MAX_VALUE_DEPTH = MAX_DEPTH - 8


class Stored(str):
    """A long text that the run has as a blob already. What it says itself is its beginning."""

    __slots__ = ("digest", "is_kept", "size_bytes")
    digest: str
    is_kept: bool
    size_bytes: int


class StoredBytes(Stored):
    """A piece of a body that the run has as a blob of bytes. It is not read back with its record,
    but when its turn comes: a body may be longer than what fits into memory."""

    __slots__ = ()


def as_json(value: Any, depth: int = MAX_VALUE_DEPTH) -> Any:
    """Return the JSON value for any Python value. Equal values give equal JSON. A struct is written
    without the fields that have their default if its class says `omit_defaults`."""
    kind = type(value)
    if kind is str and value.isascii():  # first what is most common
        return value
    if kind is dict and depth > 0:
        made = {
            key if type(key) is str and key.isascii() else _as_key(key): as_json(item, depth - 1)
            for key, item in value.items()
        }
        return made if len(made) == len(value) else _with_all_keys(value, depth)
    if kind is list and depth > 0:
        return [as_json(item, depth - 1) for item in value]
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _as_number(value)
    if isinstance(value, enum.Enum):
        return as_json(value.value, depth)
    if isinstance(value, str):
        return value if isinstance(value, Stored) else as_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    if depth <= 0:
        return _as_repr(value)
    if isinstance(value, msgspec.Struct):
        is_short = value.__struct_config__.omit_defaults
        fields = written_fields(value) if is_short else msgspec.structs.asdict(value).items()
        return {key: as_json(item, depth - 1) for key, item in fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: as_json(getattr(value, name), depth - 1) for name in names}
    if isinstance(value, Mapping):
        made = {_as_key(key): as_json(item, depth - 1) for key, item in value.items()}
        return made if len(made) == len(value) else _with_all_keys(value, depth)
    if isinstance(value, list | tuple):
        return [as_json(item, depth - 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((as_json(item, depth - 1) for item in value), key=repr)
    return _as_repr(value)


def _with_all_keys(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    """Return the object for a mapping of which several keys may be written alike, as half of a
    surrogate pair and its escape are. None of their values is lost: the first keeps the name, and a
    key that is written as it is comes first."""
    made: dict[str, Any] = {}
    for key in sorted(value, key=lambda key: (_as_key(key) != key, _as_repr(key))):
        name = _as_key(key)
        while name in made:
            name += "'"
        made[name] = as_json(value[key], depth - 1)
    return made


def written_fields(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a struct that do not have their default, each under its encoded name, in
    the order of canonical JSON."""
    for name, key, default in fields_of(type(value)):
        item = getattr(value, name)
        if item is not default and item != default:
            yield key, item


class StructField(NamedTuple):
    """One field of a struct, as it is written."""

    name: str
    key: str  # its encoded name
    default: Any


@cache
def fields_of(cls: type[msgspec.Struct]) -> tuple[StructField, ...]:
    """Return the fields of a struct class, sorted by their encoded names. `msgspec.structs.fields`
    would tell the same, but resolves all type hints for it, which takes longer than all else that a
    short run writes."""
    defaults = [
        default.factory() if hasattr(default, "factory") else default
        for default in cls.__struct_defaults__
    ]
    names = cls.__struct_fields__
    without = [msgspec.NODEFAULT] * (len(names) - len(defaults))
    fields = zip(names, cls.__struct_encode_fields__, [*without, *defaults], strict=True)
    return tuple(sorted((StructField(*field) for field in fields), key=lambda field: field.key))


def as_text(value: str) -> str:
    """Return the text with lone surrogates, which UTF-8 cannot encode, written as escapes."""
    text = str.__str__(value)
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def _as_number(value: int | float) -> int | float | str:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if -MAX_INTEGER <= value <= MAX_INTEGER else _decimal(value)


def _decimal(value: int) -> str:
    # Python refuses to print integers of more than some thousand digits in decimal.
    return str(value) if value.bit_length() < 10_000 else hex(value)[:_MAX_HEX]


def _as_key(key: Any) -> str:
    return as_text(key) if isinstance(key, str) else _as_repr(key)


def _as_repr(value: Any) -> str:
    try:
        return as_text(repr(value))  # not cut: the rest of a secret at the cut would not be masked
    except Exception:  # an object of a tool may fail at anything
        return f"<{type(value).__name__}>"
