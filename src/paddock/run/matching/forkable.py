"""At which steps a second future can begin: where all that comes before has its answer on record.
What was still under way then is answered first: nothing that an agent asked for earlier depends on
what it asks for later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paddock.run.matching.rows import NotForkable, Row

_MAX_STEPS = 20  # that are named


def check_forkable(rows: Sequence[Row], k: int) -> NotForkable | None:
    """Why a fork cannot begin at step k; None if it can. The step after the last one is a place to
    begin as well."""
    ordered = sorted(rows, key=lambda row: row.step)
    places = _places(ordered)
    if k in places:
        return None
    before = [step for step in places if step < k]
    after = [step for step in places if step > k]
    why, steps = _reason(ordered, k)
    return NotForkable(k, why, steps[:_MAX_STEPS], (*before[-1:], *after[:1]))


def places(rows: Sequence[Row]) -> list[int]:
    """All steps at which a second future can begin."""
    return _places(sorted(rows, key=lambda row: row.step))


def last_place(rows: Sequence[Row]) -> int:
    """The last step at which a second future can begin."""
    return places(rows)[-1]


def together_with(rows: Sequence[Row], k: int) -> tuple[Row, ...]:
    """The steps that were in flight when k was. Programs, which are carried out again, are not
    counted: the agent itself is one."""
    at = next((row for row in rows if row.step == k), None)
    if at is None:
        return ()
    others = (row for row in rows if row.step != k and _is_answered_by_record(row))
    return tuple(row for row in others if _overlap(row, at))


def _places(ordered: Sequence[Row]) -> list[int]:
    """All steps before which everything has its answer, in order."""
    found = []
    for row in ordered:
        if row.is_within is None:
            found.append(row.step)
        if _is_answered_by_record(row) and not row.is_answerable:
            return found
    return [*found, ordered[-1].step + 1 if ordered else 1]


def _reason(ordered: Sequence[Row], k: int) -> tuple[str, tuple[int, ...]]:
    last = ordered[-1].step if ordered else 0
    if not 1 <= k <= last + 1:
        return f"the record has steps 1 to {last}", ()
    at = next((row for row in ordered if row.step == k), None)
    if at is not None and at.is_within is not None:
        return f"step {k} is part of the answer of step {at.is_within}", (at.is_within,)
    past = [row for row in ordered if row.step < k and _is_answered_by_record(row)]
    unkept = tuple(row.step for row in past if not row.is_answerable)
    if unkept:
        return f"the journal does not have the answer of {_named(unkept)}", unkept
    return f"the record has no step {k}", ()


def _is_answered_by_record(row: Row) -> bool:
    return row.is_candidate and not row.is_contained


def _overlap(one: Row, other: Row) -> bool:
    ends = [math.inf if row.settled_n is None else row.settled_n for row in (one, other)]
    return one.proposed_n < ends[1] and other.proposed_n < ends[0]


def _named(steps: Sequence[int]) -> str:
    shown = ", ".join(str(step) for step in steps[:_MAX_STEPS])
    return f"step {shown}" if len(steps) == 1 else f"steps {shown}"
