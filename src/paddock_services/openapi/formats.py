"""The formats of strings: checking a text, and making one."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

# An agent chooses the texts, so none of these patterns can backtrack far.
_EMAIL = re.compile(r"[^@\s]{1,256}@[^@\s]{1,256}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,32}:\S+")
_HOSTNAME = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63}){0,10}\.?")
_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_MAX_LENGTH = 4_096


def is_valid(name: object, text: str) -> bool:
    """Return whether a text has the format. Unknown formats accept everything."""
    check = _CHECKS.get(name) if isinstance(name, str) else None
    if check is None:
        return True
    try:
        return len(text) <= _MAX_LENGTH and bool(check(text))
    except ValueError:
        return False


def date_time(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def example(name: str, key: str, timestamp: float) -> str | None:
    """Return a text of the format, always the same for the same key."""
    digest = hashlib.sha256(key.encode()).digest()
    maker = _MAKERS.get(name)
    return None if maker is None else maker(digest, timestamp)


def make_uuid(key: str) -> str:
    """Derive a UUID from a text."""
    return _uuid(hashlib.sha256(key.encode()).digest(), 0)


def _is_date_time(text: str) -> bool:
    # Python 3.11 accepts more than RFC 3339 allows, so the pattern is checked first.
    if not _DATE_TIME.fullmatch(text):
        return False
    datetime.fromisoformat(re.sub(r"\.\d+", "", text.upper()).replace("Z", "+00:00"))
    return True


_CHECKS: Mapping[str, Callable[[str], Any]] = {
    "date-time": _is_date_time,
    "date": lambda text: len(text) == 10 and date.fromisoformat(text),
    "email": _EMAIL.fullmatch,
    "uuid": lambda text: len(text) == 36 and uuid.UUID(text),
    "uri": _URI.fullmatch,
    "url": _URI.fullmatch,
    "hostname": _HOSTNAME.fullmatch,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
}
# "byte" is not checked: real base64 often has line ends and wrong padding.


def _uuid(digest: bytes, _timestamp: float) -> str:
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _name(digest: bytes) -> str:
    return digest.hex()[:8]


_MAKERS: Mapping[str, Callable[[bytes, float], str]] = {
    "date-time": lambda _, timestamp: date_time(timestamp),
    "date": lambda _, timestamp: date_time(timestamp)[:10],
    "time": lambda _, timestamp: date_time(timestamp)[11:],
    "duration": lambda digest, _: f"PT{1 + digest[0] % 59}M",
    "email": lambda digest, _: f"user-{_name(digest)}@example.com",
    "uuid": _uuid,
    "uri": lambda digest, _: f"https://example.com/{_name(digest)}",
    "url": lambda digest, _: f"https://example.com/{_name(digest)}",
    "uri-reference": lambda digest, _: f"/{_name(digest)}",
    "hostname": lambda digest, _: f"{_name(digest)}.example.com",
    "ipv4": lambda digest, _: f"192.0.2.{digest[0]}",
    "ipv6": lambda digest, _: f"2001:db8::{digest.hex()[:4].lstrip('0') or '1'}",
    "byte": lambda digest, _: base64.b64encode(digest[:9]).decode(),
    "binary": lambda digest, _: _name(digest),
    "password": lambda digest, _: digest.hex()[:16],
    "json-pointer": lambda digest, _: f"/{_name(digest)}",
}
