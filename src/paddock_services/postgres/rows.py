"""Seed documents as SQL: rows of a table that exists, or that is created to hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.model.errors import InvalidInput
from paddock_services.postgres.session import literal, name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def inserts(table: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return SQL that inserts the rows. A table that does not exist is created with a column for
    each field, of the type that its values have."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for field, value in row.items():
            columns.setdefault(field, []).append(value)
    for identifier in (table, *columns):
        if not _NAME.fullmatch(identifier):
            raise InvalidInput(f"seed: {identifier!r} cannot be a name in a database")
    if not columns:
        return ""
    definitions = ", ".join(
        f"{name(column)} {_type(values)}{_key(column)}" for column, values in columns.items()
    )
    names = ", ".join(name(column) for column in columns)
    data = literal(json.dumps(list(rows)))
    source = f"json_populate_recordset(NULL::{name(table)}, {data}::json)"
    create = f"CREATE TABLE IF NOT EXISTS {name(table)} ({definitions});\n"
    insert = f"INSERT INTO {name(table)} ({names}) SELECT {names} FROM {source};\n"  # noqa: S608
    return create + insert


def _key(column: str) -> str:
    return " PRIMARY KEY" if column == "id" else ""


def _type(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "bigint"
    if kinds and kinds <= {int, float}:
        return "double precision"
    return "jsonb" if kinds & {dict, list} else "text"
