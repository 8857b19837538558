"""The problems that a check of a journal can find, and how kinds of breaks are told apart."""

from __future__ import annotations

import contextlib
import enum
from hashlib import sha256
from pathlib import Path

import msgspec

from paddock.journal.records import Chain, ChainBroken, hash_before, read_back
from paddock.model.errors import IntegrityError
from paddock.model.events import Head
from paddock.model.plural import many
from paddock.objects.line_file import batches


class VerifyFinding(enum.StrEnum):
    """The kinds of problems of a journal."""

    CHANGED = "changed"
    MISSING = "missing"
    INSERTED = "inserted"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    TORN = "torn"
    REWRITTEN = "rewritten"  # a record was changed and all hashes after it made anew
    REPLACED = "replaced"  # another journal than the one that a saved head is of
    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    WRONG_KEY = "wrong key"
    BAD_HEAD = "bad head"
    UNSIGNED = "unsigned"  # no head at all: anybody could have written this
    BLOB_MISSING = "blob missing"
    BLOB_CHANGED = "blob changed"


class Status(enum.StrEnum):
    """The verdict on a journal."""

    ENDED = "ended"  # signed from its first record to its end
    INTERRUPTED = "interrupted"  # sound as far as it is signed; its run did not end, or not yet
    BROKEN = "broken"  # changed, damaged, of somebody else, or not signed


class JournalProblem(msgspec.Struct, frozen=True):
    """One finding and its place: segment, line in it (from 1), number of the record."""

    finding: VerifyFinding
    text: str
    segment: str | None = None
    line: int | None = None
    n: int | None = None
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        places = [self.segment or ""]
        places += [f"line {self.line}"] if self.line else []
        places += [f"record {self.n}"] if self.n is not None else []
        text = f"{', '.join(filter(None, places))}: {self.finding}: {self.text}"
        if self.expected is not None:
            text += f"\n  expected {self.expected}\n  found    {self.found or 'no record'}"
        return text


class VerifyReport(msgspec.Struct, frozen=True):
    """The result of a check. The first `signed` records are covered by a valid head; those after
    them are chained, but whoever can write the file could have added them. A writer that was killed
    may have left `torn_bytes` of a record behind them. The first `usable` records may be acted on:
    those that were signed before a writer recovered what nobody had signed."""

    run: str | None
    records: int
    segments: int
    heads: int
    head: Head | None
    signed: int
    usable: int
    blobs: int
    are_blobs_checked: bool
    is_closed: bool
    torn_bytes: int
    problems: tuple[JournalProblem, ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing contradicts the signatures, however far they reach."""
        return not self.problems

    @property
    def status(self) -> Status:
        if self.problems:
            return Status.BROKEN
        is_whole = self.is_closed and self.signed == self.records
        return Status.ENDED if is_whole else Status.INTERRUPTED

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(map(str, self.problems))
        blobs = many(self.blobs, "blob") + ("" if self.are_blobs_checked else " not checked")
        if self.status is Status.ENDED:
            return (
                f"run {self.run}: {many(self.records, 'record')} intact, all signed"
                f" ({many(self.heads, 'head')}), {blobs}, ended"
            )
        after = self.records - self.signed
        torn = f" and {many(self.torn_bytes, 'byte')} of another" if self.torn_bytes else ""
        return (
            f"run {self.run}: interrupted: {many(self.signed, 'record')} from its beginning on"
            f" intact and signed ({many(self.heads, 'head')}), {blobs};"
            f" {many(after, 'record')}{torn} after that not signed,"
            " and the run has no signed end"
        )


def diagnose(
    broken: ChainBroken, chain: Chain, paths: list[Path], path: Path, line: int
) -> tuple[VerifyFinding, str, int]:
    """Return what happened at a line that does not continue the chain, and to which record."""
    wanted, claimed = chain.size, broken.n
    if claimed is None:
        return VerifyFinding.CHANGED, "the line is not a record", wanted
    later = _Later(paths, path, line)
    if claimed > wanted:
        return _gone(wanted, claimed, later)
    if claimed < wanted:
        text = f"record {claimed} stands where record {wanted} belongs"
        return (
            (VerifyFinding.REORDERED if later.has(wanted) else VerifyFinding.INSERTED),
            text,
            claimed,
        )
    if later.next_hash_before == sha256(b"\x00" + broken.line).hexdigest() and wanted > 0:
        # The record after this one confirms it, so it is the one before that is not what it was.
        return (
            VerifyFinding.CHANGED,
            f"record {wanted - 1} is not the one that was written",
            wanted - 1,
        )
    if wanted == 0 or later.next_hash_before is not None:
        return VerifyFinding.CHANGED, f"record {wanted} is not the one that was written", wanted
    text = f"record {wanted - 1} or {wanted} is not the one that was written"
    return VerifyFinding.CHANGED, text, wanted - 1


def _gone(wanted: int, found: int, later: _Later) -> tuple[VerifyFinding, str, int]:
    if later.has(wanted):
        text = f"record {found} stands before record {wanted}"
        return VerifyFinding.REORDERED, text, found
    last = found - 1
    names = f"record {wanted} is" if last == wanted else f"records {wanted} to {last} are"
    return VerifyFinding.MISSING, f"{names} not there", wanted


class _Later:
    """The claims of the lines after a break. They are read only when there is a break."""

    def __init__(self, paths: list[Path], path: Path, line: int) -> None:
        self._numbers: set[int] = set()
        self.next_hash_before: str | None = None
        # Damage further on is not what is being explained.
        with contextlib.suppress(IntegrityError, OSError):
            self._read(paths[paths.index(path) :], line)

    def has(self, n: int) -> bool:
        return n in self._numbers

    def _read(self, paths: list[Path], skip: int) -> None:
        for path in paths:
            for batch in batches(path):
                for line in batch.lines:
                    if skip > 0:
                        skip -= 1
                        continue
                    self._note(line)

    def _note(self, line: bytes) -> None:
        back = read_back(line)
        if back is None:
            return
        if not self._numbers:
            self.next_hash_before = hash_before(line)
        self._numbers.add(back[0])
