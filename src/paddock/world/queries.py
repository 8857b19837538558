"""Documents as text, conditions on them as SQL, and copies of whole files."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput

MAX_DOCUMENT = 16 << 20
MAX_DEPTH = 200  # SQLite reads no JSON beyond 1000, and one such document would break every search
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def text_of(document: Any) -> str:
    """Raises InvalidInput for what is no JSON: an agent may have sent 1e999 or half a character."""
    try:
        text = _ENCODER.encode(document)
        if not text.isascii():
            text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"a document that is no JSON: {error}") from None
    if _depth(text) > MAX_DEPTH:
        raise InvalidInput(f"a document nested deeper than {MAX_DEPTH} levels")
    if len(text) > MAX_DOCUMENT:
        raise InvalidInput(f"a document of {len(text)} characters, at most {MAX_DOCUMENT}")
    return text


def _depth(text: str) -> int:
    """How deep it is nested at most; counted only where it could be too deep."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    is_text = is_escaped = False
    for letter in text:
        if is_text:
            is_text = is_escaped or letter != '"'
            is_escaped = letter == "\\" and not is_escaped
        elif letter == '"':
            is_text = True
        elif letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
    return deepest


def check_kind(kind: str) -> None:
    if not kind or kind.startswith("#") or "\0" in kind or not is_text(kind):
        raise InvalidInput(f"{kind!r} is no kind of document")


def is_text(text: str) -> bool:
    """Half a character (a lone surrogate) cannot be stored, so nothing of the name is there."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def field_value(field: str) -> str:
    """SQL for the JSON of a field as it stands in the document: so 1 is not true, an object is not
    text, and a zero byte ends nothing."""
    name = _ENCODER.encode(field)[1:-1]  # SQLite compares names as they are written
    if '"' in field or not is_text(field):
        raise InvalidInput(f"{field!r} is no name of a field")
    path = f'$."{name}"'
    return f"(body -> {quoted(path)})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def where_clause(kind: str, where: Mapping[str, Any] | None) -> tuple[str, list[Any]]:
    # The kind is written out: only then does SQLite use the index of that kind.
    if "\0" in kind or not is_text(kind):
        raise InvalidInput(f"{kind!r} is no kind of document")
    clauses, values = [f"kind = {quoted(kind)}"], []
    for field, value in (where or {}).items():
        found = field_value(field)
        if value is None:
            clauses.append(f"({found} IS NULL OR {found} = 'null')")
            continue
        try:
            values.append(text_of(value))
        except InvalidInput:
            clauses.append("0")  # no document has it
        else:
            clauses.append(f"{found} = ?")
    return " AND ".join(clauses), values


def copy_file(source: Path, target: Path) -> None:
    """A copy that shares its blocks where the file system can, made by the kernel where not."""
    with source.open("rb") as reading, target.open("xb") as writing:
        try:
            _copy(reading.fileno(), writing.fileno())
        except BaseException:
            target.unlink()  # half of it would be in the way of the next
            raise


def _copy(source: int, target: int) -> None:
    left = os.fstat(source).st_size
    while left:
        try:
            done = os.copy_file_range(source, target, left)
        except OSError:
            done = os.sendfile(target, source, None, left)
        if not done:
            raise OSError(errno.EIO, "the file became shorter while it was copied")
        left -= done
