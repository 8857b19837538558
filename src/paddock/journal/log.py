"""The journal of a run as it is read: events in order, and steps.

`RunLog` is the front of this package for readers. It decodes only the events that were asked for,
so a fold over a long journal pays for what it uses.

Reading is not verifying: hashes are not checked here. A torn end is passed over, because a writer
may be at work or may have crashed; damage before the end is an IntegrityError. A log that is given
what a signature covers reads that and no more: every line is compared with the hash that was
verified, so a file that is changed between the two is found.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from paddock.journal.blobs import Blobs, put_back
from paddock.journal.codec import decode, event_from, tags_of
from paddock.journal.integrity.merkle import HASH_BYTES, leaf_hash
from paddock.journal.nodes import NodeReader
from paddock.journal.records import Back, has_blobs, read_back
from paddock.journal.run_directory import is_held
from paddock.journal.segments import OpenSegments, segment_name, segments
from paddock.model.errors import IntegrityError, NotFound
from paddock.model.events import Closed, EncodedEvent, Event, Head, Opened, Record
from paddock.model.steps import Step
from paddock.objects.line_file import batches

_FOLLOW_S = 0.05  # between two looks at a journal that is being written
_TAIL_BYTES = 2 << 20  # of a segment in which its last head is looked for
_HEAD = Head.TYPE.encode()
MAX_PAGE_RECORDS = 1000  # of one step of a page
# So many records of other steps end the search for those of a page.
_PAGE_SLACK = 300


class Spot(NamedTuple):
    """The place where the line of a record begins."""

    segment: int
    offset: int


START = Spot(1, 0)


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


class RunLog:
    """The journal of one run. It can be read while the run goes on."""

    def __init__(self, directory: Path, covered: Covered | None = None) -> None:
        self.directory = directory
        self.covered = covered
        self.nodes = NodeReader(directory)
        self._blobs = Blobs(directory)
        self._steps: dict[int, list[Spot]] = {}
        self._scanned = START
        segments(directory)  # says now, and clearly, that there is no journal

    @cached_property
    def opening(self) -> Record:
        """Return the first record. Raises NotFound before there is one."""
        for record in self.events():
            return record
        raise NotFound(f"{self.directory} has no whole record yet")

    @property
    def opened(self) -> Opened:
        """Return the first event. Raises IntegrityError if it does not open a run."""
        event = self.opening.event
        if not isinstance(event, Opened):
            raise IntegrityError(f"the first record of {self.directory.name} does not open a run")
        return event

    def events(self, *of: type[Event], since: Spot = START) -> Iterator[Record]:
        """Yield the records with events of these types, or all records, in order."""
        tags = tags_of(of)
        for _, line, back in self.scan(since):
            if of and back[2] not in tags:
                continue
            record = _decoded(line, back)
            if not of or isinstance(record.event, of):
                yield record

    def follow(self, since: Spot = START) -> Iterator[Record]:
        """Yield every record, and new ones as they are written. Ends when the run is closed, or
        when nobody writes to it any more."""
        spot = since
        while True:
            is_written = is_held(self.directory)
            for at, line, back in self.scan(spot):
                spot = Spot(at.segment, at.offset + len(line) + 1)
                record = _decoded(line, back)
                yield record
                if isinstance(record.event, Closed):
                    return
            if not is_written:
                return
            time.sleep(_FOLLOW_S)

    def lines(self) -> Iterator[bytes]:
        """Yield every whole line as it is in the file."""
        return (line for _, line, _ in self.scan(START))

    def scan(self, spot: Spot) -> Iterator[tuple[Spot, bytes, Back]]:
        """Yield whole lines with what their ends say. Damage is passed over only if nothing
        follows."""
        if self.covered is None:
            return self._scan_all(spot)
        return self._scan_covered(spot, self.covered)

    def _scan_covered(self, spot: Spot, covered: Covered) -> Iterator[tuple[Spot, bytes, Back]]:
        expected = 0 if spot == START else None
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
        """Return a piece of a body, checked. Raises NotFound or IntegrityError."""
        return self._blobs.read(digest, limit=size)

    def whole(self, record: Record) -> Record:
        """Return the record with its large values read back and checked. Raises NotFound or
        IntegrityError."""
        if record.encoded is None:
            return record
        body = put_back(record.encoded.body, record.blobs, self._blobs)
        event = event_from(EncodedEvent(record.encoded.type, body))
        return msgspec.structs.replace(record, event=event, encoded=None)

    def whole_step(self, step: Step) -> Step:
        """Return the step with all its large values."""
        return Step(step.number, [self.whole(record) for record in step.records])

    def step_numbers(self) -> list[int]:
        self._scan()
        return sorted(self._steps)

    def step(self, number: int) -> Step:
        """Return one step, wherever its records are."""
        self._scan()
        spots = self._steps.get(number)
        if spots is None:
            raise NotFound(f"run has no step {number}")
        with OpenSegments(self.directory) as files:
            return self._step(files, number, spots)

    def steps(self) -> Iterator[Step]:
        """Yield every step in order of its number."""
        numbers = self.step_numbers()
        with OpenSegments(self.directory) as files:
            for number in numbers:
                yield self._step(files, number, self._steps[number])

    def step_from(self, number: int, spot: Spot) -> Step:
        """Return a step whose first record is known to be at `spot`."""
        scan = self.scan(spot)
        return Step(number, [_decoded(line, back) for _, line, back in scan if back[1] == number])

    def page(self, spots: Mapping[int, Spot]) -> list[Step]:
        """Return steps whose first records are known, each with the records from there to where
        the journal is about others. What comes much later, and what exceeds MAX_PAGE_RECORDS, is
        left out, so a page of a long journal is read quickly."""
        records: dict[int, list[Record]] = {number: [] for number in spots}
        unread = deque(sorted(spots.values()))
        while unread:
            others = 0
            for spot, line, back in self.scan(unread[0]):
                step = back[1]
                while unread and unread[0] <= spot:
                    unread.popleft()
                if step is None or step not in records:
                    others += 1
                    if others > _PAGE_SLACK:
                        break
                    continue
                others = 0
                if len(records[step]) < MAX_PAGE_RECORDS:
                    records[step].append(_decoded(line, back))
            else:
                break
        return [Step(number, own) for number, own in records.items()]

    def record_at(self, spot: Spot) -> Record:
        with OpenSegments(self.directory) as files:
            return self._record(files, spot)

    def last_head(self) -> Head | None:
        """Return the last head that was signed, as the journal has it. It is looked for from the
        end: heads are never far apart."""
        for path in reversed(segments(self.directory)):
            start = max(path.stat().st_size - _TAIL_BYTES, 0)
            lines = [line for batch in batches(path, start) for line in batch.lines]
            for line in reversed(lines):
                back = read_back(line)  # None for the first one, which may be half a line
                if back is None or back[2] != _HEAD or not self._is_covered(back[0], line):
                    continue
                event = decode(line).event
                if isinstance(event, Head):
                    return event
        return None

    def _is_covered(self, n: int, line: bytes) -> bool:
        """Return whether the record is one of those to be read. Raises IntegrityError if it is one
        and was changed after it had been verified."""
        if self.covered is None:
            return True
        if n >= self.covered.size:
            return False
        self.covered.check(n, line)
        return True

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
        record = _decoded(line, read_back(line))
        if self.covered is not None:
            self.covered.check(record.n, line)
        return record


def _decoded(line: bytes, back: Back | None) -> Record:
    """Return the record of a line. Raises IntegrityError for one that says something else about
    itself than its ends do: the chain, the index and `verify` look at nothing but those."""
    record = decode(line)
    if back is None or record.step != back[1] or bool(record.blobs) != has_blobs(line):
        raise IntegrityError(f"record {record.n} is not written as a journal is")
    return record
