"""The lineage of runs as a tree: forks and replays below the run whose past they have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from paddock.cli.journals import state_of
from paddock.cli.runs import run_json
from paddock.cli.runs_text import outcomes_text
from paddock.cli.table import line_width, table
from paddock.cli.times import clock
from paddock.journal.index.index import RunIndex
from paddock.journal.index.rows import RunRow
from paddock.journal.index.terms import changed_terms
from paddock.model.errors import NotFound
from paddock.model.plain import plain

_MAX_NAME = 40
_MAX_CHANGED = 120
_MAX_INDENT = 12  # forks of forks that are drawn; what lies deeper says how deep


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
    return table(
        header,
        map(_cells, tree),
        width=line_width(),
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


def _cells(branch: Branch) -> tuple[object, ...]:
    deeper = branch.depth - _MAX_INDENT
    sign = f"({branch.depth}) " if deeper > 0 else ""
    name = f"{'  ' * min(branch.depth, _MAX_INDENT)}{sign}{plain(branch.name, _MAX_NAME)}"
    row = branch.row
    if row is None:
        return (name, "-", "-", "-", "-", "-", "gone", "")
    at = "" if row.forked_at is None else f" at {row.forked_at}"
    return (
        name,
        plain(f"{row.kind}{at}", _MAX_NAME),
        plain(row.agent, _MAX_NAME),
        clock(row.started_at),
        row.steps,
        outcomes_text(row),
        state_of(row),
        plain(", ".join(branch.changed), _MAX_CHANGED),
    )
