"""Takes what an agent sends: not longer than it may be, and fit for the store. What comes out of
here can be kept as a document; nothing else may be."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

# SQLite gives up on JSON that is nested 1000 deep, and one such document spoils every search.
MAX_DEPTH = 64
MAX_FIELDS = 1000
MAX_FILES = 100
MAX_ADDRESS = 320
_ATOM = r"[^\s<>()\[\],;:\\\"@\x00-\x1f\x7f]+"
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*"'
_ADDRESS = re.compile(rf"(?:{_ATOM}|{_QUOTED})@(?:{_ATOM}|\[[0-9A-Za-z.:]+\])")


class TooLarge(Exception):
    """More than a stand-in takes."""


class Malformed(Exception):
    """Not what its content type says."""


class Upload(msgspec.Struct, frozen=True):
    """A file in a form."""

    field: str
    filename: str
    content_type: str
    data: bytes


class Form(msgspec.Struct, frozen=True):
    """The fields of a form, each with all its values, and its files."""

    fields: dict[str, list[str]] = {}
    files: list[Upload] = []

    def first(self, name: str) -> str:
        return self.fields.get(name, [""])[0]


async def read_body(request: Request, most: int) -> bytes:
    """The whole body. Raises TooLarge as soon as it is more than `most` bytes."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise TooLarge(f"more than {most} bytes")
    return bytes(data)


def parse_json(data: bytes | str) -> Any:
    """A value that can be written again as JSON. Raises Malformed."""
    try:
        value = json.loads(data)
        # Finds what Python reads and the store cannot keep: infinity, halves of characters.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Malformed("not JSON that can be kept") from error
    if _is_deeper(value, MAX_DEPTH):
        raise Malformed(f"nested deeper than {MAX_DEPTH}")
    return value


async def read_form(content_type: str, data: bytes) -> Form:
    """A form of either kind. Raises Malformed."""
    if content_type.lower().startswith("multipart/form-data"):
        return await _multipart(content_type, data)
    try:
        pairs = parse_qsl(
            data.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise Malformed("a form with too many fields") from error
    form = Form()
    for name, value in pairs:
        form.fields.setdefault(whole(name), []).append(whole(value))
    return form


def whole(text: str) -> str:
    """The text without halves of characters, which cannot be written down."""
    return text.encode("utf-8", "replace").decode()


def is_address(text: str) -> bool:
    """Whether mail could be sent there at all."""
    return len(text) <= MAX_ADDRESS and _ADDRESS.fullmatch(text) is not None


def _is_deeper(value: Any, most: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return most == 0 or any(_is_deeper(one, most - 1) for one in value)


async def _multipart(content_type: str, data: bytes) -> Form:
    from starlette.datastructures import Headers, UploadFile

    async def stream() -> AsyncGenerator[bytes, None]:
        yield data

    parser = MultiPartParser(
        Headers({"content-type": content_type.encode("latin-1", "replace").decode("latin-1")}),
        stream(),
        max_files=MAX_FILES,
        max_fields=MAX_FIELDS,
        max_part_size=len(data),
    )
    parser.spool_max_size = len(data) + 1  # it is in memory already; a disk would not help
    try:
        read = await parser.parse()
    except (MultiPartException, ValueError, UnicodeError) as error:
        raise Malformed("not a multipart form") from error
    form = Form()
    for name, value in read.multi_items():
        if isinstance(value, UploadFile):
            with value.file as file:
                data = file.read()
            form.files.append(
                Upload(
                    whole(name),
                    whole(value.filename or ""),
                    whole(value.content_type or "application/octet-stream"),
                    data,
                )
            )
        else:
            form.fields.setdefault(whole(name), []).append(whole(value))
    return form
