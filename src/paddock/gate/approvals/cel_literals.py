"""Values of JSON as CEL writes them, for rules that are proposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.model.errors import InvalidInput

_MAX_DEPTH = 16
_PLACEHOLDER = "{{secret:"


def holds_secret(value: Any) -> bool:
    """Whether a placeholder stands somewhere for a value that was masked."""
    if isinstance(value, str):
        return _PLACEHOLDER in value
    if isinstance(value, Mapping):
        return any(holds_secret(key) or holds_secret(one) for key, one in value.items())
    return isinstance(value, list | tuple) and any(map(holds_secret, value))


def literal(value: Any) -> str:
    """A value of JSON as CEL writes it. Raises InvalidInput for what cannot be written."""
    return _literal(value, _MAX_DEPTH)


def _literal(value: Any, depth: int) -> str:
    if depth == 0:
        raise InvalidInput("the arguments are nested too deeply to be written into a rule")
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            quote = '"' if "'" in value else "'"  # YAML shows single quotes as they are
            return quote + "".join(map(_escaped, value)) + quote
        case int():
            return str(value)
        case float():
            return _double(value)
        case Mapping():
            pairs = (f"{_literal(str(k), 1)}: {_literal(v, depth - 1)}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(_literal(one, depth - 1) for one in value) + "]"
    raise InvalidInput(f"an argument is no JSON: {type(value).__name__}")


def _double(value: float) -> str:
    text = repr(value)
    return text if set(text) & set(".e") else f"{text}.0"


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code < 0xE000:
        raise InvalidInput("an argument is not text and cannot be written into a rule")
    if character in '"\\':
        return "\\" + character
    if 0x20 <= code < 0x7F:
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
