"""The journal of a run as it is written: append, make durable, sign, close. Fails closed.

`append` returns when the kernel has the record: it survives the end of this process by any means.
`durable` returns when the disk has it. Any error of the host breaks the journal for good: from then
on every call raises `JournalBroken`, and nothing that was not written whole was acknowledged. A
full disk is a `JournalFull`, and so is a run that has used up all room for its records; whoever has
to end the run then is in `failure_listeners`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from paddock.journal import recovery
from paddock.journal.blobs import SHORT_TEXT, Blobs, set_aside, stored, stored_bytes
from paddock.journal.budget import RecordBudget
from paddock.journal.canonical import canonical_text
from paddock.journal.codec import body_of, decode, encode
from paddock.journal.conversations import Conversations
from paddock.journal.errors import JournalBroken, JournalFull, broken
from paddock.journal.group_commit import GroupCommit
from paddock.journal.hosts import with_host_facts
from paddock.journal.integrity.head_timer import HEAD_TIMER
from paddock.journal.integrity.heads import sign_head
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.nodes import FILE_NAME as NODES_FILE
from paddock.journal.nodes import node_line
from paddock.journal.plain_values import StoredBytes
from paddock.journal.records import Chain
from paddock.journal.run_directory import RunDirectory
from paddock.journal.secrets.mask import Masker
from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.journal.segments import Appender
from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.events import (
    AnyEvent,
    BlobRef,
    BudgetUsedUp,
    Closed,
    Event,
    Head,
    LeftOut,
    Opened,
    Record,
    Recovered,
    Unknown,
)
from paddock.model.sizes import format_size
from paddock.model.space import is_out_of_space
from paddock.objects.pack import Pack

# Only the journal itself writes these, and nobody writes what is not known.
_OWN_EVENTS = (Opened, Head, Recovered, Closed, Unknown)
_MAX_STEP = 1 << 53
_LINE_BYTES = 200  # of a line besides its body: hashes, numbers, time
_generation = 0  # how many forks lie between the first process and this one


def _count_fork() -> None:
    global _generation
    _generation += 1


# Cheaper than to ask for the process id at every record.
os.register_at_fork(after_in_child=_count_fork)


class Rhythm(msgspec.Struct, frozen=True):
    """When a head is signed and when a new segment is begun. What no head covers yet is lost for
    replay and fork when the process is killed, and a signature takes about 100 µs."""

    head_records: int = 1024
    head_us: int = 250_000
    segment_bytes: int = 32 << 20


class JournalEntry(NamedTuple):
    """One event to record. Events of one `extend` are written together or not at all."""

    event: AnyEvent
    step: int | None = None
    text: str | None = None  # the event as `codec.encode` gives it, where that is known already


class _Prepared(NamedTuple):
    kind: str
    text: str
    step: int | None
    blobs: tuple[BlobRef, ...]


class Journal:
    """The one writer of a run's journal. All methods may be called from any thread."""

    def __init__(
        self,
        run_directory: RunDirectory,
        appender: Appender,
        chain: Chain,
        key: SigningKey,
        masker: Masker | None,
        *,
        run: str,
        rhythm: Rhythm,
        budget: RecordBudget | None = None,
    ) -> None:
        self.run = run
        self.directory = run_directory.directory
        self.listeners: list[Callable[[Record], None]] = []  # hear each record, once written
        # Hear once, from any thread, that nothing can be recorded any more. They must not block.
        self.failure_listeners: list[Callable[[HostCannot], None]] = []
        self.budget = budget or RecordBudget()
        self.blobs = Blobs(run_directory.directory, self.budget)
        self.conversations = Conversations(self.keep)
        self._nodes = Pack(run_directory.directory / NODES_FILE)
        self._run_directory = run_directory
        self._appender = appender
        self._chain = chain
        self._key = key
        self._masker = masker
        self._rhythm = rhythm
        self._guard = threading.Lock()  # what is written
        self._flushing = threading.Lock()  # what is on disk; taken before the other
        self._commit = GroupCommit(self._flush)
        self._durable = -1
        self._last_at = 0
        self._head: Head | None = None
        self._unsigned_since: int | None = None  # when the first record that no head covers came
        self._is_timed = False  # whether the head timer looks after this journal
        self._ended: str | None = None
        self._is_closed = False
        self._is_full = False  # what ended it was a lack of room
        self._has_told_budget = self._has_told_full = False
        self._generation = _generation

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        opened: Opened,
        key: SigningKey,
        masker: Masker | None = None,
        rhythm: Rhythm | None = None,
        is_quick: bool = False,
        budget: RecordBudget | None = None,
    ) -> Journal:
        """Return a new journal in a directory that does not exist yet or is empty.

        The format, the key and the host are added to `opened`. The first record is signed at once.
        A quick one does not wait until the disk has it.
        """
        if not opened.run:
            raise InvalidInput("a journal is opened with the name of its run")
        run_directory = RunDirectory.claim_new(directory, key)
        try:
            appender = Appender.first(directory)
        except OSError as error:
            run_directory.release()
            raise broken(f"cannot begin a journal in {directory}", error) from None
        journal = cls(
            run_directory, appender, Chain(), key, masker,
            run=opened.run, rhythm=rhythm or Rhythm(), budget=budget,
        )  # fmt: skip
        first = JournalEntry(with_host_facts(opened, key.public))
        journal._first(journal._prepared(first), is_quick=is_quick)
        return journal

    @classmethod
    def recover(
        cls,
        directory: Path,
        *,
        key: SigningKey,
        masker: Masker | None = None,
        rhythm: Rhythm | None = None,
    ) -> Journal:
        """Goes on with a journal whose writer is gone: cuts a torn end, and records that it did."""
        run_directory = RunDirectory.claim_again(directory, key)
        try:
            interrupted = recovery.examine(directory, key.public)
            appender = Appender.reopened(interrupted.segment, interrupted.size)
        except OSError as error:
            run_directory.release()
            raise broken(f"cannot go on in {directory}", error) from None
        except BaseException:
            run_directory.release()
            raise
        journal = cls(
            run_directory,
            appender,
            interrupted.chain,
            key,
            masker,
            run=interrupted.run,
            rhythm=rhythm or Rhythm(),
        )
        journal._last_at = interrupted.last_at
        journal._first(journal._prepared(JournalEntry(interrupted.cut)))
        return journal

    @property
    def position(self) -> int:
        """Return the number of the last record."""
        return self._chain.size - 1

    @property
    def head(self) -> Head | None:
        """Return the last head that was signed. Saved elsewhere, it proves what was in the
        journal."""
        return self._head

    @property
    def is_broken(self) -> bool:
        return self._ended is not None and not self._is_closed

    def append(self, event: AnyEvent, step: int | None = None) -> int:
        """Write one record and return its number."""
        return self._write([self._prepared(_checked(JournalEntry(event, step)))])

    def extend(self, entries: Iterable[JournalEntry]) -> int:
        """Writes some records with one write and returns the number of the last."""
        prepared = [self._prepared(_checked(entry)) for entry in entries]
        if not prepared:
            raise InvalidInput("there is nothing to append")
        return self._write(prepared)

    def keep(self, value: Mapping[str, Any], keyed: ValueHmac | None = None) -> str:
        """Writes a value beside the records, masked, and answers the digest by which a record may
        name it. It is on disk when that record is. With `keyed`, what was masked is compared by a
        hash."""
        try:
            line = node_line(value, self.blobs, self._masker, keyed)
            with self._guard:
                self._check()
                self._check_room(len(line))
                return self._nodes.put(line)
        except OSError as error:
            with self._guard:
                raise self._broken(error) from None

    def store(self, text: str) -> str:
        """Writes a long text, masked, before the record that will have it in its place. That takes
        its time, and can be done in another thread."""
        if self._masker is not None and not self._masker.is_clean_long(text):
            text = self._masker.mask_text(text)
        try:
            return stored(text, self.blobs)
        except OSError as error:
            with self._guard:
                raise self._broken(error) from None

    def store_bytes(self, data: bytes) -> StoredBytes:
        """Store a piece of a body that is no text, or too long to be one value."""
        if self._masker is not None:
            text = data.decode("utf-8", "surrogateescape")
            if not self._masker.is_clean_long(text):
                data = self._masker.mask_text(text).encode("utf-8", "surrogateescape")
        try:
            return stored_bytes(data, self.blobs)
        except OSError as error:
            with self._guard:
                raise self._broken(error) from None

    def sign(self) -> Head:
        """Signs the tree of all records so far, in the journal, and returns the head."""
        return self._write_signed([])

    def sign_when_due(self) -> bool:
        """Sign a head if records have waited long enough for one. Return False when none waits any
        more, so that the head timer forgets this journal."""
        with self._guard:
            if self._ended is not None or self._unsigned_since is None:
                self._is_timed = False
                return False
            is_due = self._is_head_due()
        if is_due:
            with contextlib.suppress(JournalBroken):  # the next append tells its caller
                self.sign()
        return True

    def sync(self) -> None:
        """Returns when all that was appended before the call is on disk."""
        self._flush()

    async def durable(self, position: int | None = None) -> None:
        """Waits until the record of that number (the last one) is on disk, without blocking."""
        wanted = self.position if position is None else position
        if wanted > self.position:
            raise InvalidInput(
                f"record {wanted} is not in the journal: the last is {self.position}"
            )
        if self._durable < wanted or self.is_broken:
            await self._commit.wait()

    def close(self, ended_by: str | None = None) -> Head:
        """End the journal with a `closed` record and a last head, on disk. It is not reopened."""
        closed = Closed(ended_by, self._left_out())
        head = self._write_signed([self._prepared(JournalEntry(closed))])
        self._flush()
        self._end("the journal is closed", is_closed=True)
        return head

    def _left_out(self) -> LeftOut | None:
        """Return what the last record says of values beyond the budget."""
        if not self.budget.left_out:
            return None
        return LeftOut(self.budget.left_out, self.budget.left_out_bytes)

    def abandon(self) -> None:
        """Lets go of the files as a crash would: no record, and `recover` goes on from there."""
        self._end("the journal was let go")

    def _first(self, prepared: _Prepared, *, is_quick: bool = False) -> None:
        """Writes the record that begins or resumes, under a head; lets go on failure."""
        try:
            self._write_signed([prepared])
            if not is_quick:
                self._flush()
        except BaseException:
            self._end("the journal could not be begun")
            raise

    def _prepared(self, entry: JournalEntry) -> _Prepared:
        """Do everything that needs no order: mask, encode, set large values aside."""
        event = entry.event
        kind = event.TYPE
        text = encode(event) if entry.text is None else entry.text
        body: Mapping[str, Any] | None = None
        if self._masker is not None and not self._masker.is_clean(text):
            body = self._masker.mask(body_of(event))
            text = canonical_text(body)
        if len(text) <= SHORT_TEXT:
            return _Prepared(kind, text, entry.step, ())
        try:
            text, refs = set_aside(body_of(event) if body is None else body, text, self.blobs)
        except OSError as error:
            with self._guard:
                raise self._broken(error) from None
        return _Prepared(kind, text, entry.step, refs)

    def _write(self, prepared: list[_Prepared], *, is_signed: bool = False) -> int:
        """Writes them as they belong together. Whatever interrupts this leaves chain and file
        apart, so it ends the journal."""
        with self._guard:
            self._check()
            if not is_signed:  # the end of a journal has room in any case
                self._check_room(sum(len(entry.text) + _LINE_BYTES for entry in prepared))
                prepared = self._with_budget(prepared)
            try:
                lines = self._lines(prepared)
                position = self._chain.size - 1
                if is_signed or self._is_head_due():
                    lines.append(self._head_line())
                self._put(lines)
                self._tell(lines)
                if self._unsigned_since is not None and not self._is_timed:
                    self._is_timed = True
                    HEAD_TIMER.watch(self)
            except OSError as error:
                raise self._broken(error) from None
            except BaseException as error:
                self._broken(error)
                raise
            return position

    def _write_signed(self, prepared: list[_Prepared]) -> Head:
        self._write(prepared, is_signed=True)
        assert self._head is not None
        return self._head

    def _check_room(self, size: int) -> None:
        """Count a record for the budget. Raises JournalFull when there is no room for any."""
        self.budget.add(size)
        if self.budget.is_over:
            raise self._full()

    def _with_budget(self, prepared: list[_Prepared]) -> list[_Prepared]:
        """Say, once and before the first record that is not whole, that the budget is used up."""
        if self._has_told_budget or not self.budget.left_out:
            return prepared
        self._has_told_budget = True
        event = BudgetUsedUp(self.budget.limit)
        return [_Prepared(event.TYPE, encode(event), None, ()), *prepared]

    def _lines(self, prepared: list[_Prepared]) -> list[bytes]:
        at = self._now()
        if prepared and self._unsigned_since is None:
            self._unsigned_since = at
        link = self._chain.link
        return [link(kind, text, at=at, step=step, blobs=b) for kind, text, step, b in prepared]

    def _head_line(self) -> bytes:
        at = self._now()
        tree = self._chain.tree
        head = sign_head(
            self._key,
            run=self.run,
            size=tree.size,
            root=tree.root(),
            at=at,
            steps=self._chain.steps,
        )
        line = self._chain.link(head.TYPE, encode(head), at=at, step=None)
        self._head = head
        self._unsigned_since = None
        return line

    def _is_head_due(self) -> bool:
        if self._head is None or self._unsigned_since is None:
            return self._head is None
        return (
            self._chain.size - self._head.size > self._rhythm.head_records
            or self._now() - self._unsigned_since > self._rhythm.head_us
        )

    def _put(self, lines: list[bytes]) -> None:
        if self._appender.size >= self._rhythm.segment_bytes:
            self._appender.roll()
        self._appender.write(b"\n".join(lines) + b"\n")

    def _tell(self, lines: list[bytes]) -> None:
        """Tell the listeners of new records. One that fails cannot spoil what has been written."""
        if not self.listeners:
            return
        for record in map(decode, lines):
            for listener in self.listeners:
                with contextlib.suppress(Exception):
                    listener(record)

    def _now(self) -> int:
        """Return the time in microseconds; a clock that was set back stands still here."""
        self._last_at = max(self._last_at, time.time_ns() // 1000)
        return self._last_at

    def _flush(self) -> None:
        with self._flushing:
            with self._guard:
                self._check()
                reached = self.position
                if reached <= self._durable:
                    return
                unflushed = self._appender.take_unflushed()
            try:
                self.blobs.flush()
                self._nodes.flush()
                unflushed.flush()
            except OSError as error:
                # The kernel forgets what it could not write: a second try would seem to succeed.
                with self._guard:
                    raise self._broken(error) from None
            self._durable = reached

    def _check(self) -> None:
        if self._ended is not None:
            kind = JournalFull if self._is_full else JournalBroken
            raise kind(f"journal of run {self.run}: {self._ended}")
        if self._generation != _generation:
            raise JournalBroken(f"journal of run {self.run} belongs to the process that opened it")

    def _broken(self, error: BaseException) -> JournalBroken:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        is_first = self._ended is None
        self._ended = self._ended or f"it cannot be written: {reason}"
        self._is_full = self._is_full or is_out_of_space(error)
        failure = (JournalFull if self._is_full else JournalBroken)(
            f"journal of run {self.run}: {self._ended}",
            hint=f"see that {self.directory} has room and can be written, then recover the run",
        )
        if is_first:
            self.tell_failure(failure)
        return failure

    def _full(self) -> JournalFull:
        """Return the error of a journal that is sound and can be closed, but takes no more
        records."""
        limit = format_size(self.budget.limit)
        failure = JournalFull(
            f"run {self.run} has used up what it may store: its budget of {limit}, and what is"
            " left beyond that for the records themselves",
            hint="give it a larger one: record: {budget: ...} in the paddock file",
        )
        if not self._has_told_full:
            self._has_told_full = True
            self.tell_failure(failure)
        return failure

    def tell_failure(self, failure: HostCannot) -> None:
        """Tell whoever ends the run that it cannot go on."""
        for listener in self.failure_listeners:
            with contextlib.suppress(Exception):
                listener(failure)

    def _end(self, why: str, *, is_closed: bool = False) -> None:
        with self._flushing, self._guard:
            if self._generation != _generation or self._run_directory.is_released:
                return
            self._ended, self._is_closed = self._ended or why, is_closed
            self._appender.close()
            self.blobs.close()
            self._nodes.close()
            self._run_directory.release()


def _checked(entry: JournalEntry) -> JournalEntry:
    if isinstance(entry.event, _OWN_EVENTS) or not isinstance(entry.event, Event):
        raise InvalidInput(f"{type(entry.event).__name__} is not the caller's to record")
    step = entry.step
    if step is not None and (type(step) is not int or not 0 <= step <= _MAX_STEP):
        raise InvalidInput(f"{step!r} is not the number of a step")
    return entry
