"""The state of a database as a digest, and what is different between two. Everything is asked as
the world's own role: what an agent made there could run code in a query, and gains nothing."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from paddock.world.changes import Change
from paddock.world.service import StandInFailed
from paddock_services.postgres.cluster import Cluster
from paddock_services.postgres.session import Session, literal, name

_MAX_ROWS = 20_000  # of a table that are compared one by one
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


class State:
    """One database, looked at."""

    def __init__(self, cluster: Cluster, database: str, role: str, ignore: list[str]) -> None:
        self._cluster = cluster
        self._database = database
        self._role = role
        self._session = Session(cluster.run, database, role)
        self._left_out = "ARRAY[" + ",".join(literal(one) for one in ignore) + "]::text[]"
        self._session.run(_SETTINGS)
        self.keys = dict(self._tables())

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def sums(self) -> dict[Table, tuple[str, ...]]:
        """Of each table how many rows, and a digest that does not depend on their order."""
        return {table: self._sum(table) for table in self.keys}

    def sequences(self) -> list[list[str | None]]:
        return self._session.run(_SEQUENCES)

    def schema(self) -> list[str]:
        """The definitions, line by line."""
        done = self._cluster.call(
            "pg_dump", "-s", "--no-owner", "--no-privileges", "--lock-wait-timeout=10000",
            "-h", "/pen", "-U", self._role, self._database,
        )  # fmt: skip
        if done.code != 0:
            raise StandInFailed(f"pg_dump failed: {done.said[-500:]}")
        # Comments have names of roles and versions, \restrict has a random key.
        lines = (line for line in done.said.splitlines() if line.strip())
        return [line for line in lines if not line.startswith(("--", "\\restrict", "\\unrestrict"))]

    def rows(self, table: Table) -> dict[str, dict[str, Any]]:
        """By primary key; rows of a table without one by what is in them."""
        found: dict[str, dict[str, Any]] = {}
        seen: Counter[str] = Counter()
        sql = f"SELECT {self._row()} FROM ONLY {_name(table)} t LIMIT {_MAX_ROWS}"  # noqa: S608  quoted
        for (text,) in self._session.run(sql):
            body = json.loads(text or "{}")
            key = self.keys.get(table)
            id = ",".join(str(body.get(one)) for one in key) if key else _short(text or "")
            seen[id] += 1
            found[id if seen[id] == 1 else f"{id}#{seen[id]}"] = body
        return found

    def _sum(self, table: Table) -> tuple[str, ...]:
        rows = f"SELECT md5(({self._row()})::text) AS h FROM ONLY {_name(table)} t"  # noqa: S608
        joined = "string_agg(h, '' ORDER BY h COLLATE \"C\")"
        sql = f"SELECT count(*), md5(coalesce({joined}, '')) FROM ({rows}) s"  # noqa: S608
        found = self._session.run(sql)
        return tuple(value or "" for value in found[0])

    def _row(self) -> str:
        return f"to_jsonb(t) - {self._left_out}"

    def _tables(self) -> Iterator[tuple[Table, list[str] | None]]:
        for schema, table, key in self._session.run(_TABLES):
            yield (schema or "", table or ""), json.loads(key) if key else None


def digest(state: State) -> str:
    sums = sorted((table, values) for table, values in state.sums().items())
    seen = json.dumps([sums, state.sequences(), state.schema()])
    return hashlib.sha256(seen.encode()).hexdigest()


def changes(before: State, after: State) -> list[Change]:
    """Definitions first, then rows; at most a thousand."""
    found = list(_definitions(before, after))
    old, new = before.sums(), after.sums()
    for table in sorted(old.keys() | new.keys()):
        if old.get(table) != new.get(table):
            found += _row_changes(before, after, table, old.get(table), new.get(table))
        if len(found) >= _MAX_CHANGES:
            break
    return found[:_MAX_CHANGES]


def _definitions(before: State, after: State) -> Iterator[Change]:
    old, new = before.schema(), after.schema()
    if old == new:
        return
    gone = list((Counter(old) - Counter(new)).elements())[:_MAX_LINES]
    come = list((Counter(new) - Counter(old)).elements())[:_MAX_LINES]
    yield Change("schema", "definitions", {"lines": gone}, {"lines": come})


def _row_changes(
    before: State,
    after: State,
    table: Table,
    old: tuple[str, ...] | None,
    new: tuple[str, ...] | None,
) -> list[Change]:
    kind = ".".join(table)
    counts = [None if one is None else int(one[0]) for one in (old, new)]
    if max(count or 0 for count in counts) > _MAX_ROWS:
        rows = [None if count is None else {"rows": count} for count in counts]
        return [Change(kind, "(too many rows to compare)", rows[0], rows[1])]
    was = {} if old is None else before.rows(table)
    now = {} if new is None else after.rows(table)
    ids = [id for id in [*was, *(id for id in now if id not in was)] if was.get(id) != now.get(id)]
    return [Change(kind, id, was.get(id), now.get(id)) for id in sorted(ids)[:_MAX_CHANGES]]


def _name(table: Table) -> str:
    return f"{name(table[0])}.{name(table[1])}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
