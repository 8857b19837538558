"""Documents from JSON and CSV files, with bounds on what is read."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.bounded_file import read_bounded
from paddock.world.seeds.cells import TYPES, typed
from paddock.world.seeds.documents import MAX_DOCUMENTS, Document, Intake

MAX_FILE_BYTES = 64 << 20
_MAX_COLUMNS = 1000
_MAX_DIGITS = 300
_WORDS = frozenset({"file", "kind", "types"})


class FileWords(msgspec.Struct, frozen=True):
    """A file of a seed, and what is said about it."""

    path: str
    kind: str | None = None  # of a CSV file, or of a JSON file that is one list
    types: Mapping[str, str] = {}  # of columns, where a guess is wrong

    @classmethod
    def parse(cls, words: Mapping[str, Any], where: str) -> FileWords:
        unknown = sorted(str(word) for word in set(words) - _WORDS)
        if unknown:
            known = ", ".join(sorted(_WORDS))
            raise InvalidInput(f"{where}: no word {unknown[0]!r}", hint=f"there are {known}")
        kind, types = words.get("kind"), words.get("types", {})
        if kind is not None and not isinstance(kind, str):
            raise InvalidInput(f"{where}: kind is not a name")
        if not isinstance(types, Mapping) or not all(one in TYPES for one in types.values()):
            raise InvalidInput(f"{where}: types are {', '.join(TYPES)}, by column")
        return cls(words["file"], kind, types)


class Place(msgspec.Struct, frozen=True):
    """Where relative paths start from, and whether SQL is welcome there."""

    project: Path
    takes_sql: bool = False


def read_file(words: FileWords, intake: Intake, place: Place, where: str) -> None:
    """Takes in what the file has. Raises InvalidInput."""
    path = (place.project / os.path.expanduser(words.path)).absolute()
    match path.suffix.lower():
        case ".json":
            _take_json(words, path, intake)
        case ".csv":
            kind = words.kind or path.stem
            intake.add(kind, _csv_documents(words, path), str(path))
        case ".sql" if place.takes_sql:
            intake.add("sql", [{"file": str(path)}], where)
        case ".sql":
            hint = "a service of documents takes JSON or CSV"
            raise InvalidInput(f"{where}: {path.name}: SQL fills a postgres service", hint=hint)
        case _:
            raise InvalidInput(f"{where}: {path.name} is neither .json nor .csv")


def _take_json(words: FileWords, path: Path, intake: Intake) -> None:
    if words.types:
        raise InvalidInput(f"{path}: types are for CSV; JSON says them itself")
    content = _parsed(path)
    if isinstance(content, list):
        intake.add(words.kind or path.stem, content, str(path))
    elif not isinstance(content, dict):
        raise InvalidInput(f"{path}: is neither an object by kind nor a list of documents")
    elif words.kind is not None:
        hint = "leave out kind: the file names its kinds"
        raise InvalidInput(f"{path}: is an object by kind, not a list", hint=hint)
    else:
        for kind, documents in content.items():
            intake.add(kind, documents, str(path))


def _parsed(path: Path) -> Any:
    text = _text(path)
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_int=_whole
        )
    except RecursionError:
        raise InvalidInput(f"{path}: is nested too deep") from None
    except ValueError as error:
        raise InvalidInput(f"{path}: is not JSON: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> Document:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice in one object")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:  # reading one takes time that grows with the square of its length
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _csv_documents(words: FileWords, path: Path) -> list[Document]:
    header, rows = _csv_rows(path)
    unknown = sorted(set(words.types) - set(header))
    if unknown:
        raise InvalidInput(f"{path}: there is no column {unknown[0]!r} that types speaks of")
    columns = []
    for at, name in enumerate(header):
        cells = [row[at] if at < len(row) else None for row in rows]
        try:
            columns.append(typed(name, cells, words.types.get(name)))
        except ValueError as error:
            raise InvalidInput(f"{path}: column {name[:60]!r}: {error}") from None
    return [
        {name: columns[at][number] for at, name in enumerate(header[: len(row)])}
        for number, row in enumerate(rows)
    ]


def _csv_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    rows: list[list[str]] = []
    try:
        header = next(reader, [])
        _check_header(header, path)
        for row in reader:
            if len(row) > len(header):
                raise InvalidInput(f"{path}, line {reader.line_num}: more cells than columns")
            if row:
                rows.append(row)
            if len(rows) > MAX_DOCUMENTS:
                raise InvalidInput(f"{path}: a seed has at most {MAX_DOCUMENTS} documents")
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {reader.line_num}: is not CSV: {error}") from None
    return header, rows


def _check_header(header: list[str], path: Path) -> None:
    if not header or not all(header) or len(set(header)) != len(header):
        hint = "the first line names the columns, each once"
        raise InvalidInput(f"{path}: a column has no name, or two have one", hint=hint)
    if len(header) > _MAX_COLUMNS:
        raise InvalidInput(f"{path}: {len(header)} columns, at most {_MAX_COLUMNS}")


def _text(path: Path) -> str:
    content = read_bounded(path, MAX_FILE_BYTES)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: is not UTF-8 at byte {error.start}") from None
