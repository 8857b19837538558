"""Reads the fields that providers' messages have in common, and says what is wrong with which."""

from __future__ import annotations

import base64
import binascii
from email.utils import getaddresses
from typing import Any

from paddock.world.services.untrusted import is_address
from paddock_services.mail.outbox import MAX_VALUE


class BadField(Exception):
    """A field that cannot be used. `field` is where it is."""

    def __init__(self, field: str, message: str, code: int = 300) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.code = code


def text_at(body: Any, name: str, field: str = "") -> str:
    """A text, or nothing where there is none."""
    value = body.get(name) if isinstance(body, dict) else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadField(field or name, f"The {field or name} must be a string.")
    return value


def list_at(body: Any, name: str, most: int, field: str = "") -> list[Any]:
    """A list, or an empty one where there is none."""
    value = body.get(name) if isinstance(body, dict) else None
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > most:
        raise BadField(field or name, f"The {field or name} must be an array of at most {most}.")
    return value


def addresses_in(text: str, field: str, most: int) -> list[str]:
    """The addresses of `Ada <ada@a.example>, ben@b.example`."""
    if not text.strip():
        return []
    if len(text) > MAX_VALUE:
        raise BadField(field, f"Too many addresses in '{field}'.")
    try:
        found = [address for _, address in getaddresses([text])]
    except (RecursionError, ValueError, IndexError):
        found = []
    if not found or not all(is_address(one) for one in found):
        raise BadField(field, f"Invalid '{field}' address: '{text[:200]}'.")
    if len(found) > most:
        raise BadField(field, f"Too many addresses in '{field}'.")
    return found


def bytes_of(text: str, field: str) -> bytes:
    """The bytes of an attachment."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadField(field, f"The {field} must be base64 encoded.") from None
