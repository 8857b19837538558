"""The state of a database as a digest, and the differences between two databases.

All queries run as the world's own role. What an agent has created in the database may run code in a
query, and gains nothing by it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from paddock.world.changes import DocumentChange
from paddock.world.service import StandInFailed
from paddock_services.postgres.cluster import Cluster
from paddock_services.postgres.session import Session, literal, name

_MAX_ROWS = 20_000  # of one table, to be compared one by one
_MAX_CHANGES = 1000
_MAX_LINES = 200
_TABLES = """
SELECT n.nspname, c.relname,
  (SELECT pg_catalog.json_agg(a.attname ORDER BY a.attnum)
   FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
     ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
   WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence <> 't'
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
"""
_SEQUENCES = """
SELECT schemaname, sequencename, last_value FROM pg_catalog.pg_sequences
ORDER BY schemaname COLLATE "C", sequencename COLLATE "C"
"""
_SETTINGS = (
    "SET search_path = pg_catalog; SET statement_timeout = '60s'; SET lock_timeout = '10s'; "
    "SET timezone = 'UTC'; SET default_transaction_read_only = on"
)
Table = tuple[str, str]


class DatabaseState:
    """A read-only view of one database."""

    def __init__(self, cluster: Cluster, database: str, role: str, ignore: list[str]) -> None:
        self._cluster = cluster
        self._database = database
        self._role = role
        self._session = Session(cluster.run, database, role)
        self._ignored = "ARRAY[" + ",".join(map(literal, ignore)) + "]::text[]"
        self._session.run(_SETTINGS)
        self.keys = dict(self._tables())

    def __enter__(self) -> DatabaseState:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def checksums(self) -> dict[Table, tuple[str, ...]]:
        """Return the row count of each table, and a digest that ignores the order of rows."""
        return {table: self._checksum(table) for table in self.keys}

    def sequences(self) -> list[list[str | None]]:
        return self._session.run(_SEQUENCES)

    def schema(self) -> list[str]:
        """Return the definitions, line by line."""
        dump = self._cluster.call(
            "pg_dump", "-s", "--no-owner", "--no-privileges", "--lock-wait-timeout=10000",
            "-h", "/pen", "-U", self._role, self._database,
        )  # fmt: skip
        if dump.code != 0:
            raise StandInFailed(f"pg_dump failed: {dump.output[-500:]}")
        # Comments contain names of roles and versions, \restrict contains a random key.
        lines = (line for line in dump.output.splitlines() if line.strip())
        return [line for line in lines if not line.startswith(("--", "\\restrict", "\\unrestrict"))]

    def rows(self, table: Table) -> dict[str, dict[str, Any]]:
        """Return the rows by primary key; without one, by a hash of the row."""
        rows: dict[str, dict[str, Any]] = {}
        seen: Counter[str] = Counter()
        sql = f"SELECT {self._row()} FROM ONLY {_quoted(table)} t LIMIT {_MAX_ROWS}"  # noqa: S608  quoted
        for (text,) in self._session.run(sql):
            body = json.loads(text or "{}")
            key = self.keys.get(table)
            if key:
                id = ",".join(str(body.get(column)) for column in key)
            else:
                id = _short_hash(text or "")
            seen[id] += 1
            rows[id if seen[id] == 1 else f"{id}#{seen[id]}"] = body
        return rows

    def _checksum(self, table: Table) -> tuple[str, ...]:
        rows = f"SELECT md5(({self._row()})::text) AS h FROM ONLY {_quoted(table)} t"  # noqa: S608
        joined = "string_agg(h, '' ORDER BY h COLLATE \"C\")"
        sql = f"SELECT count(*), md5(coalesce({joined}, '')) FROM ({rows}) s"  # noqa: S608
        (values,) = self._session.run(sql)
        return tuple(value or "" for value in values)

    def _row(self) -> str:
        return f"to_jsonb(t) - {self._ignored}"

    def _tables(self) -> Iterator[tuple[Table, list[str] | None]]:
        for schema, table, key in self._session.run(_TABLES):
            yield (schema or "", table or ""), json.loads(key) if key else None


def digest(state: DatabaseState) -> str:
    checksums = sorted(state.checksums().items())
    text = json.dumps([checksums, state.sequences(), state.schema()])
    return hashlib.sha256(text.encode()).hexdigest()


def changes(before: DatabaseState, after: DatabaseState) -> list[DocumentChange]:
    """Return changed definitions and then changed rows, at most a thousand."""
    changed = list(_definitions(before, after))
    old, new = before.checksums(), after.checksums()
    for table in sorted(old.keys() | new.keys()):
        if old.get(table) != new.get(table):
            changed += _row_changes(before, after, table, old.get(table), new.get(table))
        if len(changed) >= _MAX_CHANGES:
            break
    return changed[:_MAX_CHANGES]


def _definitions(before: DatabaseState, after: DatabaseState) -> Iterator[DocumentChange]:
    old, new = before.schema(), after.schema()
    if old == new:
        return
    removed = list((Counter(old) - Counter(new)).elements())[:_MAX_LINES]
    added = list((Counter(new) - Counter(old)).elements())[:_MAX_LINES]
    yield DocumentChange("schema", "definitions", {"lines": removed}, {"lines": added})


def _row_changes(
    before: DatabaseState,
    after: DatabaseState,
    table: Table,
    old: tuple[str, ...] | None,
    new: tuple[str, ...] | None,
) -> list[DocumentChange]:
    kind = ".".join(table)
    counts = [None if checksum is None else int(checksum[0]) for checksum in (old, new)]
    if max(count or 0 for count in counts) > _MAX_ROWS:
        rows = [None if count is None else {"rows": count} for count in counts]
        return [DocumentChange(kind, "(too many rows to compare)", rows[0], rows[1])]
    old_rows = {} if old is None else before.rows(table)
    new_rows = {} if new is None else after.rows(table)
    ids = [id for id in old_rows.keys() | new_rows.keys() if old_rows.get(id) != new_rows.get(id)]
    return [
        DocumentChange(kind, id, old_rows.get(id), new_rows.get(id))
        for id in sorted(ids)[:_MAX_CHANGES]
    ]


def _quoted(table: Table) -> str:
    return f"{name(table[0])}.{name(table[1])}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
