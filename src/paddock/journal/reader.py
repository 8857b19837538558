"""A journal as it is read back: records in order, and steps, which are the records of one action.

Reading is not verifying: hashes are not checked here. A torn end is passed over, because a writer
may be at work or may have crashed; damage before the end is an `IntegrityError`.

A reader that is given what a signature covers reads that and no more: it compares every line with
the hash that was verified, so a file that is changed between the two is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from paddock.journal.blobs import Blobs, restored
from paddock.journal.heads import Head
from paddock.journal.merkle import HASH_BYTES, leaf_hash
from paddock.journal.nodes import WrittenNodes
from paddock.journal.records import Back, Record, Type, read_back
from paddock.journal.segments import OpenSegments, batches, segment_name, segments
from paddock.model.errors import IntegrityError, NotFound
from paddock.model.values import dataclass


class Spot(NamedTuple):
    """Where a record's line begins."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Step:
    """All that the journal has on one action. What did not happen (yet) is None or empty."""

    number: int
    records: tuple[Record, ...]

    @property
    def proposed(self) -> Record | None:
        return self._one(Type.PROPOSED)

    @property
    def decided(self) -> Record | None:
        """The decision that held: an action whose arguments were edited is decided again."""
        return self._one(Type.DECIDED)

    @property
    def asked(self) -> Record | None:
        return self._one(Type.ASKED)

    @property
    def answered(self) -> Record | None:
        return self._one(Type.ANSWERED)

    @property
    def settled(self) -> Record | None:
        return self._one(Type.SETTLED)

    @property
    def observed(self) -> tuple[Record, ...]:
        return self._all(Type.OBSERVED)

    @property
    def noted(self) -> tuple[Record, ...]:
        return self._all(Type.NOTED)

    def _one(self, kind: Type) -> Record | None:
        """The last of its type."""
        return next((record for record in reversed(self.records) if record.type is kind), None)

    def _all(self, kind: Type) -> tuple[Record, ...]:
        return tuple(record for record in self.records if record.type is kind)


class Covered:
    """The records of a journal that a signature covers, as the hashes of their lines."""

    __slots__ = ("_leaves", "size")

    def __init__(self, leaves: bytes, size: int) -> None:
        self._leaves = leaves
        self.size = size  # how many records are covered

    @property
    def left_out(self) -> int:
        """Return how many records come after those that are covered."""
        return len(self._leaves) // HASH_BYTES - self.size

    def check(self, n: int, line: bytes) -> None:
        """Raise IntegrityError if the line is not the record `n` that was verified."""
        if self._leaves[n * HASH_BYTES : (n + 1) * HASH_BYTES] != leaf_hash(line):
            raise IntegrityError(f"record {n} was changed after it had been verified")


class Reader:
    """Reads the journal of one run, also while it is written."""

    def __init__(self, directory: Path, covered: Covered | None = None) -> None:
        self.directory = directory
        self.covered = covered
        self.nodes = WrittenNodes(directory)
        self._blobs = Blobs(directory)
        self._steps: dict[int, list[Spot]] = {}
        self._scanned = Spot(1, 0)
        segments(directory)  # says now, and clearly, that there is no journal

    def opened(self) -> Record:
        """The first record: run, agent, policy, format, key, host."""
        for _, record in self.records_from(Spot(1, 0)):
            return record
        raise NotFound(f"{self.directory} has no whole record yet")

    def records(self) -> Iterator[Record]:
        """Every record, in order."""
        return (record for _, record in self.records_from(Spot(1, 0)))

    def records_from(self, spot: Spot) -> Iterator[tuple[Spot, Record]]:
        """Records from that place on, each with its own."""
        return ((at, Record.parse(line)) for at, line in self.lines_from(spot))

    def lines(self) -> Iterator[bytes]:
        """Every whole line, as it is in the file."""
        return (line for _, line in self.lines_from(Spot(1, 0)))

    def lines_from(self, spot: Spot) -> Iterator[tuple[Spot, bytes]]:
        """Whole lines from a place on."""
        return ((at, line) for at, line, _ in self.scan(spot))

    def scan(self, spot: Spot) -> Iterator[tuple[Spot, bytes, Back]]:
        """Whole lines with what their ends say. Damage is passed over only if nothing follows."""
        if self.covered is None:
            return self._scan_all(spot)
        return self._scan_covered(spot, self.covered)

    def _scan_covered(self, spot: Spot, covered: Covered) -> Iterator[tuple[Spot, bytes, Back]]:
        expected = 0 if spot == Spot(1, 0) else None
        for at, line, back in self._scan_all(spot):
            n = back[0]
            if n >= covered.size:
                return
            covered.check(n, line)
            if expected not in (None, n):
                raise IntegrityError(f"record {expected} is gone since it was verified")
            expected = n + 1
            yield at, line, back
            if expected == covered.size:
                return
        if expected not in (None, covered.size):
            raise IntegrityError(f"record {expected} is gone since it was verified")

    def _scan_all(self, spot: Spot) -> Iterator[tuple[Spot, bytes, Back]]:
        number, offset, damage = spot.segment, spot.offset, ""
        while (path := self.directory / segment_name(number)).exists():
            for batch in batches(path, offset):
                offset = batch.offset
                for line in batch.lines:
                    back = read_back(line)
                    if back is None:
                        damage = damage or f"{path.name}, byte {offset}"
                    elif damage:
                        raise IntegrityError(f"{damage} is not a record; verify the journal")
                    else:
                        yield Spot(number, offset), line, back
                    offset += len(line) + 1
                if batch.torn:
                    damage = damage or f"{path.name}, byte {offset}"
            number, offset = number + 1, 0

    def blob(self, digest: str, size: int) -> bytes:
        """A piece of a body, checked. Raises NotFound or IntegrityError."""
        return self._blobs.read(digest, limit=size)

    def body(self, record: Record) -> dict[str, Any]:
        """The body of a record with its large values, read and checked."""
        return restored(record, self._blobs) if record.blobs else record.body

    def step_numbers(self) -> list[int]:
        self._scan()
        return sorted(self._steps)

    def step(self, number: int) -> Step:
        """One step, wherever its records are."""
        self._scan()
        spots = self._steps.get(number)
        if spots is None:
            raise NotFound(f"run has no step {number}")
        with OpenSegments(self.directory) as files:
            return self._step(files, number, spots)

    def steps(self) -> Iterator[Step]:
        """Every step in order of its number."""
        numbers = self.step_numbers()
        with OpenSegments(self.directory) as files:
            for number in numbers:
                yield self._step(files, number, self._steps[number])

    def record_at(self, spot: Spot) -> Record:
        with OpenSegments(self.directory) as files:
            return self._record(files, spot)

    def last_head(self) -> Head | None:
        """The last head that was signed, as the journal has it."""
        last = None
        for line in self.lines():
            if line.endswith(b'"type":"head"}'):
                last = line
        return None if last is None else Head.parse(Record.parse(last).body)

    def _scan(self) -> None:
        """Notes where the records of each step are, from where it stopped last time."""
        for spot, line, (_, step, _) in self.scan(self._scanned):
            if step is not None:
                self._steps.setdefault(step, []).append(spot)
            self._scanned = Spot(spot.segment, spot.offset + len(line) + 1)

    def _step(self, files: OpenSegments, number: int, spots: list[Spot]) -> Step:
        return Step(number, tuple(self._record(files, spot) for spot in spots))

    def _record(self, files: OpenSegments, spot: Spot) -> Record:
        line = files.line(spot.segment, spot.offset)
        record = Record.parse(line)
        if self.covered is not None:
            self.covered.check(record.n, line)
        return record
