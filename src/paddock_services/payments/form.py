"""Form-encoded parameters with brackets: `card[number]=4242&expand[]=customer` as nested values.

What comes here was written by an agent: count and depth are bounded before anything is built.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

from paddock_services.payments.errors import Refusal

MAX_PARAMS = 1000
MAX_DEPTH = 8
MAX_ITEMS = 500  # of one list


def decode(text: str) -> dict[str, Any]:
    """The parameters of a query or a body. Of a name that comes twice the last one holds."""
    found: dict[str, Any] = {}
    if not text:
        return found
    pairs = text.split("&", MAX_PARAMS)
    if len(pairs) > MAX_PARAMS:
        raise Refusal(f"A request has at most {MAX_PARAMS} parameters.")
    for pair in pairs:
        name, _, value = pair.partition("=")
        if "%" in name or "+" in name:
            name = unquote_plus(name)
        if "%" in value or "+" in value:
            value = unquote_plus(value)
        if "[" in name:
            _place(found, name, value)
        elif name:
            found[name] = value
    return {name: _with_lists(value, name) for name, value in found.items()}


def _place(found: dict[str, Any], name: str, value: str) -> None:
    """Puts a value below its brackets. `[]` counts up, so that all levels are tables at first."""
    here = found
    path = _path(name)
    for key in path[:-1]:
        key = key or str(len(here))
        below = here.get(key)
        if not isinstance(below, dict):
            below = here[key] = {}
        here = below
    here[path[-1] or str(len(here))] = value


def _path(name: str) -> list[str]:
    first, *rest = name.split("[")
    if not first or len(rest) > MAX_DEPTH or not all(part.endswith("]") for part in rest):
        raise Refusal(f"Invalid parameter name: {name[:100]}", param=name[:100])
    return [first, *(part[:-1] for part in rest)]


def _with_lists(value: Any, name: str) -> Any:
    """Tables whose keys are all numbers were meant as lists."""
    if not isinstance(value, dict):
        return value
    if value and all(key.isdecimal() and key.isascii() for key in value):
        if len(value) > MAX_ITEMS:
            raise Refusal(f"Array too long: {name} has at most {MAX_ITEMS} items.", param=name)
        ordered = sorted(value, key=_rank)
        return [_with_lists(value[key], name) for key in ordered]
    return {key: _with_lists(below, name) for key, below in value.items()}


def _rank(key: str) -> tuple[int, str]:
    return len(key.lstrip("0")), key.lstrip("0")  # as numbers, without making numbers of them
