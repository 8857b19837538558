"""The steps of a run as a table for a spreadsheet: one row each, times in UTC.

An agent chooses what is in the cells. Whatever a terminal or an editor would act on, or a reader
would not see, is spelled out, so a row is one line; what a spreadsheet would take for a formula
gets an apostrophe; and every text is quoted, so that no separator of another country splits it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from paddock.journal.canonical import canonical_text
from paddock.journal.codec import value_in
from paddock.journal.log import RunLog
from paddock.model.events import Proposed
from paddock.model.printable import escaped
from paddock.model.steps import Step

COLUMNS = (
    "step", "at", "kind", "name", "effect", "verdict", "decided_by", "why",
    "outcome", "answered_by", "error", "duration_us", "arguments",
)  # fmt: skip
# A spreadsheet runs a cell that begins with one of these, some also with the wide ones.
_FORMULA = tuple("=+-@|%\uff1d\uff0b\uff0d\uff20")


def as_csv(log: RunLog) -> Iterator[str]:
    """Yield a row of names, then a row for each step."""
    yield _line(COLUMNS)
    for step in log.steps():
        yield _line([_cell(value) for value in _row(step)])


def _row(step: Step) -> tuple[Any, ...]:
    proposed = step.record(Proposed)
    return (
        step.number,
        _time(step.records[0].at),
        step.kind,
        step.name,
        step.effect,
        step.verdict,
        step.decided_by,
        step.why,
        step.outcome,
        None if step.settled is None else step.settled.answered_by,
        step.error,
        None if proposed is None else step.waited_us,
        None if proposed is None else value_in(proposed, "arguments"),
    )


def _time(at: int) -> str:
    return datetime.fromtimestamp(at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + (
        f".{at % 1_000_000:06d}Z"
    )


def _cell(value: Any) -> str | int:
    if value is None:
        return ""
    if type(value) is int:
        return value
    whole = value if isinstance(value, str) else canonical_text(value)
    text = "".join(map(escaped, whole))
    # Blanks in front do not keep every program from seeing what follows them.
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _line(cells: Any) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_NONNUMERIC).writerow(cells)
    return out.getvalue()
