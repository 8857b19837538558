"""The kit's input under its earlier names, for stand-ins that are not written with the kit yet."""

from __future__ import annotations

from paddock.world.kit.formats import is_email_address as is_address
from paddock.world.kit.input import Form, TooLarge, Upload, parse_form, parse_json, read_body
from paddock.world.kit.input import MalformedRequest as Malformed
from paddock.world.kit.input import read_multipart as _read_multipart

__all__ = ["Form", "Malformed", "TooLarge", "Upload", "is_address", "parse_json", "read_body"]


async def read_form(content_type: str, data: bytes) -> Form:
    """Return a form in either of its two formats. Raises Malformed."""
    if content_type.lower().startswith("multipart/form-data"):
        return await _read_multipart(content_type, data)
    return parse_form(data)
