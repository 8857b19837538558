"""Times in records: the fields that hold them, and the formats in which APIs write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

_CREATED = frozenset({
    "created", "createdat", "createdon", "creationdate", "creationtime", "datecreated",
    "createtime", "createddate", "createdtime", "createdtimestamp", "ctime", "inserted",
    "insertedat", "added", "addedat",
})  # fmt: skip
_UPDATED = frozenset({
    "updated", "updatedat", "updatedon", "dateupdated", "updatetime", "modified", "modifiedat",
    "modifiedon", "modifieddate", "datemodified", "lastmodified", "lastupdated", "lastupdatedat",
    "mtime", "changedat", "lastmodifiedtime", "lastmodifieddate", "updateddate", "updatedtime",
})  # fmt: skip
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_EARLIEST, _LATEST = 631_152_000, 7_258_118_400  # 1990 and 2200: other numbers are no times


def is_creation_time(field: str) -> bool:
    return _plain(field) in _CREATED


def is_update_time(field: str) -> bool:
    return _plain(field) in _UPDATED


def is_time(value: Any) -> bool:
    return parse_time(value) is not None


def parse_time(value: Any) -> float | None:
    """Return the Unix time of a time in ISO 8601, in seconds, or in milliseconds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        seconds = value / 1000 if value > _LATEST else value
        return float(seconds) if _EARLIEST <= seconds <= _LATEST else None
    if not isinstance(value, str) or len(value) > 40 or _ISO.fullmatch(value) is None:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time.timestamp()


def format_like(sample: Any, seconds: float) -> Any:
    """Write a time in the format of the sample; without one in ISO 8601 with a Z."""
    if isinstance(sample, int | float) and not isinstance(sample, bool):
        return type(sample)(seconds * 1000 if sample > _LATEST else seconds)
    match = _ISO.fullmatch(sample) if isinstance(sample, str) else None
    time = datetime.fromtimestamp(seconds, UTC)
    if match is None:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ")
    _, separator, _, fraction, zone = match.groups()
    text = time.strftime(f"%Y-%m-%d{separator}%H:%M:%S")
    if fraction:
        text += f".{time.microsecond:06d}000"[: len(fraction)]
    if zone is None or zone == "Z":
        return text + (zone or "")
    return text + ("+00:00" if ":" in zone else "+0000")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
