"""The steps of a run as values: pages from the index, completed from the journal. Nothing is
printed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from paddock.journal.codec import body_of
from paddock.journal.index.index import RunIndex
from paddock.journal.index.rows import RunRow, StepRow
from paddock.journal.log import RunLog
from paddock.journal.plain_values import as_json
from paddock.model.events import Proposed, Record
from paddock.model.steps import Program, Step

# Of --only: a word, and what it says about a step.
ONLY = {
    "allowed": ("verdict", "allow"),
    "blocked": ("verdict", "block"),
    "asked": ("verdict", "ask"),
    "done": ("outcome", "done"),
    "failed": ("outcome", "failed"),
    "refused": ("outcome", "refused"),
    "drafted": ("outcome", "drafted"),
    "simulated": ("outcome", "simulated"),
    "faulted": ("outcome", "faulted"),
    "unsettled": ("outcome", None),
}
_INDEX_PAGE = 2000  # rows
_JOURNAL_PAGE = 500  # steps


class IndexedStep(NamedTuple):
    """A step of a page with its row of the index, which knows its end, however late that came."""

    row: StepRow
    step: Step

    @property
    def duration_us(self) -> int | None:
        return self.row.duration_us if self.step.settled is None else self.step.duration_us


def select_rows(
    index: RunIndex,
    run: RunRow,
    *,
    after: int = -1,
    kind: str | None = None,
    only: str | None = None,
) -> Iterator[StepRow]:
    """Yield the rows of the steps after one that are of this kind and what `only` says of them."""
    column, value = ONLY[only] if only else ("", None)
    verdict = value if column == "verdict" else None
    while page := index.steps(run.run, after=after, limit=_INDEX_PAGE, verdict=verdict):
        for row in page:
            is_kind = kind is None or row.kind == kind
            if is_kind and (column != "outcome" or row.outcome == value):
                yield row
        after = page[-1].step


def read_steps(directory: Path, rows: Iterator[StepRow]) -> Iterator[IndexedStep]:
    """Yield these steps with what the journal has on them near their beginning."""
    while page := list(islice(rows, _JOURNAL_PAGE)):
        steps = RunLog(directory).page({row.step: row.spot for row in page})
        yield from map(IndexedStep, page, steps)


def step_json(shown: IndexedStep) -> dict[str, Any]:
    """Return a step for programs. Large values are previews."""
    row, step = shown
    proposed = step.record(Proposed)
    return {
        "step": row.step,
        "parent": step.parent,
        "at": row.at,
        "kind": row.kind,
        "name": row.name,
        "arguments": None if proposed is None else stored_body(proposed)["arguments"],
        "effect": row.effect,
        "verdict": row.verdict,
        "decided_by": row.rule,
        "outcome": row.outcome,
        "duration_us": shown.duration_us,
        "programs": [_program_json(program) for program in step.programs],
        "alerts": [
            {**alert.about, "alert": alert.alert, "times": alert.times} for alert in step.alerts
        ],
        "answer": step.result.get("answer"),
    }


def stored_body(record: Record) -> dict[str, Any]:
    """Return the body of a record as the journal has it, with previews in place of large values."""
    return body_of(record.event) if record.encoded is None else record.encoded.body


def record_json(record: Record, body: dict[str, Any]) -> dict[str, Any]:
    """Return a record for programs, with the body that is to be shown."""
    return {
        "n": record.n,
        "at": record.at,
        "type": record.type,
        "body": body,
        "blobs": [as_json(blob) for blob in record.blobs],
    }


def _program_json(program: Program) -> dict[str, Any]:
    started, ended = program.started, program.ended
    return {
        "pid": started.pid,
        "parent": started.parent,
        "program": started.program,
        "argv": started.argv,
        "cwd": started.cwd,
        "exit_code": None if ended is None else ended.exit_code,
        "duration_us": None if ended is None else ended.duration_us,
    }
