"""Reads the fields of providers' requests, and says which field is wrong."""

from __future__ import annotations

import base64
import binascii
import re
from email.utils import getaddresses
from typing import Any, TypeVar

import msgspec

from paddock.world.kit import is_email_address
from paddock_services.mail.outbox import MAX_HEADER

T = TypeVar("T")
_PATH = re.compile(r"at `\$\.?(.*)`$")


class FieldError(Exception):
    """A field that cannot be used. `field` is its path, such as `content.0`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def read_fields(body: Any, kind: type[T]) -> T:
    """Return a JSON value as a struct. Raises FieldError for a field of another type."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        path = _PATH.search(str(error))
        field = path[1].replace("[...]", "").replace("[", ".").replace("]", "") if path else ""
        raise FieldError(field, str(error)) from error


def read_addresses(text: str | None, field: str, most: int) -> list[str]:
    """Return the addresses of `Ada <ada@a.example>, ben@b.example`. Raises FieldError."""
    if not text or not text.strip():
        return []
    if len(text) > MAX_HEADER:
        raise FieldError(field, f"Too many addresses in '{field}'.")
    try:
        addresses = [address for _, address in getaddresses([text])]
    except (RecursionError, ValueError, IndexError):
        addresses = []
    if not addresses or not all(is_email_address(address) for address in addresses):
        raise FieldError(field, f"Invalid '{field}' address: '{text[:200]}'.")
    if len(addresses) > most:
        raise FieldError(field, f"Too many addresses in '{field}'.")
    return addresses


def read_base64(text: str, field: str) -> bytes:
    """Return the bytes of an attachment. Raises FieldError."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise FieldError(field, f"The {field} must be base64 encoded.") from None
