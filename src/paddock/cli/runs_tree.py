"""The lineage of runs as a tree: forks and replays below the run whose past they have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from paddock.cli.journals import state_of
from paddock.cli.runs import run_json
from paddock.cli.runs_text import outcomes_text
from paddock.cli.table import line_width, table
from paddock.cli.times import clock
from paddock.journal.index import Index
from paddock.journal.index_rows import RunRow
from paddock.journal.index_terms import changed_terms
from paddock.model.errors import NotFound
from paddock.model.plain import plain
from paddock.model.values import dataclass

_MAX_NAME = 40
_MAX_CHANGED = 120
_MAX_INDENT = 12  # forks of forks that are drawn; what lies deeper says how deep


@dataclass(frozen=True, slots=True)
class Branch:
    """A run and how far below the beginning of its line it is. One that is gone has no row."""

    name: str
    row: RunRow | None
    depth: int
    changed: tuple[str, ...] = ()  # from the run above it


def branches(runs: Iterable[RunRow], index: Index) -> list[Branch]:
    """These runs and all that they come from, in the order of a tree: lines with the newest run
    first, and in each line the older before the newer."""
    known = _with_ancestors(runs, index)
    children: defaultdict[str, list[RunRow]] = defaultdict(list)
    for row in known.values():
        if row is not None and row.parent is not None:
            children[row.parent].append(row)
    for below in children.values():
        below.sort(key=lambda row: row.started_at)
    seen: set[str] = set()
    # A journal may claim anything: runs that come from each other have no beginning, so each run
    # is tried as one after the true ones.
    starts = [*_beginnings(known), *known]
    return [one for name in starts for one in _line(name, known, children, seen)]


def branch_json(branch: Branch) -> dict[str, Any]:
    """One run for programs, with its place in the tree."""
    about = {"run": branch.name, "state": "gone"} if branch.row is None else run_json(branch.row)
    return {**about, "depth": branch.depth, "changed": list(branch.changed)}


def tree_table(tree: Iterable[Branch]) -> str:
    """A line a run, indented below its origin."""
    header = ("ID", "WHAT", "AGENT", "STARTED", "STEPS", "OUTCOMES", "STATE", "CHANGED")
    rows = [_cells(one) for one in tree]
    return table(
        header,
        rows,
        width=line_width(),
        flexible=("CHANGED", "AGENT", "OUTCOMES"),
        spared=("STARTED", "STEPS"),
    )


def _with_ancestors(runs: Iterable[RunRow], index: Index) -> dict[str, RunRow | None]:
    known: dict[str, RunRow | None] = {}
    wanted: list[RunRow] = list(runs)
    known.update((row.run, row) for row in wanted)
    while wanted:
        parent = wanted.pop().parent
        if parent is None or parent in known:
            continue
        known[parent] = row = _row(index, parent)
        if row is not None:
            wanted.append(row)
    return known


def _row(index: Index, name: str) -> RunRow | None:
    try:
        return index.run(name)
    except NotFound:
        return None


def _beginnings(known: dict[str, RunRow | None]) -> Iterator[str]:
    """Of each line, in the order in which the lines first come up."""
    climbed: set[str] = set()
    for name in known:
        at = name
        while at not in climbed:
            climbed.add(at)
            row = known[at]
            if row is None or row.parent is None:
                yield at
                break
            at = row.parent


def _line(
    start: str,
    known: dict[str, RunRow | None],
    children: dict[str, list[RunRow]],
    seen: set[str],
) -> Iterator[Branch]:
    """All that comes from one run. Without recursion: lines may be long."""
    left = [(start, 0)]
    while left:
        name, depth = left.pop()
        if name in seen:
            continue
        seen.add(name)
        row = known[name]
        above = known.get(row.parent) if row is not None and row.parent is not None else None
        yield Branch(name, row, depth, _changed(row, above) if depth else ())
        left += [(child.run, depth + 1) for child in reversed(children.get(name, ()))]


def _changed(row: RunRow | None, above: RunRow | None) -> tuple[str, ...]:
    return () if row is None or above is None else changed_terms(row.terms, above.terms)


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
