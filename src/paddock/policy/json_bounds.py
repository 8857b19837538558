"""Bounds on an agent's JSON: how much of it is looked at, and that it is JSON at all."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

_INT_LIMIT = 1 << 63
# A text without an end matches too: it is looked at once, and not from each of its quotes.
_TEXT_OR_VALUE = re.compile(rb'"[^"\\]*(?:\\.?[^"\\]*)*(?:"|\Z)|[,\[{]', re.DOTALL)
_QUOTE = ord('"')
_FEW, _SHORT = 16, 1024  # together far below any bound


class Bounds(msgspec.Struct, frozen=True):
    """The most that is taken: values in all, characters in all, levels of nesting."""

    nodes: int
    characters: int = 1 << 20
    depth: int = 32


def has_few_values(text: bytes, most: int) -> bool:
    """Return whether JSON has at most so many values, told without parsing it: each value but the
    first stands behind a comma or at the beginning of a list or object. Keys do not count."""
    openings = text.count(b"[") + text.count(b"{")
    if text.count(b",") + openings < most:
        return True
    # Some of these may stand in texts.
    count = 1
    for token in _TEXT_OR_VALUE.finditer(text):
        if text[token.start()] != _QUOTE:
            count += 1
            if count > most:
                return False
    return True


def bound(value: Any, bounds: Bounds, error: type[Exception]) -> None:
    """Raise `error` for what is too large or too deep, or is no JSON: a number beyond 64 bits or
    without a value, a key that is no text, an object."""
    if value is None or (type(value) is str and len(value) <= bounds.characters):
        return
    if type(value) is dict and _is_flat(value):
        return
    level: list[Any] = [value]
    nodes = characters = 0
    # Level by level: a nesting that would end a recursion cannot end this.
    for _ in range(bounds.depth):
        nodes += len(level)
        below: list[Any] = []
        for inner in level:
            characters += _measure(inner, below, error)
        if nodes + len(below) > bounds.nodes or characters > bounds.characters:
            raise error(f"the arguments are too large: {bounds.nodes} values are looked at")
        if not below:
            return
        level = below
    raise error(f"the arguments are nested deeper than {bounds.depth} levels")


def _is_flat(value: dict[Any, Any]) -> bool:
    """Return whether it is a few short texts and small numbers: most arguments are, and need no
    walk."""
    if len(value) > _FEW:
        return False
    for key, inner in value.items():
        if type(key) is not str:
            return False
        kind = type(inner)
        if kind is str:
            if len(inner) > _SHORT:
                return False
        elif kind is int:
            if not -_INT_LIMIT <= inner < _INT_LIMIT:
                return False
        elif kind is not bool:
            return False
    return True


def _measure(value: Any, below: list[Any], error: type[Exception]) -> int:
    """Return the characters of one value; what it contains goes to `below`."""
    kind = type(value)
    if kind is str:
        return len(value)
    if kind is bool or value is None:
        return 0
    if kind is int and -_INT_LIMIT <= value < _INT_LIMIT:
        return 0
    if kind is float and math.isfinite(value):
        return 0
    if isinstance(value, Mapping):
        below.extend(value.values())
        return _keys(value, error)
    if isinstance(value, list | tuple):
        below.extend(value)
        return 0
    raise error(f"an argument is no JSON: {str(value)[:40]} ({kind.__name__})")


def _keys(mapping: Mapping[Any, Any], error: type[Exception]) -> int:
    size = 0
    for key in mapping:
        if type(key) is not str:
            raise error(f"a key of the arguments is no text: {str(key)[:40]}")
        size += len(key)
    return size
