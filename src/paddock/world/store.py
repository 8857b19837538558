"""The memory of a stand-in: JSON documents in one SQLite file.

Each change is kept with what was there before, so that the state at any earlier moment can be had
back, exactly. Losing the machine's power may lose the file; losing the process does not.
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
    field_value,
    is_text,
    quoted,
    text_of,
    where_clause,
)

STEP: ContextVar[int | None] = ContextVar("step", default=None)  # that a change belongs to
_COUNTER = "#counter"  # counters are documents too: forked, reset and compared like the rest
# Kinds that begin with a dot are kept, forked and rewound, but are no part of what is compared or
# shown: what a client made up for itself, such as its idempotency keys.
_ASIDE = "kind NOT LIKE '.%'"
MAX_BYTES = 2 << 30  # of one store: an agent that writes for ever fills no disk
_PAGE = 4096
_BUSY_S = 30.0  # as long as somebody else may copy a large store
_AGAIN_S = 0.002  # SQLite itself waits ever longer, and may starve behind a busy writer
_NOTHING = contextlib.nullcontext()
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
    """Documents by kind and id. One thread uses it; another process may have the file open too."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._depth = 0
        # A store that is dropped closes its connection too; Python 3.13 reports open ones.
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
            database.execute("PRAGMA busy_timeout = 0")  # we wait ourselves: see `_begin`
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
        """The document as it is kept: JSON in one spelling."""
        return self._body(kind, id)

    def has(self, kind: str, id: str) -> bool:
        return self._old(kind, id) is not None

    def put(self, kind: str, id: str, document: Mapping[str, Any]) -> None:
        """Creates or replaces. A document that is replaced keeps its place in the order."""
        check_kind(kind)
        if not is_text(id):
            raise InvalidInput(f"{id!r} is no id")
        body = text_of(document)
        with self._whole():
            self._put(kind, id, body)

    def delete(self, kind: str, id: str) -> bool:
        with self._whole():
            old = self._old(kind, id)
            if old is None:
                return False
            self._note(kind, id, old)
            self._run("DELETE FROM documents WHERE kind = ? AND id = ?", kind, id)
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
        """Documents whose top-level fields equal those of `where`, in the order of creation;
        `after` is the id of the last one that was seen."""
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
        sql = f"SELECT DISTINCT kind FROM documents WHERE kind != ? AND {_ASIDE} ORDER BY kind"  # noqa: S608
        return [row[0] for row in self._database.execute(sql, (_COUNTER,))]

    def clear(self, kind: str | None = None) -> None:
        """Deletes all documents of a kind, or of all kinds. Counters go on."""
        with self.transaction():
            for one in self.kinds() if kind is None else [kind]:
                for id in self.ids(one):
                    self.delete(one, id)

    def get_counter(self, name: str) -> int:
        old = self._old(_COUNTER, name)
        return 0 if old is None else int(json.loads(old[1])["value"])

    def next(self, name: str) -> int:
        """Counts 1, 2, 3: what ids are made of. Part of the state."""
        with self._whole():
            value = 1 + self.get_counter(name)
            self._put(_COUNTER, name, f'{{"value":{value}}}')
            return value

    def index(self, kind: str, *fields: str) -> None:
        """Makes `find` by these fields quick."""
        for field in fields:
            check_kind(kind)
            name = hashlib.sha256(f"{kind}/{field}".encode()).hexdigest()[:16]
            if self._row("SELECT 1 FROM sqlite_schema WHERE name = ?", f"by_{name}") is not None:
                continue  # so it was made before, and who only reads need not write
            with self._whole():
                self._run(
                    f"CREATE INDEX IF NOT EXISTS by_{name} ON documents "
                    f"({field_value(field)}, place) WHERE kind = {quoted(kind)}"
                )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; may be nested. Nothing inside may wait: other requests share it."""
        mark = f"t{self._depth}"
        if self._depth == 0:
            self._begin()
        else:
            self._run(f"SAVEPOINT {mark}")
        self._depth += 1
        try:
            yield
        except BaseException:
            self._depth -= 1
            self._go_back(mark)
            raise
        self._depth -= 1
        try:
            self._run("COMMIT" if self._depth == 0 else f"RELEASE {mark}")
        except BaseException:
            self._go_back(mark)
            raise

    def _begin(self) -> None:
        """From here on nobody else writes. Whoever does so now is waited for."""
        until = time.monotonic() + _BUSY_S
        while True:
            try:
                self._run("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(_AGAIN_S)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """All that is read inside is of one moment, whoever writes meanwhile."""
        self._run("BEGIN")
        try:
            yield
        finally:
            self._run("ROLLBACK")

    def _go_back(self, mark: str) -> None:
        if not self._database.in_transaction:
            return  # on a full disk SQLite has gone back already
        if self._depth == 0:
            self._run("ROLLBACK")
        else:
            self._run(f"ROLLBACK TO {mark}")
            self._run(f"RELEASE {mark}")

    def _whole(self) -> contextlib.AbstractContextManager[None]:
        """For one change of several statements: inside a transaction it needs no other."""
        return _NOTHING if self._depth else self.transaction()

    # Bytes that are no document: attachments, objects of a storage. Named by their digest.

    def put_blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        with self._whole():
            self._run("INSERT OR IGNORE INTO blobs VALUES (?, ?)", digest, data)
        return digest

    def blob(self, digest: str) -> bytes | None:
        row = self._row("SELECT data FROM blobs WHERE digest = ?", digest)
        return None if row is None else bytes(row[0])

    def seal(self) -> None:
        """What is there now is the beginning: `reset` comes back to it."""
        with self.transaction():
            self._run("DELETE FROM changes")
            self._run("INSERT OR REPLACE INTO facts VALUES ('sealed', ?)", str(self.position()))

    def position(self) -> int:
        """Grows with each change; `rewind` comes back to it."""
        row = self._row("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")
        return int(row[0]) if row else 0

    def rewind(self, position: int) -> None:
        """Undoes every change after the position. Raises InvalidInput for one before the seal."""
        if not self.sealed <= position <= self.position():
            raise InvalidInput(f"{self.path.name} has no state at position {position}")
        with self.transaction():
            sql = "SELECT kind, id, place, body FROM changes WHERE at > ? ORDER BY at DESC"
            for kind, id, place, body in self._database.execute(sql, (position,)).fetchall():
                self._run("DELETE FROM documents WHERE kind = ? AND id = ?", kind, id)
                if place is not None:
                    self._run("INSERT INTO documents VALUES (?, ?, ?, ?)", kind, id, place, body)
            self._run("DELETE FROM changes WHERE at > ?", position)
            self._run("UPDATE sqlite_sequence SET seq = ? WHERE name = 'changes'", position)

    def reset(self) -> None:
        """Back to the beginning, exactly."""
        self.rewind(self.sealed)

    @property
    def sealed(self) -> int:
        row = self._row("SELECT value FROM facts WHERE name = 'sealed'")
        return int(row[0]) if row else 0

    def changes(self, since: int | None = None, until: int | None = None) -> list[DocumentChange]:
        """What is different at `until` (now) from what was at `since` (the beginning), once a
        document, in the order in which they were first changed."""
        since = self.sealed if since is None else since
        until = self.position() if until is None else until
        sql = "SELECT at, step, kind, id, body FROM changes WHERE at > ? ORDER BY at"
        rows = (row for row in self._database.execute(sql, (since,)) if row[2][0] not in "#.")
        return list(changes_of(rows, until, self._body))

    def diff(self, other: Store) -> list[DocumentChange]:
        """What is in `other` and not here, here and not there, or not the same."""
        return list(differences(self._all(), other._all()))

    def digest(self) -> str:
        """The same for the same documents in the same order, counters included."""
        hashed = hashlib.sha256()
        for kind, id, body in self._database.execute(
            f"SELECT kind, id, body FROM documents WHERE {_ASIDE} ORDER BY kind, place"  # noqa: S608
        ):
            for part in (kind, id, body):
                raw = part.encode()
                hashed.update(len(raw).to_bytes(8, "big") + raw)
        return hashed.hexdigest()

    def fork(self, path: Path) -> Store:
        """A second store that begins with this state and this past. Independent from then on."""
        self.snapshot(path)
        return Store.open(path)

    def snapshot(self, path: Path) -> None:
        """A copy of the file, whole, with nobody writing meanwhile."""
        if path.exists():
            raise InvalidInput(f"{path} is there already")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        self._begin()
        try:
            log = self.path.with_name(self.path.name + "-wal")
            if log.exists() and log.stat().st_size:  # somebody read while it was to be emptied
                self._copy_by_backup(path)
            else:
                copy_file(self.path, path)
        finally:
            self._run("ROLLBACK")

    def restore(self, path: Path) -> None:
        """Takes over the state, the past and the blobs of a snapshot."""
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(source):
            source.backup(self._database)

    def _copy_by_backup(self, path: Path) -> None:
        source = f"{self.path.absolute().as_uri()}?mode=ro"
        with (
            contextlib.closing(sqlite3.connect(source, uri=True)) as reading,
            contextlib.closing(sqlite3.connect(path)) as target,
        ):
            reading.backup(target)

    def _put(self, kind: str, id: str, body: str) -> None:
        old = self._old(kind, id)
        self._note(kind, id, old)
        if old is not None:
            sql = "UPDATE documents SET body = ? WHERE kind = ? AND id = ?"
            self._run(sql, body, kind, id)
            return
        # With the plus the statement is not prepared anew for each kind, which takes longer.
        row = self._row("SELECT max(place) FROM documents WHERE kind = +?", kind)
        place = 1 + (row[0] if row and row[0] is not None else 0)
        self._run("INSERT INTO documents VALUES (?, ?, ?, ?)", kind, id, place, body)

    def _old(self, kind: str, id: str) -> Any:
        if not (is_text(id) and is_text(kind)):
            return None
        return self._row("SELECT place, body FROM documents WHERE kind = ? AND id = ?", kind, id)

    def _body(self, kind: str, id: str) -> str | None:
        old = self._old(kind, id)
        return None if old is None else old[1]

    def _note(self, kind: str, id: str, old: Any) -> None:
        place, body = (None, None) if old is None else old
        sql = "INSERT INTO changes (step, kind, id, place, body) VALUES (?, ?, ?, ?, ?)"
        self._run(sql, STEP.get(), kind, id, place, body)

    def _all(self) -> dict[tuple[str, str], str]:
        sql = "SELECT kind, id, body FROM documents WHERE kind != ? "
        sql += f"AND {_ASIDE} ORDER BY kind, place"
        return {(k, i): body for k, i, body in self._database.execute(sql, (_COUNTER,))}

    def _run(self, sql: str, *values: Any) -> None:
        self._database.execute(sql, values)

    def _row(self, sql: str, *values: Any) -> Any:
        return self._database.execute(sql, values).fetchone()
