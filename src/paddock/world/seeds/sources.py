"""The value of `seed:` in the paddock file, read into documents: JSON and CSV files, written-out
documents, and recipes for generated ones."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.bounded_file import read_bounded
from paddock.world.context import Context
from paddock.world.seeds.documents import MAX_DOCUMENTS, Document, Intake, SeedData

_MAX_PARTS = 100
_HINT = "a path, documents by kind, {file: ...}, {generate: ...}, or a list of those"


def load_seed(seed: Any, context: Context, project: Path, *, takes_sql: bool = False) -> SeedData:
    """Return the documents of a seed. Recipes come last, wherever they stand in a list, so that
    generated documents can refer to the others. With `takes_sql` a file of SQL becomes the document
    `{file: path}` of the kind `sql`. Raises InvalidInput."""
    parts = seed if isinstance(seed, list | tuple) else [seed]
    if len(parts) > _MAX_PARTS:
        raise InvalidInput(f"seed: at most {_MAX_PARTS} parts, here are {len(parts)}")
    intake = Intake()
    recipes = []
    for number, part in enumerate(parts, 1):
        where = f"seed, part {number}" if len(parts) > 1 else "seed"
        if _is_recipe(part):
            recipes.append((part, where))
        else:
            _add_part(part, intake, _FileReader(project, takes_sql, intake), where)
    if recipes:
        from paddock.world.seeds.generator import generate  # Faker takes a while to load

        generate(recipes, intake, context)
    return intake.data


def _is_recipe(part: Any) -> bool:
    # A list below `generate` is documents of a kind with this name.
    return isinstance(part, Mapping) and isinstance(part.get("generate"), str)


def _add_part(part: Any, intake: Intake, files: _FileReader, where: str) -> None:
    match part:
        case str() if part:
            files.read(FileOptions(part), where)
        case Mapping() if isinstance(part.get("file"), str):
            files.read(FileOptions.parse(part, where), where)
        case Mapping():
            for kind, documents in part.items():
                intake.add(kind, documents, where)
        case _:
            raise InvalidInput(f"{where}: is not a seed", hint=_HINT)


MAX_FILE_BYTES = 64 << 20
_MAX_COLUMNS = 1000
_MAX_DIGITS = 300
_FILE_KEYS = frozenset({"file", "kind", "types"})


class FileOptions(msgspec.Struct, frozen=True):
    """A file of a seed."""

    path: str
    kind: str | None = None  # of a CSV file, or of a JSON file that is one list
    types: Mapping[str, str] = {}  # of CSV columns, where the guess is wrong

    @classmethod
    def parse(cls, part: Mapping[str, Any], where: str) -> FileOptions:
        unknown = sorted(str(key) for key in set(part) - _FILE_KEYS)
        if unknown:
            keys = ", ".join(sorted(_FILE_KEYS))
            raise InvalidInput(f"{where}: no word {unknown[0]!r}", hint=f"there are {keys}")
        kind, types = part.get("kind"), part.get("types", {})
        if kind is not None and not isinstance(kind, str):
            raise InvalidInput(f"{where}: kind is not a name")
        if not isinstance(types, Mapping) or not all(name in TYPES for name in types.values()):
            raise InvalidInput(f"{where}: types are {', '.join(TYPES)}, by column")
        return cls(part["file"], kind, types)


class _FileReader(msgspec.Struct, frozen=True):
    """Adds the documents of files to an intake."""

    project: Path  # base of relative paths
    takes_sql: bool
    intake: Intake

    def read(self, options: FileOptions, where: str) -> None:
        path = (self.project / os.path.expanduser(options.path)).absolute()
        match path.suffix.lower():
            case ".json":
                self._read_json(options, path)
            case ".csv":
                kind = options.kind or path.stem
                self.intake.add(kind, _csv_documents(options, path), str(path))
            case ".sql" if self.takes_sql:
                self.intake.add("sql", [{"file": str(path)}], where)
            case ".sql":
                hint = "a service of documents takes JSON or CSV"
                raise InvalidInput(f"{where}: {path.name}: SQL fills a postgres service", hint=hint)
            case _:
                raise InvalidInput(f"{where}: {path.name} is neither .json nor .csv")

    def _read_json(self, options: FileOptions, path: Path) -> None:
        if options.types:
            raise InvalidInput(f"{path}: types are for CSV; JSON says them itself")
        content = _parse_json(path)
        if isinstance(content, list):
            self.intake.add(options.kind or path.stem, content, str(path))
        elif not isinstance(content, dict):
            raise InvalidInput(f"{path}: is neither an object by kind nor a list of documents")
        elif options.kind is not None:
            hint = "leave out kind: the file names its kinds"
            raise InvalidInput(f"{path}: is an object by kind, not a list", hint=hint)
        else:
            for kind, documents in content.items():
                self.intake.add(kind, documents, str(path))


def _parse_json(path: Path) -> Any:
    text = _read_text(path)
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_names,
            parse_constant=_refuse_constant,
            parse_int=_parse_integer,
        )
    except RecursionError:
        raise InvalidInput(f"{path}: is nested too deep") from None
    except ValueError as error:
        raise InvalidInput(f"{path}: is not JSON: {error}") from None


def _unique_names(pairs: list[tuple[str, Any]]) -> Document:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name is there twice in one object")
    return document


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _parse_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:  # parsing takes time quadratic in the length
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _csv_documents(options: FileOptions, path: Path) -> list[Document]:
    header, rows = _csv_rows(path)
    unknown = sorted(set(options.types) - set(header))
    if unknown:
        raise InvalidInput(f"{path}: there is no column {unknown[0]!r} that types speaks of")
    columns = []
    for index, name in enumerate(header):
        cells = [row[index] if index < len(row) else None for row in rows]
        try:
            columns.append(typed_column(name, cells, options.types.get(name)))
        except ValueError as error:
            raise InvalidInput(f"{path}: column {name[:60]!r}: {error}") from None
    return [
        {name: columns[index][number] for index, name in enumerate(header[: len(row)])}
        for number, row in enumerate(rows)
    ]


def _csv_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
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


def _read_text(path: Path) -> str:
    content = read_bounded(path, MAX_FILE_BYTES)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: is not UTF-8 at byte {error.start}") from None


TYPES = ("text", "number", "boolean", "json")
# A column is a number only when nothing is lost by it: "007" and "+49" stay text, and so does
# everything in a column with one of them.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,14})")  # exact in every JSON parser
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,8})\.[0-9]{1,6}")
_ANY_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
# Digits in such columns are a name, not a quantity: another row may have a letter in it.
_IDENTIFIERS = re.compile(r"(?:^|_)(id|ids|phone|zip|zipcode|postcode|postal_code|sku|iban|last4)$")
_BOOLEANS = {"true": True, "false": False}


def typed_column(name: str, cells: Sequence[str | None], type_name: str | None) -> list[Any]:
    """Return the values of a column; None where a row has no cell, or an empty one that is not
    text. The type is guessed if none is given. Raises ValueError for cells of another type."""
    type_name = type_name or _guess_type(name, cells)
    if type_name == "text":
        return list(cells)
    parse = _PARSERS[type_name]
    return [parse(cell) if cell else None for cell in cells]


def _guess_type(name: str, cells: Sequence[str | None]) -> str:
    filled = [cell for cell in cells if cell]
    if not filled or _IDENTIFIERS.search(name.lower()):
        return "text"
    if all(map(_is_number, filled)):
        return "number"
    if all(cell.lower() in _BOOLEANS for cell in filled):
        return "boolean"
    return "text"


def _is_number(cell: str) -> bool:
    if cell == "-0":
        return False
    return bool(_INTEGER.fullmatch(cell) or _DECIMAL.fullmatch(cell))


def _parse_number(cell: str) -> int | float:
    if not _ANY_NUMBER.fullmatch(cell):
        raise ValueError(f"{cell[:40]!r} is no number")
    return int(cell) if cell.lstrip("+-").isdigit() else float(cell)


def _parse_boolean(cell: str) -> bool:
    if cell.lower() not in _BOOLEANS:
        raise ValueError(f"{cell[:40]!r} is neither true nor false")
    return _BOOLEANS[cell.lower()]


def _parse_json_cell(cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        raise ValueError(f"{cell[:40]!r} is not JSON") from None


_PARSERS: dict[str, Callable[[str], Any]] = {
    "number": _parse_number,
    "boolean": _parse_boolean,
    "json": _parse_json_cell,
}
