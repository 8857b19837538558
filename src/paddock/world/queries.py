"""Documents as text, conditions on them as SQL, and copies of whole files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput

MAX_DOCUMENT = 16 << 20
MAX_DEPTH = 200  # SQLite reads no JSON beyond 1000, and one such document would break every search
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def text_of(document: Mapping[str, Any]) -> str:
    text = _ENCODER.encode(document)
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
    if not kind or kind.startswith("#"):
        raise InvalidInput(f"{kind!r} is no kind of document")


def field_path(field: str) -> str:
    if '"' in field:
        raise InvalidInput(f"{field!r} is no name of a field")
    return f'$."{field}"'


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def where_clause(kind: str, where: Mapping[str, Any] | None) -> tuple[str, list[Any]]:
    # The kind is written out: only then does SQLite use the index of that kind.
    clauses, values = [f"kind = {quoted(kind)}"], []
    for field, value in (where or {}).items():
        found = f"json_extract(body, {quoted(field_path(field))})"
        if value is None:
            clauses.append(f"{found} IS NULL")
        else:
            clauses.append(f"{found} = ?")
            values.append(int(value) if isinstance(value, bool) else value)
    return " AND ".join(clauses), values


def copy_file(source: Path, target: Path) -> None:
    """A copy that shares its blocks where the file system can, made by the kernel where not."""
    with source.open("rb") as reading, target.open("xb") as writing:
        left = os.fstat(reading.fileno()).st_size
        while left:
            try:
                done = os.copy_file_range(reading.fileno(), writing.fileno(), left)
            except OSError:
                done = os.sendfile(writing.fileno(), reading.fileno(), None, left)
            if not done:
                break
            left -= done
