"""Documents as SQL: rows of a table that is there already, or is made from what the rows hold."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from paddock.model.errors import InvalidInput
from paddock_services.postgres.session import literal, name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def inserts(table: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Statements that put the rows into the table. A table that is not there gets a column for each
    field, of the type that its values have."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for field, value in row.items():
            columns.setdefault(field, []).append(value)
    for word in (table, *columns):
        if not _NAME.fullmatch(word):
            raise InvalidInput(f"seed: {word!r} cannot be a name in a database")
    if not columns:
        return ""
    made = ", ".join(f"{name(one)} {_type(values)}{_key(one)}" for one, values in columns.items())
    listed = ", ".join(name(one) for one in columns)
    data = literal(json.dumps(list(rows)))
    source = f"json_populate_recordset(NULL::{name(table)}, {data}::json)"
    made_first = f"CREATE TABLE IF NOT EXISTS {name(table)} ({made});\n"
    filled = f"INSERT INTO {name(table)} ({listed}) SELECT {listed} FROM {source};\n"  # noqa: S608
    return made_first + filled


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
