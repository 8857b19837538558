"""SQLite over many journals: which runs there are, and their steps in pages. Never the truth.

It is brought up to date by reading each journal from where it stopped, by as many processes as
like to; it can be deleted and built again from the journals at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from paddock.journal.codec import decode, tags_of
from paddock.journal.index.rows import (
    SCHEMA,
    SCHEMA_VERSION,
    UPSERT_STEP,
    RunRow,
    StepRow,
    Tally,
)
from paddock.journal.index.terms import configured_terms, opened_terms
from paddock.journal.log import START, RunLog, Spot
from paddock.journal.segments import segment_name
from paddock.model.errors import Conflict, NotFound, PaddockError
from paddock.model.events import Configured, Opened, Record

# Records in one transaction: large enough to be fast, short enough for others to wait for.
_CHUNK = 20_000
_BUSY_S = 60.0
_MAX_STEP = 1 << 53  # JSON has no larger ones, and SQLite no room for much larger ones
_RUN_COLUMNS = (
    "run, directory, agent, stage, policy_digest, started_at, ended_at, last_at, state, "
    "records, steps, kind, parent, forked_at, exit_code, project, verdicts, outcomes, terms"
)
_STEP_COLUMNS = "step, kind, name, effect, verdict, rule, outcome, at, ended_at, segment, offset"


class _Progress(msgspec.Struct, frozen=True):
    """The point up to which a journal is indexed."""

    number: int
    spot: Spot
    state: str
    ended_at: int | None


class _Chunk(msgspec.Struct, frozen=True):
    """Some further records of a journal, as the index has them."""

    tally: Tally
    records: int
    last_at: int
    end: Spot  # where the next record begins


class RunIndex:
    """The index in one file. Its methods may be called from any thread."""

    def __init__(self, path: Path | None) -> None:
        """Without a path the index lies in memory, and is gone when it is closed."""
        self.path = path
        self._guard = threading.RLock()
        if path is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            _prepare(self._db)
            return
        with _alone(path):
            self._db = _opened(path)

    def close(self) -> None:
        with self._guard:
            self._db.close()

    def __enter__(self) -> RunIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, directory: Path) -> int:
        """Read on in one journal and return how many records were new."""
        return sum(iter(lambda: self._read_on(RunLog(directory)), 0))

    def update_all(self, root: Path) -> list[str]:
        """Bring every journal below `root` up to date; return which could not be read, and why."""
        self._forget_vanished()
        troubles = []
        for directory in journals(root):
            try:
                self.update(directory)
            except (PaddockError, OSError) as error:
                troubles.append(f"{directory}: {error}")
        return troubles

    def rebuild(self, root: Path) -> list[str]:
        """Forget everything and read all journals below `root` again."""
        with self._transaction():
            self._db.execute("DELETE FROM steps")
            self._db.execute("DELETE FROM runs")
        return self.update_all(root)

    def runs(
        self,
        *,
        agent: str | None = None,
        project: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[RunRow]:
        """Return the newest runs first; with `project`, those that belong to that directory."""
        rows = self._rows(
            f"SELECT {_RUN_COLUMNS} FROM runs WHERE (?1 IS NULL OR agent = ?1)"  # noqa: S608
            " AND (?2 IS NULL OR project = ?2)"
            " ORDER BY started_at DESC, number DESC LIMIT ?3 OFFSET ?4",
            (agent, project, limit, offset),
        )
        return [_run_row(row) for row in rows]

    def run(self, run: str) -> RunRow:
        rows = self._rows(f"SELECT {_RUN_COLUMNS} FROM runs WHERE run = ?", (run,))  # noqa: S608
        if not rows:
            raise NotFound(f"no run {run} is in the index")
        return _run_row(rows[0])

    def steps(
        self, run: str, *, after: int = -1, limit: int = 100, verdict: str | None = None
    ) -> list[StepRow]:
        """Return a page of steps in their order, from the first number beyond `after` on."""
        rows = self._rows(
            f"SELECT {_STEP_COLUMNS} FROM steps WHERE run = (SELECT number FROM runs"  # noqa: S608
            " WHERE run = ?1) AND step > ?2 AND (?3 IS NULL OR verdict = ?3)"
            " ORDER BY step LIMIT ?4",
            (run, after, verdict, limit),
        )
        return [_step_row(run, row) for row in rows]

    def step(self, run: str, step: int) -> StepRow:
        rows = self.steps(run, after=step - 1, limit=1)
        if not rows or rows[0].step != step:
            raise NotFound(f"run {run} has no step {step} in the index")
        return rows[0]

    def _read_on(self, log: RunLog) -> int:
        """Read one chunk and return how many records it has. What was read is written only if
        nobody else wrote it meanwhile."""
        progress = self._progress(log.directory)
        if progress is not None and _is_cut(log.directory, progress.spot):
            self._forget(log.directory)  # not the file that was indexed
            progress = None
        chunk = _read_chunk(log, progress)
        if not chunk.records:
            return 0
        with self._transaction():
            if self._progress(log.directory) == progress:
                number = self._enter(log) if progress is None else progress.number
                self._write(number, chunk)
                self._write_terms(number, log, chunk.tally.configured)
        return chunk.records

    def _progress(self, directory: Path) -> _Progress | None:
        rows = self._rows(
            "SELECT number, segment, offset, state, ended_at FROM runs WHERE directory = ?",
            (os.fspath(directory),),
        )
        if not rows:
            return None
        number, segment, offset, state, ended_at = rows[0]
        return _Progress(number, Spot(segment, offset), state, ended_at)

    def _enter(self, log: RunLog) -> int:
        opened = log.opened
        for (place,) in self._rows("SELECT directory FROM runs WHERE run = ?", (opened.run,)):
            if os.path.isdir(place):
                raise Conflict(f"run {opened.run} is indexed already, from {place}")
            self._forget(Path(place))
        values = (
            opened.run,
            os.fspath(log.directory),
            opened.agent,
            opened.stage,
            opened.policy_digest,
            log.opening.at,
            *_origin(opened),
            opened.project or opened.cwd,  # older journals have no project
            json.dumps(opened_terms(opened)),
        )
        cursor = self._db.execute(
            "INSERT INTO runs (run, directory, agent, stage, policy_digest, started_at, kind,"
            " parent, forked_at, project, terms, last_at, state, records, steps, verdicts,"
            " outcomes, segment, offset)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 'open', 0, 0, '{}', '{}', 1, 0)",
            values,
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _write(self, number: int, chunk: _Chunk) -> None:
        tally = chunk.tally
        rows = ((number, step, *astuple(row)) for step, row in tally.steps.items())
        self._db.executemany(UPSERT_STEP, rows)
        ((verdicts, outcomes),) = self._rows(
            "SELECT verdicts, outcomes FROM runs WHERE number = ?", (number,)
        )
        self._db.execute(
            "UPDATE runs SET ended_at = ?2, last_at = ?3, state = ?4, records = records + ?5,"
            " steps = (SELECT count(*) FROM steps WHERE run = ?1), verdicts = ?6, outcomes = ?7,"
            " segment = ?8, offset = ?9, exit_code = coalesce(?10, exit_code) WHERE number = ?1",
            (
                number,
                tally.ended_at,
                chunk.last_at,
                tally.state,
                chunk.records,
                _added(verdicts, tally.verdicts),
                _added(outcomes, tally.outcomes),
                chunk.end.segment,
                chunk.end.offset,
                tally.exit_code,
            ),
        )

    def _write_terms(self, number: int, log: RunLog, record: Record | None) -> None:
        if record is None:
            return
        try:
            configured = log.whole(record).event
        except (PaddockError, OSError):
            return  # a blob is gone: its terms are not known, and the run is listed all the same
        if isinstance(configured, Configured):
            self._db.execute(
                "UPDATE runs SET terms = json_patch(?2, terms) WHERE number = ?1",
                (number, json.dumps(configured_terms(configured))),
            )

    def _forget(self, directory: Path) -> None:
        with self._transaction():
            place = (os.fspath(directory),)
            self._db.execute(
                "DELETE FROM steps WHERE run = (SELECT number FROM runs WHERE directory = ?)", place
            )
            self._db.execute("DELETE FROM runs WHERE directory = ?", place)

    def _forget_vanished(self) -> None:
        for (place,) in self._rows("SELECT directory FROM runs", ()):
            if not os.path.isdir(place):
                self._forget(Path(place))

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._guard:
            return self._db.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Do all of it or nothing; a transaction inside another is part of it."""
        with self._guard:
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def journals(root: Path) -> list[Path]:
    """Return the directories below `root` that hold a journal."""
    return sorted(path.parent for path in root.glob(f"*/{segment_name(1)}"))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _opened(path: Path) -> sqlite3.Connection:
    """Return the database; one that is damaged or of another version is made anew."""
    for is_last in (False, True):
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version in (0, SCHEMA_VERSION):
                _prepare(db)
                os.chmod(path, 0o600)
                return db
        except sqlite3.DatabaseError as error:
            if is_last or isinstance(error, sqlite3.OperationalError):
                db.close()
                raise
        except BaseException:
            db.close()
            raise
        db.close()
        for name in (path, f"{path}-wal", f"{path}-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
    raise AssertionError("unreachable: the second try makes a new database")


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")  # what a crash of the host takes is read again
    db.executescript(SCHEMA)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _is_cut(directory: Path, spot: Spot) -> bool:
    try:
        return os.stat(directory / segment_name(spot.segment)).st_size < spot.offset
    except FileNotFoundError:
        return True


def _added(stored: str, new: dict[str, int]) -> str:
    counts = json.loads(stored)
    for name, count in new.items():
        counts[name] = counts.get(name, 0) + count
    return json.dumps(counts, sort_keys=True)


def _read_chunk(log: RunLog, progress: _Progress | None) -> _Chunk:
    """Return what the next records of a journal say."""
    start = progress.spot if progress else START
    tally = Tally(progress.state, progress.ended_at) if progress else Tally()
    tags = tags_of(Tally.EVENTS)
    records, spot, line = 0, start, b""
    for spot, line, (_, step, tag) in itertools.islice(log.scan(start), _CHUNK):
        records += 1
        row = None if step is None else tally.row(step, spot)
        if tag in tags:
            tally.take(decode(line), row)
    if not records:
        return _Chunk(tally, 0, 0, start)
    end = Spot(spot.segment, spot.offset + len(line) + 1)
    return _Chunk(tally, records, decode(line).at, end)


def _origin(opened: Opened) -> tuple[str, str | None, int | None]:
    """Return which kind of run it is, whose past it has, and up to where."""
    kind, lineage = opened.kind or "run", opened.lineage
    if lineage is None:
        return kind, None, None
    is_step = lineage.at is not None and 0 <= lineage.at <= _MAX_STEP
    return kind, lineage.run, lineage.at if is_step else None


def _run_row(row: Sequence[Any]) -> RunRow:
    return RunRow(*row[:-3], *map(json.loads, row[-3:]))


def _step_row(run: str, row: Sequence[Any]) -> StepRow:
    step, kind, name, effect, verdict, rule, outcome, at, ended_at, segment, offset = row
    duration = None if at is None or ended_at is None else ended_at - at
    spot = Spot(segment, offset)
    return StepRow(run, step, kind, name, effect, verdict, rule, outcome, at, duration, spot)
