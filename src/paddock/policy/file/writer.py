"""Plain values as YAML that our own reader takes back unchanged. Text that could be read as
anything else is quoted; comments can be put above any key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./ @-]*(?<! )")
_NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_WIDTH = 88
Comments = Mapping[tuple[str | int, ...], str]


def emit(value: Mapping[str, Any], comments: Comments | None = None) -> str:
    """Return a block mapping; what fits on a line is written on one."""
    return "\n".join(_mapping(value, 0, (), comments or {})) + "\n"


def emit_inline(value: Any) -> str:
    """Return the value on one line."""
    if isinstance(value, Mapping):
        parts = (f"{emit_inline(str(key))}: {emit_inline(inner)}" for key, inner in value.items())
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(emit_inline, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _number(value)


def _mapping(
    value: Mapping[str, Any], indent: int, path: tuple[str | int, ...], comments: Comments
) -> list[str]:
    lines = []
    for key, inner in value.items():
        here = (*path, key)
        lines += _comment(here, indent, comments)
        start = f"{' ' * indent}{emit_inline(str(key))}:"
        lines += _entry(start, inner, indent, here, comments)
    return lines


def _entry(
    start: str, value: Any, indent: int, path: tuple[str | int, ...], comments: Comments
) -> list[str]:
    inline = f"{start} {emit_inline(value)}"
    is_small = len(inline) <= _WIDTH and not any(p[: len(path)] == path != p for p in comments)
    # A top-level section is easier to read, and to change, as a block.
    if not value or not isinstance(value, Mapping | list | tuple) or (is_small and indent > 0):
        return [inline]
    if isinstance(value, Mapping):
        return [start, *_mapping(value, indent + 2, path, comments)]
    return [start, *_sequence(value, indent + 2, path, comments)]


def _sequence(
    values: list[Any] | tuple[Any, ...],
    indent: int,
    path: tuple[str | int, ...],
    comments: Comments,
) -> list[str]:
    lines = []
    for number, value in enumerate(values):
        here = (*path, number)
        lines += _comment(here, indent, comments)
        if isinstance(value, Mapping) and value:
            first, *rest = _mapping(value, indent + 2, here, comments)
            lines += [f"{' ' * indent}- {first.lstrip()}", *rest]
        else:
            lines.append(f"{' ' * indent}- {emit_inline(value)}")
    return lines


def _comment(path: tuple[str | int, ...], indent: int, comments: Comments) -> list[str]:
    text = comments.get(path)
    return [] if text is None else [f"{' ' * indent}# {line}" for line in text.splitlines()]


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if 0x20 <= code < 0x7F:
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def _number(value: int | float) -> str:
    text = repr(value)
    # An exponent needs no point in Python, but a number without one would be read as an integer.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
