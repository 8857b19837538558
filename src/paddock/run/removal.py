"""Runs that are taken away: journal, world, and the trees that no other run needs. One that is
still written is never removed, and none that a run which stays was forked or replayed from.
What counts for limits, drafts and approvals stays: a budget is not won back by forgetting.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from paddock.journal.index.index import journals
from paddock.journal.index.rows import RunRow
from paddock.journal.run_directory import is_held
from paddock.model.errors import Conflict, IntegrityError, PaddockError
from paddock.run.files import store_of, trees_of
from paddock.state.home import Home, remove_tree

TRASH = "removed-"
_SHOWN = 5


class Removed(msgspec.Struct, frozen=True):
    """The runs that were removed, and what of them is left, in a sentence."""

    runs: tuple[str, ...]
    tree_bytes: int = 0
    remark: str | None = None


def needed_by(chosen: Sequence[Path], rows: Iterable[RunRow]) -> dict[str, list[str]]:
    """Return the chosen runs that other runs were forked or replayed from, each with those runs."""
    names = {directory.name for directory in chosen}
    needed: dict[str, list[str]] = {}
    for row in rows:
        name = Path(row.directory).name
        if row.parent in names and name not in names:
            needed.setdefault(row.parent, []).append(name)
    return needed


def without_needed(
    chosen: Sequence[Path], rows: Sequence[RunRow]
) -> tuple[list[Path], dict[str, list[str]]]:
    """Return the runs that can be removed, and those that have to stay with the runs that need
    them. A run that is needed by one that stays must stay as well."""
    left, kept = list(chosen), dict[str, list[str]]()
    while needed := needed_by(left, rows):
        kept |= needed
        left = [directory for directory in left if directory.name not in needed]
    return left, kept


def check_removable(chosen: Sequence[Path], rows: Sequence[RunRow]) -> None:
    """Raise Conflict for a run that is still going, or that another run comes from."""
    for directory in chosen:
        if is_held(directory):
            raise Conflict(f"the run {directory.name} is still going", hint="paddock kill ends it")
    for run, by in needed_by(chosen, rows).items():
        shown = ", ".join(by[:_SHOWN]) + (", ..." if len(by) > _SHOWN else "")
        raise Conflict(
            f"the run {run} is needed: {shown} {'comes' if len(by) == 1 else 'come'} from it",
            hint="name these as well, or leave it",
        )


def remove_runs(home: Home, chosen: Sequence[Path], rows: Sequence[RunRow]) -> Removed:
    """Remove runs, the younger before those that they come from, then the trees that nobody needs
    any more. Raises Conflict as `check_removable` does."""
    check_removable(chosen, rows)
    _empty_trash(home)
    began = {Path(row.directory).name: row.started_at for row in rows}
    for directory in sorted(chosen, key=lambda run: began.get(run.name, 0), reverse=True):
        _take_away(home, directory)
    names = tuple(run.name for run in chosen)
    try:
        return Removed(names, with_trees_in_use(home, store_of(home).gc))
    except PaddockError as error:  # no tree is removed where it is not known who needs it
        return Removed(names, 0, f"files that only they had are still there: {error.message}")


def _take_away(home: Home, directory: Path) -> None:
    """Remove one run. It is renamed first, so that nobody finds half of it."""
    if is_held(directory):
        raise Conflict(f"the run {directory.name} is still going", hint="paddock kill ends it")
    for path in (home.worlds / directory.name, directory):
        discard(home, path)


def discard(home: Home, path: Path) -> None:
    """Remove a directory of the home; it is renamed first. It may be gone already."""
    gone = home.cache / f"{TRASH}{secrets.token_hex(8)}"
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, gone)
        remove_tree(gone)


def _empty_trash(home: Home) -> None:
    """Remove what a crash left of earlier removals."""
    for path in home.cache.glob(f"{TRASH}*"):
        with contextlib.suppress(FileNotFoundError):
            remove_tree(path)


def with_trees_in_use(home: Home, collect: Callable[[Iterable[str]], int]) -> int:
    """Call `collect` with every tree that a journal of the home names. Raises IntegrityError with
    the name of the run whose journal or trees cannot be read."""
    reading = ""

    def trees() -> Iterator[str]:
        nonlocal reading
        for directory in journals(home.runs):
            reading = directory.name
            for _, tree in trees_of(directory):
                yield tree

    try:
        return collect(trees())
    except IntegrityError as error:
        raise IntegrityError(
            f"it is not known which files the run {reading} needs: {error.message}",
            hint=f"paddock verify {reading} says more; paddock runs remove {reading} gives it up",
        ) from None
