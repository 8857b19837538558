"""Sizes and durations as people write them, parsed once into integers and floats."""

from __future__ import annotations

import re

from paddock.model.errors import InvalidInput

_SIZE_UNITS = {
    "": 1, "b": 1,
    "k": 1000, "kb": 1000, "kib": 1 << 10,
    "m": 10**6, "mb": 10**6, "mib": 1 << 20,
    "g": 10**9, "gb": 10**9, "gib": 1 << 30,
    "t": 10**12, "tb": 10**12, "tib": 1 << 40,
}  # fmt: skip
_TIME_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
MAX_SIZE = 1 << 50  # more than any host has; keeps every sum within 64 bits
# What a run may store of what its agent sends, writes and prints.
DEFAULT_RECORD_BUDGET = 4 << 30
MAX_DURATION = 10 * 365 * 86400.0
_BEYOND = 1 << 62
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(value: int | float | str, what: str) -> int:
    """Parse `512MiB`, `1GB` or `4096` to bytes; `what` names the thing in the error."""
    say = "a size such as 512MiB, 1GiB or 4096"
    size = int(_quantity(value, what, _SIZE_UNITS, say, (MAX_SIZE, "1024TiB")))
    if size < 1:
        raise InvalidInput(f"{what}: {value!r} is less than one byte")
    return size


def parse_duration(value: int | float | str, what: str) -> float:
    """Parse `10m`, `1.5h`, `250ms` or `30` to seconds; `what` names the thing in the error."""
    say = "a duration such as 30s, 10m or 1.5h"
    return _quantity(value, what, _TIME_UNITS, say, (MAX_DURATION, "10 years"))


def parse_written_duration(value: int | float | str, what: str) -> float:
    """Parse a duration of a file, which needs a unit: 15 could be seconds or minutes. A number with
    a fraction is seconds, as journals have them."""
    is_bare = type(value) is int or (isinstance(value, str) and value.strip().isdecimal())
    if is_bare:
        raise InvalidInput(
            f"{what}: {value!r} has no unit", hint=f"write {value}s, {value}m or {value}h"
        )
    return parse_duration(value, what)


def format_size(size_bytes: int) -> str:
    """Return the shortest readable form that is exact enough: 512MiB, 1.5GiB, 900B."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g}{unit}"
    return f"{size_bytes}B"


def _unit_hint(text: str, units: dict[str, float] | dict[str, int]) -> str | None:
    """Return what was probably meant: 1Gi, 15 minutes, 1h30m."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        is_several = re.fullmatch(r"\s*(\d+\s*[A-Za-z]+\s*){2,}", text) is not None
        return "write one number and one unit" if is_several else None
    number, unit = match[1], match[2].lower()
    if "ms" not in units:
        return f"write {number}{match[2]}B" if f"{unit}b" in units else None
    spellings = (("sec", "s"), ("min", "m"), ("hour", "h"), ("hr", "h"), ("day", "d"))
    return next(
        (f"write {number}{ours}" for word, ours in spellings if unit.startswith(word)), None
    )


def _quantity(
    value: object,
    what: str,
    units: dict[str, float] | dict[str, int],
    say: str,
    most: tuple[float, str],
) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidInput(f"{what}: {value!r} is not {say}")
    if isinstance(value, int | float):
        number, factor = float(min(value, _BEYOND)), 1.0
    else:
        match = _QUANTITY.fullmatch(value)
        if match is None or match[2].lower() not in units:
            raise InvalidInput(f"{what}: {value!r:.60} is not {say}", hint=_unit_hint(value, units))
        number, factor = float(match[1]), float(units[match[2].lower()])
    if not 0 < number * factor <= most[0]:
        raise InvalidInput(f"{what}: {value!r} must be greater than zero and at most {most[1]}")
    return number * factor
