"""JSON with exactly one encoding for each value (RFC 8785). Bytes out, nothing read or written.

Values that every encoder writes alike take the quick way through the C encoder of the standard
library; all others take the exact way below. Both give the same bytes where both apply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any

from paddock.model.errors import InvalidInput

# Beyond this a double, which is what other readers parse a number into, is not exact.
MAX_INTEGER = 1 << 53
# Deeper values are an attack on the reader's stack.
MAX_DEPTH = 96

_plain = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
)
# `encode` makes a new C encoder at each call, which costs more than the encoding of a record.
_parts: Callable[[Any, int], tuple[str, ...]] | None = (
    None
    if c_make_encoder is None
    else c_make_encoder(None, _plain.default, encode_basestring, None, ":", ",", True, False, False)
)
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of a JSON value. Raises InvalidInput for what JSON cannot say
    exactly."""
    return encoded(canonical_text(value))


def canonical_text(value: Any) -> str:
    """Return the same as text. Lone surrogates are found only when it is encoded."""
    if _is_plain(value, MAX_DEPTH):
        text = "".join(_parts(value, 0)) if _parts is not None else _plain.encode(value)
        # Code points and UTF-16 units sort alike as long as nothing lies beyond the first plane.
        if text.isascii() or _ASTRAL.search(text) is None:
            return text
    return exact_text(value)


def plain_text(value: Any, depth: int) -> str | None:
    """Return the same for what is plain and in ASCII, as most values are; None for all others."""
    if _parts is None or not _is_plain(value, depth):
        return None
    text = "".join(_parts(value, 0))
    return text if text.isascii() else None


def exact_text(value: Any) -> str:
    """Return the canonical text by the slow way, which is the definition."""
    parts: list[str] = []
    _write(value, parts, MAX_DEPTH)
    return "".join(parts)


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("a string with half of a surrogate pair is not text") from None


def _is_plain(value: Any, depth: int) -> bool:
    """Return whether nothing in a value is a number or a key that encoders write differently."""
    kind: type = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-MAX_INTEGER <= value <= MAX_INTEGER)
    if kind is dict:
        if depth <= 0:
            return False
        for key, item in value.items():
            if type(key) is not str:
                return False
            # Most values are one of these: a call for each would double the cost.
            kind = type(item)
            if kind is str or kind is bool or item is None:
                continue
            if not _is_plain(item, depth - 1):
                return False
        return True
    if kind is list or kind is tuple:
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return False


def _write(value: Any, parts: list[str], depth: int) -> None:
    match value:
        case None:
            parts.append("null")
        case bool():
            parts.append("true" if value else "false")
        case str():
            parts.append(encode_basestring(str.__str__(value)))
        case int():
            parts.append(_integer(value))
        case float():
            parts.append(number(value))
        case Mapping():
            _write_object(value, parts, _deeper(depth))
        case list() | tuple():
            _write_array(value, parts, _deeper(depth))
        case _:
            raise InvalidInput(f"{type(value).__name__} is not a JSON value")


def _write_object(value: Mapping[Any, Any], parts: list[str], depth: int) -> None:
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(f"a key of a JSON object is a string, not {key!r:.80}")
    lead = "{"
    for key in sorted(value, key=_utf16_units):
        parts.append(f"{lead}{encode_basestring(str.__str__(key))}:")
        _write(value[key], parts, depth)
        lead = ","
    parts.append("}" if lead == "," else "{}")


def _write_array(value: list[Any] | tuple[Any, ...], parts: list[str], depth: int) -> None:
    lead = "["
    for item in value:
        parts.append(lead)
        _write(item, parts, depth)
        lead = ","
    parts.append("]" if lead == "," else "[]")


def _utf16_units(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _deeper(depth: int) -> int:
    if depth <= 0:
        raise InvalidInput(f"the value is nested deeper than {MAX_DEPTH} levels")
    return depth - 1


def _integer(value: int) -> str:
    text = int.__repr__(value)
    if -MAX_INTEGER <= value <= MAX_INTEGER:
        return text
    # What `number` writes without a point is read back as an integer: 1e20 must stay what it is.
    if abs(value) < 10**21 and number(float(value)) == text:
        return text
    raise InvalidInput(
        "an integer beyond 2^53 has no exact JSON spelling", hint="pass it as a string"
    )


def number(value: float) -> str:
    """Return a double as ECMAScript prints it: the shortest digits that read back as the same
    value."""
    if value != value or value in (float("inf"), float("-inf")):
        raise InvalidInput(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, point = _digits(abs(value))
    return sign + _placed(digits, point)


def _digits(value: float) -> tuple[str, int]:
    """Return the digits that matter, and how many of them stand before the point."""
    mantissa, _, exponent = float.__repr__(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).rstrip("0")
    leading = len(digits) - len(digits.lstrip("0"))
    return digits[leading:], point - leading


def _placed(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"
