"""Moments in records: which fields they are in, and how an API writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

_CREATED = frozenset({
    "created", "createdat", "createdon", "creationdate", "creationtime", "datecreated",
    "createtime", "createddate", "createdtime", "ctime", "inserted", "insertedat", "added",
    "addedat",
})  # fmt: skip
_UPDATED = frozenset({
    "updated", "updatedat", "updatedon", "dateupdated", "updatetime", "modified", "modifiedat",
    "modifiedon", "lastmodified", "lastupdated", "mtime", "changedat", "lastmodifiedtime",
    "lastmodifieddate", "updateddate", "updatedtime",
})  # fmt: skip
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_EARLIEST, _LATEST = 631_152_000, 7_258_118_400  # 1990 and 2200: other numbers are no times


def is_created(name: str) -> bool:
    return _plain(name) in _CREATED


def is_updated(name: str) -> bool:
    return _plain(name) in _UPDATED


def is_time(value: Any) -> bool:
    return moment(value) is not None


def is_time_text(value: Any) -> bool:
    return isinstance(value, str) and moment(value) is not None


def moment(value: Any) -> float | None:
    """Seconds since 1970 of a time in ISO 8601, in seconds, or in milliseconds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        seconds = value / 1000 if value > _LATEST else value
        return float(seconds) if _EARLIEST <= seconds <= _LATEST else None
    if not isinstance(value, str) or len(value) > 40 or _ISO.fullmatch(value) is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def written_like(sample: Any, seconds: float) -> Any:
    """The moment in the way of the sample; without one in ISO 8601 with a Z."""
    if isinstance(sample, int | float) and not isinstance(sample, bool):
        return type(sample)(seconds * 1000 if sample > _LATEST else seconds)
    match = _ISO.fullmatch(sample) if isinstance(sample, str) else None
    at = datetime.fromtimestamp(seconds, UTC)
    if match is None:
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")
    fraction = f".{at.microsecond:06d}000"[: len(match[4])] if match[4] else ""
    zone = "" if match[5] is None else ("Z" if match[5] == "Z" else _utc_like(match[5]))
    return at.strftime(f"%Y-%m-%d{match[2]}%H:%M:%S") + fraction + zone


def _utc_like(zone: str) -> str:
    return "+00:00" if ":" in zone else "+0000"


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
