"""Formats that many APIs share."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MAX_EMAIL_ADDRESS = 320
_MAX_DIGITS = 9  # more than any page or limit has, and few enough for every reader of integers
_ATOM = r"[^\s<>()\[\],;:\\\"@\x00-\x1f\x7f]+"
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*"'
_EMAIL_ADDRESS = re.compile(rf"(?:{_ATOM}|{_QUOTED})@(?:{_ATOM}|\[[0-9A-Za-z.:]+\])")


def is_email_address(text: str) -> bool:
    """Return whether mail could be sent to this address at all."""
    return len(text) <= MAX_EMAIL_ADDRESS and _EMAIL_ADDRESS.fullmatch(text) is not None


def iso_timestamp(seconds: float) -> str:
    """Return a time as `2026-01-01T09:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def whole_number(text: str | None) -> int | None:
    """Return a number from 0 on that is written in digits, or None for any other text."""
    if not text or len(text) > _MAX_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)
