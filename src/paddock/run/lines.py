"""Whether an agent does one thing after the other. The files of one that does can be made exactly
what they were when it proposes a step again. Of several lines of work, some are further than they
were then and some not so far: each of them writes its own part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paddock.fence.container.stillness import lines_of_work, settled
from paddock.model.action import Kind
from paddock.run.matching.rows import Row

if TYPE_CHECKING:
    from paddock.run.tape import Tape

_STILL_S = 0.5  # for what is under way to come to its next step
_ASKED = (Kind.HTTP, Kind.MODEL, Kind.TOOL, Kind.CODE, Kind.FILE)


async def are_several(tape: Tape, init_pid: int) -> bool:
    """Return whether others than who proposes the step may be at work. Returns when they have come
    to their next step, or have had the time for it."""
    if not has_overlaps(tape.rows) and lines_of_work(init_pid) < 2:
        return False
    await settled(init_pid, _STILL_S)
    return True


def has_overlaps(rows: Sequence[Row]) -> bool:
    """Whether two questions were ever open at the same time."""
    until = -math.inf
    for row in sorted(rows, key=lambda one: one.proposed_n):
        if row.kind not in _ASKED or not row.is_candidate or row.is_contained:
            continue
        if row.proposed_n < until:
            return True
        until = math.inf if row.settled_n is None else row.settled_n
    return False
