"""JSON in the store: one encoding for each value, and checks of what comes back."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

_MAX_NUMBER = 1 << 63
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> bytes:
    """Return the one encoding of a JSON value, in plain ASCII."""
    return _CANONICAL.encode(value).encode()


def number(value: Any, low: int = 0) -> int:
    """Return a JSON number that is a size, a count or a time. Raises ValueError for others."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < _MAX_NUMBER:
        raise ValueError(f"{str(value)[:40]!r} is not a number in range")
    return value


def timestamp(value: Any) -> int:
    """Return a JSON number that is a time in nanoseconds, which may lie before 1970."""
    return number(value, low=-_MAX_NUMBER)


def typed(value: Any, kind: type) -> Any:
    """Return a JSON value of the expected type. Raises TypeError for others."""
    if not isinstance(value, kind):
        raise TypeError(f"{str(value)[:40]!r} is not a {kind.__name__}")
    return value


def put_text(fields: dict[str, Any], key: str, text: str) -> None:
    """Set a field to the name of a file. Names are bytes to the kernel: those that are not UTF-8
    are written as base64, because other readers of JSON reject the lone surrogates that Python
    stands in for them."""
    raw = os.fsencode(text)
    try:
        fields[key] = raw.decode()
    except UnicodeDecodeError:
        fields[f"{key}_b64"] = to_base64(raw)


def get_text(fields: dict[str, Any], key: str) -> str:
    """Return the name of a file that `put_text` set. Raises KeyError where there is none."""
    if key in fields:
        return os.fsdecode(typed(fields[key], str).encode())
    return os.fsdecode(from_base64(fields[f"{key}_b64"]))


def put_xattrs(fields: dict[str, Any], xattrs: tuple[tuple[str, bytes], ...]) -> None:
    """Set the field of the extended attributes, where there are some."""
    if xattrs:
        fields["xattrs"] = {key: to_base64(value) for key, value in xattrs}


def get_xattrs(fields: dict[str, Any]) -> tuple[tuple[str, bytes], ...]:
    """Return the extended attributes. Raises ValueError for those that are not a user's own: others
    would give rights to a file."""
    xattrs = typed(fields.get("xattrs", {}), dict)
    if not all(key.startswith("user.") and "\0" not in key for key in xattrs):
        raise ValueError("an attribute is not one of a user")
    return tuple((key, from_base64(value)) for key, value in sorted(xattrs.items()))


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def from_base64(value: Any) -> bytes:
    """Return the bytes. Raises TypeError or ValueError for what is no base64."""
    return base64.b64decode(typed(value, str), validate=True)
