"""Form-encoded parameters with brackets: `card[number]=4242&expand[]=customer` as nested values.

The text was written by an agent: count and depth are bounded before anything is built.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

from paddock_services.payments.errors import Refusal

MAX_PARAMS = 1000
MAX_DEPTH = 8
MAX_ITEMS = 500  # of one list


def decode(text: str) -> dict[str, Any]:
    """Return the parameters of a query or a body. Of a name that comes twice the last one holds."""
    params: dict[str, Any] = {}
    pairs = text.split("&", MAX_PARAMS)
    if len(pairs) > MAX_PARAMS:
        raise Refusal(f"A request has at most {MAX_PARAMS} parameters.")
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name:
            _place(params, unquote_plus(name), unquote_plus(value))
    return {name: _with_lists(value, name) for name, value in params.items()}


def _place(params: dict[str, Any], name: str, value: str) -> None:
    """Put a value below its brackets. `[]` counts up, so that all levels are tables at first."""
    first, *rest = name.split("[")
    if not first or len(rest) > MAX_DEPTH or not all(part.endswith("]") for part in rest):
        raise Refusal(f"Invalid parameter name: {name[:100]}", param=name[:100])
    table, key = params, first
    for part in rest:
        if not isinstance(table.get(key), dict):
            table[key] = {}
        table = table[key]
        key = part[:-1] or str(len(table))
    table[key] = value


def _with_lists(value: Any, name: str) -> Any:
    """Return lists in place of tables whose keys are all numbers."""
    if not isinstance(value, dict):
        return value
    if not all(key.isdecimal() and key.isascii() for key in value):
        return {key: _with_lists(below, name) for key, below in value.items()}
    if len(value) > MAX_ITEMS:
        raise Refusal(f"Array too long: {name} has at most {MAX_ITEMS} items.", param=name)
    return [_with_lists(value[key], name) for key in sorted(value, key=_numeric_order)]


def _numeric_order(key: str) -> tuple[int, str]:
    """Return what sorts digits as numbers, however many there are."""
    digits = key.lstrip("0")
    return len(digits), digits
