"""The SQLite file that gates of all processes share: pending approvals, drafts, what was spent.

It holds what is pending between processes. What happened is in the journals.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from paddock.journal.budget import RecordBudget
from paddock.journal.errors import BudgetExceeded
from paddock.model.errors import HostCannot, OutOfSpace
from paddock.model.space import is_out_of_space

_BUSY_MS = 10_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS approvals (
  id TEXT PRIMARY KEY, run TEXT NOT NULL, agent TEXT NOT NULL, step INTEGER NOT NULL,
  content TEXT NOT NULL, digest TEXT NOT NULL, policy TEXT NOT NULL,
  asked_at REAL NOT NULL, expires_at REAL NOT NULL, holder TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending', answered_by TEXT, answered_at REAL, reason TEXT,
  edited TEXT, used_at REAL);
CREATE INDEX IF NOT EXISTS approvals_state ON approvals (state, asked_at);
CREATE TABLE IF NOT EXISTS policies (digest TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS proposals (
  id TEXT PRIMARY KEY, agent TEXT NOT NULL, approval TEXT NOT NULL, made_at REAL NOT NULL,
  made_by TEXT NOT NULL, rule TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS drafts (
  id TEXT PRIMARY KEY, run TEXT NOT NULL, agent TEXT NOT NULL, step INTEGER NOT NULL,
  content TEXT NOT NULL, made_at REAL NOT NULL, state TEXT NOT NULL DEFAULT 'draft',
  changed_at REAL, changed_by TEXT, sent_step INTEGER);
CREATE INDEX IF NOT EXISTS drafts_state ON drafts (state, made_at);
CREATE TABLE IF NOT EXISTS spends (
  id INTEGER PRIMARY KEY, agent TEXT NOT NULL, run TEXT NOT NULL, rule TEXT NOT NULL,
  amount INTEGER NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS spends_window ON spends (agent, rule, at);
CREATE INDEX IF NOT EXISTS spends_run ON spends (run, rule);
"""


class GateStore:
    """A connection for each thread; writes of all processes are one after the other.

    Every connection is closed by name: those of threads that have ended when another one is opened,
    all of them by `close`, or else when the store is collected or the process ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._guard = threading.Lock()
        self._open: list[_Opened] = []
        weakref.finalize(self, _close_all, self._open, self._guard)
        try:
            with self.connection() as connection:
                os.chmod(path, 0o600)
                connection.executescript(_SCHEMA)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for reading or for a single statement. Raises HostCannot for whatever
        fails."""
        try:
            yield self._connection()
        except (sqlite3.Error, OSError) as error:
            kind = OutOfSpace if is_out_of_space(error) else HostCannot
            reason = getattr(error, "strerror", None) or str(error)
            raise kind(f"{self._path} cannot be used: {reason}") from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a transaction that nobody else writes in; undone when the block raises."""
        with self.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connections of this process, of all its threads; the next use opens one."""
        _close_all(self._open, self._guard)
        self._local = threading.local()

    def select(self, table: str, order: str, **wanted: str | None) -> list[sqlite3.Row]:
        """Return rows of a table in that order; each value of `wanted` that is not None or empty
        must be equal."""
        conditions = {name: value for name, value in wanted.items() if value}
        where = " AND ".join(f"{name} = ?" for name in conditions) or "1"
        query = f"SELECT * FROM {table} WHERE {where} ORDER BY {order}"  # noqa: S608
        with self.connection() as connection:
            return connection.execute(query, [*conditions.values()]).fetchall()

    def _connection(self) -> sqlite3.Connection:
        opened: _Opened | None = getattr(self._local, "found", None)
        if opened is None or opened.pid != os.getpid():  # a connection must not cross a fork
            opened = self._local.found = self._opened()
        elif _identity(self._path) != opened.identity:
            # What others see is another file: what they spend and answer would not be seen here.
            raise HostCannot(f"{self._path} was removed or replaced while it was in use")
        return opened.connection

    def _opened(self) -> _Opened:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            opened = _Opened(
                connection, os.getpid(), _identity(self._path), threading.current_thread()
            )
        except BaseException:
            connection.close()
            raise
        _close_all(self._open, self._guard, lambda opened: not opened.thread.is_alive())
        with self._guard:
            self._open.append(opened)
        return opened


def check_fits(budget: RecordBudget | None, content: str, what: str) -> None:
    """Count a text that is stored for a run. Raises BudgetUsedUp when it does not fit."""
    if budget is not None and not budget.take(len(content.encode())):
        raise BudgetExceeded(f"The run has used up what it may store, so {what}.")


class _Opened(msgspec.Struct, frozen=True):
    connection: sqlite3.Connection
    pid: int
    identity: tuple[int, int]
    thread: threading.Thread


def _close_all(
    connections: list[_Opened],
    guard: threading.Lock,
    is_wanted: Callable[[_Opened], bool] = lambda opened: True,
) -> None:
    """Close connections and take them out of the list.

    Those of a parent process stay in it: SQLite forbids to close in a child what came by fork.
    """
    with guard:
        closing = [
            opened for opened in connections if opened.pid == os.getpid() and is_wanted(opened)
        ]
        for opened in closing:
            opened.connection.close()
            connections.remove(opened)


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino
