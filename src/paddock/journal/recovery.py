"""The state that a crashed writer left behind: the whole records, and the torn end that is to be
cut.

Only an end may be cut. Damage with whole records after it is not a crash's, and is refused.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec

from paddock.journal.codec import decode
from paddock.journal.integrity.keys import PublicKey
from paddock.journal.records import Chain, ChainBroken, line_end, read_back
from paddock.journal.segments import segment_number, segments
from paddock.model.errors import Conflict, IntegrityError, InvalidInput
from paddock.model.events import Closed, Head, Opened, Recovered
from paddock.objects.line_file import batches


class InterruptedJournal(msgspec.Struct, frozen=True):
    """A journal that can go on after `size` bytes of `segment`."""

    run: str
    chain: Chain
    segment: Path
    size: int
    last_at: int
    cut: Recovered  # the event that says so


def examine(directory: Path, key: PublicKey) -> InterruptedJournal:
    """Read the whole journal. Raises IntegrityError if it is not as a crash leaves it, and Conflict
    if it was closed."""
    paths = segments(directory)
    if [segment_number(path) for path in paths] != list(range(1, len(paths) + 1)):
        raise IntegrityError(f"{directory}: a segment is missing; verify the journal")
    read = _Reading()
    for path in paths:
        read.segment(path)
    if not read.first:
        raise InvalidInput(f"{directory} has no whole record: the run never began")
    opened = _opened(read.first, key)
    if read.is_closed:
        raise Conflict(f"the journal in {directory} is closed")
    cut = Recovered(len(read.torn), sha256(read.torn).hexdigest(), paths[-1].name)
    last_at = decode(read.last).at
    return InterruptedJournal(opened.run, read.chain, paths[-1], read.end, last_at, cut)


class _Reading:
    """The chain as far as it was followed: first and last lines, bytes of the last segment, its
    rest."""

    def __init__(self) -> None:
        self.chain = Chain()
        self.first = self.before = self.last = b""
        self.end = 0
        self.torn = b""

    @property
    def is_closed(self) -> bool:
        """Return whether the run was closed. `closed` and its head come with one write; `closed`
        alone is the torn end of it."""
        return self.before.endswith(line_end(Closed)) and self.last.endswith(line_end(Head))

    def segment(self, path: Path) -> None:
        if self.torn:
            raise IntegrityError(f"{path.name} follows a torn segment; verify the journal")
        self.end = 0
        for batch in batches(path):
            for line in batch.lines:
                self._line(path, line)
            self.torn += batch.torn

    def _line(self, path: Path, line: bytes) -> None:
        if self.torn:
            if read_back(line) is not None:
                raise IntegrityError(
                    f"{path.name}: records follow a damaged one; verify the journal"
                )
            self.torn += line + b"\n"
            return
        try:
            self.chain.follow(line)
        except ChainBroken as broken:
            if broken.n is not None:
                raise IntegrityError(
                    f"{path.name}: record {broken.n} does not follow record"
                    f" {self.chain.size - 1}; verify the journal"
                ) from None
            self.torn = line + b"\n"
            return
        self.first, self.before, self.last = self.first or line, self.last, line
        self.end += len(line) + 1


def _opened(line: bytes, key: PublicKey) -> Opened:
    opened = decode(line).event
    if not isinstance(opened, Opened):
        raise IntegrityError("the first record does not open a run")
    if opened.key_id != key.key_id:
        raise Conflict(f"run {opened.run} is signed with another key than this one")
    return opened
