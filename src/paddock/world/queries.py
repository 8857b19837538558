"""Documents as JSON text, conditions on them as SQL, and copies of whole files, for the store."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput

MAX_DOCUMENT = 16 << 20
MAX_DEPTH = 200  # SQLite reads no JSON deeper than 1000; one such document breaks every search
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode_document(document: Any) -> str:
    """Return the JSON text. Raises InvalidInput for what cannot be stored: infinity, lone
    surrogates, too deep or too long; an agent may send any of these."""
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
    """Return the nesting depth, or 0 where it cannot exceed MAX_DEPTH."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    in_string = is_escaped = False
    for letter in text:
        if in_string:
            in_string = is_escaped or letter != '"'
            is_escaped = letter == "\\" and not is_escaped
        elif letter == '"':
            in_string = True
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
    """Return whether the text can be encoded; a lone surrogate cannot, so no document has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def field_value(field: str) -> str:
    """Return SQL for the JSON text of a field. Comparing the text keeps 1 apart from true and an
    object apart from a string, and a zero byte ends nothing."""
    name = _ENCODER.encode(field)[1:-1]  # SQLite compares escaped names
    if '"' in field or not is_text(field):
        raise InvalidInput(f"{field!r} is no name of a field")
    path = f'$."{name}"'
    return f"(body -> {quoted(path)})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def where_clause(kind: str, where: Mapping[str, Any] | None) -> tuple[str, list[Any]]:
    # The kind is a literal, because SQLite uses the partial index of a kind only then.
    if "\0" in kind or not is_text(kind):
        raise InvalidInput(f"{kind!r} is no kind of document")
    clauses, values = [f"kind = {quoted(kind)}"], []
    for field, value in (where or {}).items():
        json_text = field_value(field)
        if value is None:
            clauses.append(f"({json_text} IS NULL OR {json_text} = 'null')")
            continue
        try:
            values.append(encode_document(value))
        except InvalidInput:
            clauses.append("0")  # no document has it
        else:
            clauses.append(f"{json_text} = ?")
    return " AND ".join(clauses), values


def copy_file(source: Path, target: Path) -> None:
    """Copy a file in the kernel, sharing blocks where the file system can."""
    with source.open("rb") as reading, target.open("xb") as writing:
        try:
            _copy(reading.fileno(), writing.fileno())
        except BaseException:
            target.unlink()  # a partial copy would block the next attempt
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
