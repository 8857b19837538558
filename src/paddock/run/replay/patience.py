"""Limits on how long a step is held for others that come first: as long as it took in the record,
and a while longer. An agent that works between two steps works as long again."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from paddock.run.matching.recorded_step import RecordedStep

PATIENCE_S = 10.0  # beyond the record: a busy machine may be slow to start a program


class Patience:
    """Waits as long as something moves, and so long after it has moved last."""

    def __init__(self, moments: Mapping[int, float], more_s: float) -> None:
        """Take when steps were proposed and settled, by record and in their order (`moments`)."""
        self._moments = moments
        self._records = list(moments)
        self._more_s = more_s

    async def waits(self, moved: asyncio.Event, limit_s: float) -> bool:
        """Wait until something moves. Return False when nothing did for long enough."""
        try:
            await asyncio.wait_for(moved.wait(), limit_s)
        except TimeoutError:
            return False
        return True

    def for_answer(self, row: RecordedStep) -> float:
        """Return how long a step that has come may wait to be answered: as long as other steps took
        to come in the record."""
        return self._more_s + self._took(row)

    def for_turn(self, row: RecordedStep | None, waits_for: Iterable[RecordedStep]) -> float:
        """Return how long an early step may wait for those before it to be answered. None stands
        for what follows the past."""
        others = list(waits_for)
        longest = max(map(self._took, others), default=0.0)
        if row is None or not others:
            return self._more_s + longest
        # The first of them may still have to come: it did so a while after what was before it.
        begin = self._before(min(step.proposed_n for step in others))
        until = self._moments.get(row.proposed_n, begin)
        return self._more_s + max(longest, until - begin)

    def _took(self, row: RecordedStep) -> float:
        begin = self._moments.get(row.proposed_n, 0.0)
        end = begin if row.settled_n is None else self._moments.get(row.settled_n, begin)
        return max(0.0, end - begin)

    def _before(self, n: int) -> float:
        """Return when something last happened before a record."""
        index = bisect_left(self._records, n)
        return self._moments[self._records[max(0, index - 1)]] if self._records else 0.0
