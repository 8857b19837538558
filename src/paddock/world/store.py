"""The state of a stand-in: JSON documents in one SQLite file.

Two tables matter. `documents` has the current bodies, in order of creation (`place`). `changes` is
a log: each row has the body as it was *before* the change, and the step that made it. So the state
at any earlier position can be restored exactly (`rewind`), a reset needs no second copy, and a diff
is read from the log. A store survives the death of its process, but perhaps not a power failure.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
import weakref
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

from paddock.model.errors import InvalidInput
from paddock.world.changes import DocumentChange, changes_of, differences
from paddock.world.queries import (
    check_kind,
    copy_file,
    encode_document,
    field_value,
    is_text,
    quoted,
    where_clause,
)

STEP: ContextVar[int | None] = ContextVar("step", default=None)  # recorded with each change
_COUNTER = "#counter"  # counters are documents too: forked, reset and compared like the rest
# Kinds that begin with a dot are stored, forked and rewound, but neither compared nor shown: values
# that a client made up for itself, such as its idempotency keys.
_NOT_HIDDEN = "kind NOT LIKE '.%'"
MAX_BYTES = 2 << 30  # of one store, so that an agent that keeps writing fills no disk
_PAGE = 4096
_BUSY_S = 30.0  # somebody else may be copying a large store
_RETRY_S = 0.002  # SQLite's own waits grow, and may starve behind a busy writer
_NO_TRANSACTION = contextlib.nullcontext()
_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    kind TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS places ON documents (kind, place);
CREATE TABLE IF NOT EXISTS changes (
    at INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER, kind TEXT NOT NULL, id TEXT NOT NULL,
    place INTEGER, body TEXT);
CREATE TABLE IF NOT EXISTS blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class Store:
    """Documents by kind and id. One thread uses a Store; other processes may open the same file."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._depth = 0
        # A store that is garbage-collected closes its connection; Python 3.13 reports open ones.
        self._close = weakref.finalize(self, database.close)

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        mode = "ro" if read_only else "rwc"
        database = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_S,
            cached_statements=256,
        )
        try:
            if not read_only:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = OFF")
                database.execute(f"PRAGMA max_page_count = {MAX_BYTES // _PAGE}")
                database.executescript(_SCHEMA)
            database.execute("PRAGMA temp_store = MEMORY")
            database.execute("PRAGMA cache_size = -32768")
            database.execute("PRAGMA busy_timeout = 0")  # `_begin` waits instead
        except BaseException:
            database.close()
            raise
        return cls(path, database)

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, kind: str, id: str) -> dict[str, Any] | None:
        body = self._body(kind, id)
        return None if body is None else json.loads(body)

    def text(self, kind: str, id: str) -> str | None:
        """Return the document as its canonical JSON text."""
        return self._body(kind, id)

    def has(self, kind: str, id: str) -> bool:
        return self._old(kind, id) is not None

    def put(self, kind: str, id: str, document: Mapping[str, Any]) -> None:
        """Create or replace a document. A replaced one keeps its place in the order."""
        check_kind(kind)
        if not is_text(id):
            raise InvalidInput(f"{id!r} is no id")
        body = encode_document(document)
        with self._atomic():
            self._put(kind, id, body)

    def delete(self, kind: str, id: str) -> bool:
        with self._atomic():
            old = self._old(kind, id)
            if old is None:
                return False
            self._log_change(kind, id, old)
            self._execute("DELETE FROM documents WHERE kind = ? AND id = ?", kind, id)
            return True

    def find(
        self,
        kind: str,
        where: Mapping[str, Any] | None = None,
        *,
        limit: int | None = None,
        after: str | None = None,
        newest_first: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the documents whose top-level fields equal those of `where`, in the order of
        creation. `after` is the id of the last document of the previous page."""
        clauses, values = where_clause(kind, where)
        order, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
        if after is not None:
            if not is_text(after):
                return []
            last = "(SELECT place FROM documents WHERE kind = ? AND id = ?)"
            clauses += f" AND place {beyond} {last}"
            values += [kind, after]
        sql = f"SELECT body FROM documents WHERE {clauses} ORDER BY place {order}"  # noqa: S608
        if limit is not None:
            sql, values = f"{sql} LIMIT ?", [*values, max(0, limit)]
        return [json.loads(row[0]) for row in self._database.execute(sql, values)]

    def ids(self, kind: str) -> list[str]:
        sql = "SELECT id FROM documents WHERE kind = ? ORDER BY place"
        return [row[0] for row in self._database.execute(sql, (kind,))]

    def count(self, kind: str, where: Mapping[str, Any] | None = None) -> int:
        clauses, values = where_clause(kind, where)
        row = self._row(f"SELECT count(*) FROM documents WHERE {clauses}", *values)  # noqa: S608
        return int(row[0]) if row else 0

    def kinds(self) -> list[str]:
        sql = f"SELECT DISTINCT kind FROM documents WHERE kind != ? AND {_NOT_HIDDEN} ORDER BY kind"  # noqa: S608
        return [row[0] for row in self._database.execute(sql, (_COUNTER,))]

    def get_counter(self, name: str) -> int:
        old = self._old(_COUNTER, name)
        return 0 if old is None else int(json.loads(old[1])["value"])

    def next(self, name: str) -> int:
        """Count 1, 2, 3, ... Ids are made of it. Counters are part of the state."""
        with self._atomic():
            value = 1 + self.get_counter(name)
            self._put(_COUNTER, name, f'{{"value":{value}}}')
            return value

    def index(self, kind: str, *fields: str) -> None:
        """Make `find` by these fields fast."""
        for field in fields:
            check_kind(kind)
            name = hashlib.sha256(f"{kind}/{field}".encode()).hexdigest()[:16]
            if self._row("SELECT 1 FROM sqlite_schema WHERE name = ?", f"by_{name}") is not None:
                continue  # a read-only store has it already and could not make it
            with self._atomic():
                self._execute(
                    f"CREATE INDEX IF NOT EXISTS by_{name} ON documents "
                    f"({field_value(field)}, place) WHERE kind = {quoted(kind)}"
                )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Do everything inside or nothing. May be nested. Nothing inside may wait: other requests
        share the connection."""
        savepoint = f"t{self._depth}"
        if self._depth == 0:
            self._begin()
        else:
            self._execute(f"SAVEPOINT {savepoint}")
        self._depth += 1
        try:
            yield
        except BaseException:
            self._depth -= 1
            self._roll_back(savepoint)
            raise
        self._depth -= 1
        try:
            self._execute("COMMIT" if self._depth == 0 else f"RELEASE {savepoint}")
        except BaseException:
            self._roll_back(savepoint)
            raise

    def _begin(self) -> None:
        """Become the only writer, after waiting for the current one."""
        deadline = time.monotonic() + _BUSY_S
        while True:
            try:
                self._execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_S)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read one consistent state inside, whoever writes meanwhile."""
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("ROLLBACK")

    def _roll_back(self, savepoint: str) -> None:
        if not self._database.in_transaction:
            return  # on a full disk SQLite has rolled back already
        if self._depth == 0:
            self._execute("ROLLBACK")
        else:
            self._execute(f"ROLLBACK TO {savepoint}")
            self._execute(f"RELEASE {savepoint}")

    def _atomic(self) -> contextlib.AbstractContextManager[None]:
        """Return a transaction for one change of several statements, or nothing inside of one."""
        return _NO_TRANSACTION if self._depth else self.transaction()

    # Blobs are bytes that are no JSON, such as attachments. They are named by their digest.

    def put_blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        with self._atomic():
            self._execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", digest, data)
        return digest

    def blob(self, digest: str) -> bytes | None:
        row = self._row("SELECT data FROM blobs WHERE digest = ?", digest)
        return None if row is None else bytes(row[0])

    def seal(self) -> None:
        """Make the current state the beginning, to which `reset` returns."""
        with self.transaction():
            self._execute("DELETE FROM changes")
            self._execute("INSERT OR REPLACE INTO facts VALUES ('sealed', ?)", str(self.position()))

    def position(self) -> int:
        """Return the position in the change log, for `rewind`. It grows with each change."""
        row = self._row("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")
        return int(row[0]) if row else 0

    def rewind(self, position: int) -> None:
        """Undo every change after the position. Raises InvalidInput for one before the seal."""
        if not self.sealed <= position <= self.position():
            raise InvalidInput(f"{self.path.name} has no state at position {position}")
        with self.transaction():
            sql = "SELECT kind, id, place, body FROM changes WHERE at > ? ORDER BY at DESC"
            for kind, id, place, body in self._database.execute(sql, (position,)).fetchall():
                self._execute("DELETE FROM documents WHERE kind = ? AND id = ?", kind, id)
                if place is not None:
                    self._execute(
                        "INSERT INTO documents VALUES (?, ?, ?, ?)", kind, id, place, body
                    )
            self._execute("DELETE FROM changes WHERE at > ?", position)
            self._execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'changes'", position)

    def reset(self) -> None:
        """Return to the sealed state."""
        self.rewind(self.sealed)

    @property
    def sealed(self) -> int:
        """The position of the sealed state."""
        row = self._row("SELECT value FROM facts WHERE name = 'sealed'")
        return int(row[0]) if row else 0

    def changes(self, since: int | None = None, until: int | None = None) -> list[DocumentChange]:
        """Return what differs between `since` (by default the seal) and `until` (by default now),
        one change per document, in the order of the first changes."""
        if since is None:
            since = self.sealed
        if until is None:
            until = self.position()
        sql = "SELECT at, step, kind, id, body FROM changes WHERE at > ? ORDER BY at"
        rows = (row for row in self._database.execute(sql, (since,)) if row[2][0] not in "#.")
        return list(changes_of(rows, until, self._body))

    def diff(self, other: Store) -> list[DocumentChange]:
        """Return the documents that are only here, only in `other`, or different."""
        return list(differences(self._all(), other._all()))

    def digest(self) -> str:
        """Return a hash of all documents in their order, counters included."""
        digest = hashlib.sha256()
        for kind, id, body in self._database.execute(
            f"SELECT kind, id, body FROM documents WHERE {_NOT_HIDDEN} ORDER BY kind, place"  # noqa: S608
        ):
            for part in (kind, id, body):
                raw = part.encode()
                digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.hexdigest()

    def fork(self, path: Path) -> Store:
        """Copy the store with its change log. The copy is independent."""
        self.snapshot(path)
        return Store.open(path)

    def snapshot(self, path: Path) -> None:
        """Copy the file while nobody writes.

        The write-ahead log is emptied first, so that the file alone is complete. If a reader
        prevented that, SQLite's backup copies page by page instead.
        """
        if path.exists():
            raise InvalidInput(f"{path} is there already")
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._begin()
        try:
            log = self.path.with_name(self.path.name + "-wal")
            if log.exists() and log.stat().st_size:
                self._copy_by_backup(path)
            else:
                copy_file(self.path, path)
        finally:
            self._execute("ROLLBACK")

    def _copy_by_backup(self, path: Path) -> None:
        with (
            contextlib.closing(connect_read_only(self.path)) as source,
            contextlib.closing(sqlite3.connect(path)) as target,
        ):
            source.backup(target)

    def _put(self, kind: str, id: str, body: str) -> None:
        old = self._old(kind, id)
        self._log_change(kind, id, old)
        if old is not None:
            sql = "UPDATE documents SET body = ? WHERE kind = ? AND id = ?"
            self._execute(sql, body, kind, id)
            return
        # With the plus SQLite does not prepare the statement again for each kind, which is slower.
        row = self._row("SELECT coalesce(max(place), 0) FROM documents WHERE kind = +?", kind)
        place = 1 + row[0]
        self._execute("INSERT INTO documents VALUES (?, ?, ?, ?)", kind, id, place, body)

    def _old(self, kind: str, id: str) -> Any:
        if not (is_text(id) and is_text(kind)):
            return None
        return self._row("SELECT place, body FROM documents WHERE kind = ? AND id = ?", kind, id)

    def _body(self, kind: str, id: str) -> str | None:
        old = self._old(kind, id)
        return None if old is None else old[1]

    def _log_change(self, kind: str, id: str, old: Any) -> None:
        place, body = old or (None, None)
        sql = "INSERT INTO changes (step, kind, id, place, body) VALUES (?, ?, ?, ?, ?)"
        self._execute(sql, STEP.get(), kind, id, place, body)

    def _all(self) -> dict[tuple[str, str], str]:
        sql = "SELECT kind, id, body FROM documents WHERE kind != ? "
        sql += f"AND {_NOT_HIDDEN} ORDER BY kind, place"
        return {(k, i): body for k, i, body in self._database.execute(sql, (_COUNTER,))}

    def _execute(self, sql: str, *values: Any) -> None:
        self._database.execute(sql, values)

    def _row(self, sql: str, *values: Any) -> Any:
        return self._database.execute(sql, values).fetchone()


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a store's file for reading with SQL. The caller closes the connection."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
