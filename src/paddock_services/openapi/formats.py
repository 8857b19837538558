"""The formats of strings: whether a text has one, and a text that has it."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

# Each is tried on a text that an agent chose: no pattern here can backtrack far.
_EMAIL = re.compile(r"[^@\s]{1,256}@[^@\s]{1,256}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,32}:\S+")
_HOST = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63}){0,10}\.?")
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_MAX = 4_096


def is_valid(name: object, text: str) -> bool:
    """Whether a text has the format. Formats that are not known here say nothing."""
    check = _CHECKS.get(name) if isinstance(name, str) else None
    if check is None:
        return True
    try:
        return len(text) <= _MAX and bool(check(text))
    except ValueError:
        return False


def stamp(moment: float) -> str:
    """A moment as date-time."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def example(name: str, key: str, moment: float) -> str | None:
    """A text of the format, always the same for the same key."""
    digest = hashlib.sha256(key.encode()).digest()
    maker = _MAKERS.get(name)
    return None if maker is None else maker(digest, moment)


def make_uuid(key: str) -> str:
    """A UUID that follows from a text."""
    return _uuid(hashlib.sha256(key.encode()).digest(), 0)


def _is_moment(text: str) -> bool:
    # Python 3.11 reads more than RFC 3339 allows; the pattern takes that back.
    if not _STAMP.fullmatch(text):
        return False
    datetime.fromisoformat(re.sub(r"\.\d+", "", text.upper()).replace("Z", "+00:00"))
    return True


def _is_base64(text: str) -> bool:
    base64.b64decode(text, validate=True)
    return True


_CHECKS: Mapping[str, Callable[[str], Any]] = {
    "date-time": _is_moment,
    "date": lambda text: len(text) == 10 and date.fromisoformat(text),
    "email": _EMAIL.fullmatch,
    "uuid": lambda text: len(text) == 36 and uuid.UUID(text),
    "uri": _URI.fullmatch,
    "url": _URI.fullmatch,
    "hostname": _HOST.fullmatch,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
}
# "byte" is not checked: base64 in the wild has line ends, and lengths that do not matter.


def _uuid(digest: bytes, _moment: float) -> str:
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _word(digest: bytes) -> str:
    return digest.hex()[:8]


_MAKERS: Mapping[str, Callable[[bytes, float], str]] = {
    "date-time": lambda _, moment: stamp(moment),
    "date": lambda _, moment: stamp(moment)[:10],
    "time": lambda _, moment: (datetime.min + timedelta(seconds=moment % 86_400)).strftime("%TZ"),
    "duration": lambda digest, _: f"PT{1 + digest[0] % 59}M",
    "email": lambda digest, _: f"user-{_word(digest)}@example.com",
    "uuid": _uuid,
    "uri": lambda digest, _: f"https://example.com/{_word(digest)}",
    "url": lambda digest, _: f"https://example.com/{_word(digest)}",
    "uri-reference": lambda digest, _: f"/{_word(digest)}",
    "hostname": lambda digest, _: f"{_word(digest)}.example.com",
    "ipv4": lambda digest, _: f"192.0.2.{digest[0]}",
    "ipv6": lambda digest, _: f"2001:db8::{digest.hex()[:4].lstrip('0') or '1'}",
    "byte": lambda digest, _: base64.b64encode(digest[:9]).decode(),
    "binary": lambda digest, _: _word(digest),
    "password": lambda digest, _: digest.hex()[:16],
    "json-pointer": lambda digest, _: f"/{_word(digest)}",
}
