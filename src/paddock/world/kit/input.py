"""Reads what an agent sends: never more than a bound, and nothing that the store cannot keep.

A value that these functions return can be written as a document. Text from elsewhere in a request
may hold halves of characters, which cannot; `replace_surrogates` takes them out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl

import msgspec

if TYPE_CHECKING:
    from starlette.datastructures import UploadFile
    from starlette.requests import Request

# SQLite gives up on JSON that is nested 1000 deep, and one such document spoils every search.
MAX_DEPTH = 64
MAX_FIELDS = 1000
MAX_FILES = 100


class RequestError(Exception):
    """A request that no handler can answer. `Api.refuse` words the answer."""

    status: ClassVar[int] = 400


class TooLarge(RequestError):
    """The body has more bytes than the service accepts."""

    status = 413


class MalformedRequest(RequestError):
    """The body or the query is not what its content type says."""


class UnknownPath(RequestError):
    """No route has this method and path."""

    status = 404


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
        """Return the first value of a field, or an empty text."""
        return self.fields.get(name, [""])[0]


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the whole body. Raises TooLarge as soon as it has more than `max_bytes`."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > max_bytes:
            raise TooLarge(f"the body has more than {max_bytes} bytes")
    return bytes(data)


def parse_json(data: bytes | str) -> Any:
    """Return a value that can be written as JSON again. Raises MalformedRequest."""
    try:
        value = json.loads(data)
        # Python reads infinity and halves of characters, which the store cannot keep.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise MalformedRequest("the body is not JSON") from error
    if _is_deeper(value, MAX_DEPTH):
        raise MalformedRequest(f"the body is nested deeper than {MAX_DEPTH} levels")
    return value


def parse_query(text: str) -> list[tuple[str, str]]:
    """Return the names and values of a query or of a form in the same format. Raises
    MalformedRequest."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise MalformedRequest(f"there are more than {MAX_FIELDS} parameters") from error
    return [(replace_surrogates(name), replace_surrogates(value)) for name, value in pairs]


def parse_form(data: bytes) -> Form:
    """Return a form in the format of a query. Raises MalformedRequest."""
    form = Form()
    for name, value in parse_query(data.decode("utf-8", "replace")):
        form.fields.setdefault(name, []).append(value)
    return form


async def read_multipart(content_type: str, data: bytes) -> Form:
    """Return a form with files. Raises MalformedRequest."""
    from starlette.datastructures import Headers, UploadFile
    from starlette.formparsers import MultiPartException, MultiPartParser

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
        parsed = await parser.parse()
    except (MultiPartException, ValueError, UnicodeError) as error:
        raise MalformedRequest("the body is not a multipart form") from error
    form = Form()
    for name, value in parsed.multi_items():
        field = replace_surrogates(name)
        if isinstance(value, UploadFile):
            form.files.append(_upload(field, value))
        else:
            form.fields.setdefault(field, []).append(replace_surrogates(value))
    return form


def replace_surrogates(text: str) -> str:
    """Return the text with a question mark for each half of a character, which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _is_deeper(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in value)


def _upload(field: str, part: UploadFile) -> Upload:
    with part.file as file:
        data = file.read()
    filename = replace_surrogates(part.filename or "")
    content_type = replace_surrogates(part.content_type or "application/octet-stream")
    return Upload(field, filename, content_type, data)
