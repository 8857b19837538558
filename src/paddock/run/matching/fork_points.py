"""At which steps a second future can begin: where all that comes before has its answer on record.
What was still under way then is answered first: nothing that an agent asked for earlier depends on
what it asks for later.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from paddock.run.matching.recorded_step import RecordedStep

_MAX_STEPS = 20  # that are named


class NotForkable(msgspec.Struct, frozen=True):
    """Why a fork cannot begin at a step, and at which ones nearby it can."""

    why: str
    instead: tuple[int, ...]  # the nearest before and after, where there are any


def check_forkable(rows: Sequence[RecordedStep], k: int) -> NotForkable | None:
    """Return why a fork cannot begin at step k; None if it can. The step after the last one is a
    place to begin as well."""
    forkable = places(rows)
    if k in forkable:
        return None
    before = [step for step in forkable if step < k]
    after = [step for step in forkable if step > k]
    return NotForkable(_reason(_ordered(rows), k), (*before[-1:], *after[:1]))


def places(rows: Sequence[RecordedStep]) -> list[int]:
    """Return all steps before which everything has its answer, in order."""
    ordered = _ordered(rows)
    numbers = []
    for row in ordered:
        if row.within is None:
            numbers.append(row.number)
        if _is_answered_by_record(row) and not row.is_answerable:
            return numbers
    return [*numbers, ordered[-1].number + 1 if ordered else 1]


def _ordered(rows: Sequence[RecordedStep]) -> list[RecordedStep]:
    return sorted(rows, key=lambda row: row.number)


def _reason(ordered: Sequence[RecordedStep], k: int) -> str:
    last = ordered[-1].number if ordered else 0
    if not 1 <= k <= last + 1:
        return f"the record has steps 1 to {last}"
    at = next((row for row in ordered if row.number == k), None)
    if at is not None and at.within is not None:
        return f"step {k} is part of the answer of step {at.within}"
    past = [row for row in ordered if row.number < k and _is_answered_by_record(row)]
    unkept = [row.number for row in past if not row.is_answerable]
    if not unkept:
        return f"the record has no step {k}"
    names = ", ".join(map(str, unkept[:_MAX_STEPS]))
    return f"the journal does not have the answer of step{'' if len(unkept) == 1 else 's'} {names}"


def _is_answered_by_record(row: RecordedStep) -> bool:
    return row.is_candidate and not row.is_contained
