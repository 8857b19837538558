"""The steps of a run as values: a page from the index, completed from the journal. Nothing is
printed here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paddock.journal.index import Index
from paddock.journal.index_rows import RunRow, StepRow
from paddock.journal.reader import Reader
from paddock.journal.records import Record, Type
from paddock.journal.traffic import mapping
from paddock.model.values import dataclass

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
MAX_OBSERVED = 1000  # records of one step that a page looks at; `--step` has all
_PAGE = 2000
_SHOWN = (b"proposed", b"observed", b"noted", b"settled")
# So many records of other steps end the search for what a page's steps caused.
_SLACK = 300


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which steps are to be shown."""

    after: int = -1
    limit: int | None = 100
    kind: str | None = None
    only: str | None = None


@dataclass(slots=True)
class Program:
    """A program that the fence saw start, and how it ended if that was seen."""

    pid: int | None
    body: Mapping[str, Any]
    exit_code: int | None = None
    duration_us: int | None = None
    has_ended: bool = False

    def as_json(self) -> dict[str, Any]:
        seen = {key: self.body.get(key) for key in ("pid", "parent", "program", "argv", "cwd")}
        return {**seen, "exit_code": self.exit_code, "duration_us": self.duration_us}


@dataclass(frozen=True, slots=True)
class StepView:
    """One step as a line shows it."""

    row: StepRow
    proposed: Mapping[str, Any]
    programs: list[Program]
    is_cut: bool  # whether more was observed than is here
    alerts: list[dict[str, Any]]
    result: Any = None

    @property
    def duration_us(self) -> int | None:
        return own_duration_us(self.proposed, self.programs, self.row.duration_us)

    def as_json(self) -> dict[str, Any]:
        row = self.row
        return {
            "step": row.step,
            "parent": self.proposed.get("parent"),
            "at": row.at,
            "kind": row.kind,
            "name": row.name,
            "arguments": self.proposed.get("arguments"),
            "effect": row.effect,
            "verdict": row.verdict,
            "decided_by": row.rule,
            "outcome": row.outcome,
            "duration_us": self.duration_us,
            "programs": [one.as_json() for one in self.programs],
            "alerts": self.alerts,
            "answer": mapping(self.result).get("answer"),
        }


def wanted_rows(index: Index, run: RunRow, wanted: Wanted) -> Iterator[StepRow]:
    """The rows that are wanted, however many: read from the index page by page."""
    column, value = ONLY[wanted.only] if wanted.only else ("", None)
    verdict = value if column == "verdict" else None
    after = wanted.after
    while page := index.steps(run.run, after=after, limit=_PAGE, verdict=verdict):
        for row in page:
            is_kind = wanted.kind is None or row.kind == wanted.kind
            if is_kind and (column != "outcome" or row.outcome == value):
                yield row
        after = page[-1].step


def step_views(directory: Path, rows: list[StepRow]) -> list[StepView]:
    """Each row with its arguments, the programs that it caused and the alerts about it."""
    near = _records_near(Reader(directory), rows)
    views = []
    for row in rows:
        records = near[row.step]
        proposed = next((one.body for one in records if one.type is Type.PROPOSED), {})
        programs = joined(one.body for one in records if one.type is Type.OBSERVED)
        noted = [one.body for one in records if one.type is Type.NOTED]
        alerts = [_without_what(body) for body in noted if body.get("what") == "alert"]
        settled = next((one.body for one in records if one.type is Type.SETTLED), {})
        is_cut = len(records) >= MAX_OBSERVED
        views.append(StepView(row, proposed, programs, is_cut, alerts, settled.get("result")))
    return views


def step_records(directory: Path, row: StepRow) -> list[Record]:
    """All records of one step, wherever they are."""
    reader = Reader(directory)
    found = (line for _, line, (_, step, _) in reader.scan(row.spot) if step == row.step)
    return [Record.parse(line) for line in found]


def joined(bodies: Iterator[Mapping[str, Any]]) -> list[Program]:
    """Starts and ends of programs, put together by their pid."""
    programs: list[Program] = []
    for body in bodies:
        pid = body.get("pid")
        if body.get("what") == "exec":
            programs.append(Program(pid, body))
            continue
        # One that executes another program has ended, and goes on as that one: the oldest is meant.
        open_ones = (one for one in programs if one.pid == pid and not one.has_ended)
        if body.get("what") == "exit" and (one := next(open_ones, None)):
            one.has_ended = True
            one.exit_code, one.duration_us = _count(body, "exit_code"), _count(body, "duration_us")
    return programs


def own_duration_us(
    proposed: Mapping[str, Any], programs: list[Program], waited_us: int | None
) -> int | None:
    """Return how long a step took. A program that a program starts is settled when it is let
    through: its time is the one that it ran, and None while nobody has seen its end."""
    pid = mapping(proposed.get("arguments")).get("pid")
    if proposed.get("kind") != "exec" or pid is None:
        return waited_us
    own = next((one for one in programs if one.pid == pid), None)
    return waited_us if own is None else own.duration_us


def _count(body: Mapping[str, Any], name: str) -> int | None:
    """A whole number of the body; None for whatever else a journal may say there."""
    value = body.get(name)
    return value if type(value) is int else None


def _without_what(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: body[key] for key in body if key != "what"}


def record_json(record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
    """A record for programs, with the body that is to be shown."""
    return {
        "n": record.n,
        "at": record.at,
        "type": record.type.value,
        "body": body,
        "blobs": [blob.as_json() for blob in record.blobs],
    }


def _records_near(reader: Reader, rows: list[StepRow]) -> defaultdict[int, list[Record]]:
    """Return what was proposed, observed, noted and settled of these steps, from where each begins
    to where the journal is about others."""
    found: defaultdict[int, list[Record]] = defaultdict(list)
    wanted = {row.step for row in rows}
    left = deque(sorted(row.spot for row in rows))
    while left:
        foreign = 0
        for spot, line, (_, step, kind) in reader.scan(left[0]):
            while left and left[0] <= spot:
                left.popleft()
            if step is None or step not in wanted:
                foreign += 1
                if foreign > _SLACK:
                    break
                continue
            foreign = 0
            if kind in _SHOWN and len(found[step]) < MAX_OBSERVED:
                found[step].append(Record.parse(line))
        else:
            break
    return found
