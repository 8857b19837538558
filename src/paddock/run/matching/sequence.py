"""The order of recorded steps. One happens before another if it was answered before the other was
proposed; so whether a step may come is known from one number, the first settling still to come.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from paddock.run.matching.recorded_step import RecordedStep

MAX_NAMED = 20  # steps that somebody is told to wait for


class Turns:
    """Which steps have come, which were answered, and whose turn it is. Rows in `optional` need not
    come: nothing waits for them."""

    def __init__(self, rows: Sequence[RecordedStep], optional: Collection[int]) -> None:
        self._rows = sorted(rows, key=lambda row: row.proposed_n)
        awaited = [row for row in rows if not row.is_unseen and row.number not in optional]
        settled = [row for row in awaited if row.settled_n is not None]
        self._settlings = sorted(settled, key=_place)
        self._optional = optional
        self._come: set[int] = set()
        self._answered: set[int] = set()
        self._first = 0  # of `_rows`: all before it have come
        self._next = 0  # of `_settlings`: all before it were answered

    def has_come(self, row: RecordedStep) -> bool:
        return row.number in self._come

    def is_answered(self, row: RecordedStep) -> bool:
        return row.number in self._answered

    def is_turn(self, row: RecordedStep) -> bool:
        """Return whether everything that happened before the step has been answered."""
        return row.proposed_n < self._horizon

    def may_answer(self, row: RecordedStep) -> bool:
        """Return whether everything that was settled before the step has been answered, and
        everything that was proposed before that has come: what an agent does next may depend on
        which answer it had first."""
        if row.is_contained or row.is_unseen or row.number in self._optional:
            return True
        if row.settled_n is None or row.answer_n > self._horizon:
            return False
        return not any(True for _ in self.still_to_come(row.answer_n))

    def come(self, row: RecordedStep) -> None:
        self._come.add(row.number)
        while self._first < len(self._rows) and self.has_come(self._rows[self._first]):
            self._first += 1

    def answer(self, row: RecordedStep) -> None:
        self._answered.add(row.number)
        ends = self._settlings
        while self._next < len(ends) and self.is_answered(ends[self._next]):
            self._next += 1

    def before(self, n: float) -> tuple[RecordedStep, ...]:
        """Return the first of the unanswered steps that were answered before record n."""
        return tuple(islice(self._open_before(n), MAX_NAMED))

    def still_to_come(self, n: float) -> Iterator[RecordedStep]:
        """Yield the steps that were proposed before record n and have not come."""
        for row in islice(self._rows, self._first, None):
            if row.proposed_n >= n:
                return
            if not self.has_come(row) and row.number not in self._optional:
                yield row

    def next_ones(self) -> Iterator[RecordedStep]:
        """Yield the steps whose turn it is and that have not come, the earliest first."""
        for row in islice(self._rows, self._first, None):
            if not self.is_turn(row):
                return
            if not self.has_come(row) and row.number not in self._optional:
                yield row

    @property
    def _horizon(self) -> float:
        """The first settling of a step that was not answered yet."""
        if self._next >= len(self._settlings):
            return math.inf
        return self._settlings[self._next].answer_n

    def _open_before(self, n: float) -> Iterator[RecordedStep]:
        for row in islice(self._settlings, self._next, None):
            if row.answer_n >= n:
                return
            if not self.is_answered(row):
                yield row


def _place(row: RecordedStep) -> tuple[float, int]:
    """Return the sort key: of several answers that began at the same record, the one that was over
    first."""
    return row.answer_n, row.settled_n or 0
