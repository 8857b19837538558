"""What the cells of a CSV column are. A column is a number only when nothing is lost by it: "007"
and "+49" stay text, and so does everything in a column with one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

TYPES = ("text", "number", "boolean", "json")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")  # exact in every reader of JSON
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,8})\.[0-9]{1,6}")
_ANY_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
# Digits there are a name, not a quantity: another row may have a letter or a leading zero.
_NAMES = re.compile(r"(?:^|_)(id|ids|phone|zip|zipcode|postcode|postal_code|sku|iban|last4)$")
_TRUTH = {"true": True, "false": False}


def typed(name: str, cells: Sequence[str | None], wanted: str | None) -> list[Any]:
    """The column's values; None where a row has no cell, or an empty one that is not text.
    Raises ValueError for cells that are not what was wanted."""
    kind = wanted or guessed(name, cells)
    if kind == "text":
        return list(cells)
    read = _READ[kind]
    return [None if not cell else read(cell) for cell in cells]


def guessed(name: str, cells: Sequence[str | None]) -> str:
    filled = [cell for cell in cells if cell]
    if not filled or _NAMES.search(name.lower()):
        return "text"
    if all(map(_is_number, filled)):
        return "number"
    if all(cell.lower() in _TRUTH for cell in filled):
        return "boolean"
    return "text"


def _is_number(cell: str) -> bool:
    if cell == "-0":
        return False
    return bool(_WHOLE.fullmatch(cell) or _DECIMAL.fullmatch(cell))


def _number(cell: str) -> int | float:
    if not _ANY_NUMBER.fullmatch(cell):
        raise ValueError(f"{cell[:40]!r} is no number")
    return int(cell) if cell.lstrip("+-").isdigit() else float(cell)


def _boolean(cell: str) -> bool:
    if cell.lower() not in _TRUTH:
        raise ValueError(f"{cell[:40]!r} is neither true nor false")
    return _TRUTH[cell.lower()]


def _json(cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        raise ValueError(f"{cell[:40]!r} is not JSON") from None


_READ: dict[str, Callable[[str], Any]] = {"number": _number, "boolean": _boolean, "json": _json}
