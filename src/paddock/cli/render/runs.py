"""The list of runs as a table that helps to find one: which kind it was, how it ended, what was out
of the ordinary, and the command, as far as the line has room. Also their lineage as a tree: forks
and replays below the run whose past they have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from paddock.cli.journals import state_of
from paddock.cli.output import counts, pick
from paddock.cli.render.run_lines import OUTCOMES
from paddock.cli.render.table import table, terminal_table
from paddock.cli.render.units import clock, took
from paddock.journal.index.index import RunIndex
from paddock.journal.index.rows import RunRow
from paddock.journal.index.terms import changed_terms
from paddock.model.errors import NotFound
from paddock.model.printable import printable

HEADER = ("ID", "WHAT", "AGENT", "STARTED", "TOOK", "STEPS", "EXIT", "OUTCOMES", "COMMAND")
_ORDINARY = ("done", "simulated")
# Where the command would have too little room, in turn.
_SPARED = ("TOOK", "STEPS", "STARTED", "AGENT")
_MAX_NAME = 40
_MAX_COMMAND = 200
_MAX_CHANGED = 120
_MAX_INDENT = 12  # forks of forks that are drawn; what lies deeper says how deep
_SHORT = 6  # characters of another run's id, if they are enough


def run_table(runs: Sequence[RunRow], width: int | None) -> str:
    """Return a line for each run; `width` is that of a terminal, None where lines may have any
    length."""
    names = _short_origins(runs)
    rows = [dict(zip(HEADER, _cells(run, names), strict=True)) for run in runs]
    has_agents = len({run.agent for run in runs}) > 1
    header = [name for name in HEADER if name != "AGENT" or has_agents]
    return table(
        header,
        [[row[name] for name in header] for row in rows],
        width=width,
        flexible=("COMMAND", *(["AGENT"] if has_agents else [])),
        spared=_SPARED,
    )


def run_json(run: RunRow) -> dict[str, Any]:
    """Return a run for programs. Times are microseconds since 1970."""
    return {
        **pick(run, "run", "directory", "agent", "stage", "policy_digest", "kind", "project"),
        **pick(run, "parent", "forked_at"),
        "state": state_of(run),
        "exit_code": run.exit_code,
        "command": run.terms.get("command"),
        **pick(run, "started_at", "ended_at"),
        "duration_us": duration_us(run),
        **pick(run, "records", "steps", "verdicts", "outcomes"),
    }


def duration_us(run: RunRow) -> int:
    """Return the time from a run's start to its end, or to its last record."""
    return max((run.ended_at or run.last_at) - run.started_at, 0)


def outcomes_text(run: RunRow) -> str:
    """Return what came of the actions and was not ordinary, and how many were asked about."""
    numbers = {name: number for name, number in run.outcomes.items() if name not in _ORDINARY}
    if questions := run.verdicts.get("ask"):
        numbers["asked"] = questions
    return counts(numbers, (*OUTCOMES, "asked")) or "-"


def exit_text(run: RunRow) -> str:
    """The agent's exit code, or why there is none."""
    state = state_of(run)
    if state != "ended":
        return state
    return "-" if run.exit_code is None or "command" not in run.terms else str(run.exit_code)


def _cells(run: RunRow, names: dict[str, str]) -> tuple[object, ...]:
    parent = "" if run.parent is None else f" of {printable(names[run.parent], _MAX_NAME)}"
    return (
        printable(run.run, _MAX_NAME),
        f"{printable(run.kind, _MAX_NAME)}{parent}",
        printable(run.agent, _MAX_NAME),
        clock(run.started_at)[5:16],
        took(duration_us(run)),
        run.steps,
        exit_text(run),
        outcomes_text(run),
        printable(run.terms.get("command", "-"), _MAX_COMMAND),
    )


def _short_origins(runs: Sequence[RunRow]) -> dict[str, str]:
    """Return the ids of origins as short as a person may write them, as far as these runs tell."""
    origins = {run.parent for run in runs if run.parent is not None}
    names = {run.run for run in runs} | origins
    beginnings = Counter(name[:_SHORT] for name in names)
    return {name: name[:_SHORT] if beginnings[name[:_SHORT]] == 1 else name for name in origins}


# ---- the tree of forks and replays --------------------------------------------------------------


class Branch(msgspec.Struct, frozen=True):
    """A run and how far below the beginning of its line it is. One that is gone has no row."""

    name: str
    row: RunRow | None
    depth: int
    changed: tuple[str, ...] = ()  # from the run above it


def branches(runs: Iterable[RunRow], index: RunIndex) -> list[Branch]:
    """Return these runs and all that they come from, in the order of a tree: lines with the newest
    run first, and in each line the older before the newer."""
    rows = _with_ancestors(runs, index)
    children: defaultdict[str, list[RunRow]] = defaultdict(list)
    for row in rows.values():
        if row is not None and row.parent is not None:
            children[row.parent].append(row)
    for below in children.values():
        below.sort(key=lambda row: row.started_at)
    seen: set[str] = set()
    # A journal may claim anything: runs that come from each other have no beginning, so each run
    # is tried as one after the true ones.
    starts = [*_beginnings(rows), *rows]
    return [branch for start in starts for branch in _line(start, rows, children, seen)]


def branch_json(branch: Branch) -> dict[str, Any]:
    """Return one run for programs, with its place in the tree."""
    about = {"run": branch.name, "state": "gone"} if branch.row is None else run_json(branch.row)
    return {**about, "depth": branch.depth, "changed": list(branch.changed)}


def tree_table(tree: Iterable[Branch]) -> str:
    """Return a line for each run, indented below its origin."""
    header = ("ID", "WHAT", "AGENT", "STARTED", "STEPS", "OUTCOMES", "STATE", "CHANGED")
    return terminal_table(
        header,
        map(_branch_cells, tree),
        flexible=("CHANGED", "AGENT", "OUTCOMES"),
        spared=("STARTED", "STEPS"),
    )


def _with_ancestors(runs: Iterable[RunRow], index: RunIndex) -> dict[str, RunRow | None]:
    """Return the rows by the ids of their runs; None for a run that is gone."""
    unread = list(runs)
    rows: dict[str, RunRow | None] = {row.run: row for row in unread}
    while unread:
        parent = unread.pop().parent
        if parent is None or parent in rows:
            continue
        try:
            row = index.run(parent)
        except NotFound:
            rows[parent] = None
        else:
            rows[parent] = row
            unread.append(row)
    return rows


def _beginnings(rows: dict[str, RunRow | None]) -> Iterator[str]:
    """Yield the first run of each line, in the order in which the lines first come up."""
    climbed: set[str] = set()
    for name in rows:
        at = name
        while at not in climbed:
            climbed.add(at)
            row = rows[at]
            if row is None or row.parent is None:
                yield at
                break
            at = row.parent


def _line(
    start: str,
    rows: dict[str, RunRow | None],
    children: dict[str, list[RunRow]],
    seen: set[str],
) -> Iterator[Branch]:
    """Yield all that comes from one run. Without recursion: lines may be long."""
    left = [(start, 0)]
    while left:
        name, depth = left.pop()
        if name in seen:
            continue
        seen.add(name)
        row = rows[name]
        above = None if row is None else rows.get(row.parent or "")
        changed: tuple[str, ...] = ()
        if depth and row is not None and above is not None:
            changed = changed_terms(row.terms, above.terms)
        yield Branch(name, row, depth, changed)
        left += [(child.run, depth + 1) for child in reversed(children.get(name, ()))]


def _branch_cells(branch: Branch) -> tuple[object, ...]:
    deeper = branch.depth - _MAX_INDENT
    sign = f"({branch.depth}) " if deeper > 0 else ""
    name = f"{'  ' * min(branch.depth, _MAX_INDENT)}{sign}{printable(branch.name, _MAX_NAME)}"
    row = branch.row
    if row is None:
        return (name, "-", "-", "-", "-", "-", "gone", "")
    at = "" if row.forked_at is None else f" at {row.forked_at}"
    return (
        name,
        printable(f"{row.kind}{at}", _MAX_NAME),
        printable(row.agent, _MAX_NAME),
        clock(row.started_at),
        row.steps,
        outcomes_text(row),
        state_of(row),
        printable(", ".join(branch.changed), _MAX_CHANGED),
    )
