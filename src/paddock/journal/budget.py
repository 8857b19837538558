"""The budget of one run: how many bytes an agent can make Paddock store.

Everything that a run stores is counted here. There are two kinds of it:

1. Values (bodies, output, arguments, messages, drafts, earlier versions of files): `take` says
   whether one still fits. What does not is left out, and its record has its digest and its size.
2. Records: they are always written, because an action that is not on record must not happen. They
   count for the same limit; beyond it they are short, and `MAX_BEYOND` bytes of them end the run.
"""

from __future__ import annotations

import threading

from paddock.model.sizes import DEFAULT_RECORD_BUDGET

# What the records of a run may take when its budget is used up: more than a million of them.
MAX_BEYOND = 1 << 30
_BLOCK_BYTES = 4096


class RecordBudget:
    """Counts the bytes that a run has stored, and says when to keep only digests and sizes.

    One object is shared by everything that stores what an agent sends or writes: captured bodies,
    drafts, approvals, arguments and earlier versions of files. All calls are thread-safe.
    """

    def __init__(self, limit: int = DEFAULT_RECORD_BUDGET, max_beyond: int | None = None) -> None:
        self.limit = limit
        self._max_beyond = MAX_BEYOND if max_beyond is None else max_beyond
        self._used = 0
        self._left_out = 0
        self._left_out_bytes = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Return the number of bytes taken so far; only records take more than the limit."""
        return self._used

    @property
    def left_out(self) -> int:
        """Return how many values did not fit."""
        return self._left_out

    @property
    def left_out_bytes(self) -> int:
        """Return how many bytes those values have."""
        return self._left_out_bytes

    @property
    def is_used_up(self) -> bool:
        """Return whether something was left out already, or nothing fits any more."""
        return self._left_out > 0 or self._used >= self.limit

    @property
    def is_over(self) -> bool:
        """Return whether even the records have no room any more, so that the run has to end."""
        return self._used > self.limit + self._max_beyond

    def take(self, size: int) -> bool:
        """Reserve `size` bytes and return True, or return False if they do not fit any more."""
        with self._lock:
            if self._used + size > self.limit:
                self._left_out += 1
                self._left_out_bytes += size
                return False
            self._used += size
            return True

    def take_file(self, size: int) -> bool:
        """Reserve a file of its own, which fills whole blocks of the disk, as `take` does."""
        return self.take(-(-size // _BLOCK_BYTES) * _BLOCK_BYTES)

    def add(self, size: int) -> None:
        """Count bytes that are written in any case: those of a record."""
        with self._lock:
            self._used += size
