"""Finds the journal that a person names, and opens the index over the runs of this user."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from paddock.cli.output import warn
from paddock.cli.parser import RUN_HELP
from paddock.cli.render.run_lines import REPLAY
from paddock.gate.project import project_directory
from paddock.journal.index.index import RunIndex
from paddock.journal.index.rows import RunRow
from paddock.journal.log import RunLog
from paddock.journal.run_directory import is_held
from paddock.journal.segments import segment_name
from paddock.model.errors import InvalidInput, NotFound
from paddock.model.printable import printable
from paddock.model.space import is_out_of_space
from paddock.state.home import Home

T = TypeVar("T")
_RUNS = ("run", "fork")  # kinds that `last` can be; others repeat a run, or belong to a command
MAX_RUNS = 1_000_000
_SHOWN = 5
_PAGE = 100


def find_journal(word: str, *, may_be_file: bool = False, is_quiet: bool = False) -> Path:
    """Return the directory of a run; with `may_be_file` also a file. The error names what is near.
    Where one could think of another run, the error output says which one `last` is, unless
    `is_quiet`."""
    if "/" in word or word.startswith("."):
        return _at_path(word, may_be_file=may_be_file)
    home = Home.find()
    if word == "last":
        return _last(home, is_quiet=is_quiet)
    matches = [name for name in _names(home) if name.startswith(word)] if word else []
    if word in matches or len(matches) == 1:
        return home.runs / (word if word in matches else matches[0])
    if matches:
        shown = ", ".join(matches[:_SHOWN]) + (", ..." if len(matches) > _SHOWN else "")
        raise NotFound(f"{word!r} could be {shown}; write more of it")
    if os.path.lexists(word):
        return _at_path(word, may_be_file=may_be_file)
    near = difflib.get_close_matches(word, _names(home), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "paddock runs lists them"
    raise NotFound(f"there is no run {word!r}", hint=hint)


def open_index(home: Home) -> RunIndex:
    return RunIndex(home.root / "index.sqlite")


@contextlib.contextmanager
def all_indexed(home: Home) -> Iterator[tuple[RunIndex, list[str]]]:
    """Give the index, up to date, and what could not be read into it."""
    with _fill(home, lambda index: index.update_all(home.runs)) as indexed_runs:
        yield indexed_runs


@contextlib.contextmanager
def _fill(home: Home, fill: Callable[[RunIndex], T]) -> Iterator[tuple[RunIndex, T]]:
    """Give the index of a home, brought up to date. Where the disk is full the index is made in
    memory, so that runs can still be looked at."""
    with contextlib.ExitStack() as stack:
        try:
            index = stack.enter_context(open_index(home))
            filled = fill(index)
        except Exception as error:
            if not is_out_of_space(error):
                raise
            index = stack.enter_context(RunIndex(None))
            filled = fill(index)
        yield index, filled


@contextlib.contextmanager
def indexed(directory: Path) -> Iterator[tuple[RunIndex, RunRow]]:
    """Give an index that has this run. A run that lies elsewhere leaves no trace in the user's own
    index."""
    home = Home.find()
    is_ours = directory.absolute().parent.resolve() == home.runs.resolve()
    place = home.runs / directory.name if is_ours else directory.absolute()
    run = RunLog(place).opened.run
    if is_ours:
        with _fill(home, lambda index: index.update(place)) as (index, _):
            yield index, index.run(run)
        return
    with (
        tempfile.TemporaryDirectory(prefix="paddock-") as scratch,
        RunIndex(Path(scratch) / "index.sqlite") as index,
    ):
        index.update(place)
        yield index, index.run(run)


def newest_first(
    index: RunIndex, *, agent: str | None = None, project: str | None = None, since_us: int = 0
) -> Iterator[RunRow]:
    """Yield the runs back to that time, however many, or those of an agent or a project."""
    offset = 0
    while page := index.runs(agent=agent, project=project, limit=_PAGE, offset=offset):
        for run in page:
            if run.started_at < since_us:
                return
            yield run
        offset += len(page)


def state_of(run: RunRow) -> str:
    """Return `running`, `ended`, or `interrupted`: its process is gone and did not close the
    journal."""
    if run.state == "closed":
        return "ended"
    return "running" if is_held(Path(run.directory)) else "interrupted"


def replayed_in(directory: Path) -> str | None:
    """Return the run that this one is a replay of, if it is one."""
    opened = RunLog(directory).opened
    if opened.kind != REPLAY or opened.lineage is None:
        return None
    return printable(opened.lineage.run, 60)


def _names(home: Home) -> list[str]:
    try:
        names = os.listdir(home.runs)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if (home.runs / name / segment_name(1)).exists())


def _at_path(word: str, *, may_be_file: bool) -> Path:
    path = Path(word)
    try:
        is_there = path.is_dir() or (may_be_file and path.is_file())
    except (OSError, ValueError):
        is_there = False
    if is_there:
        return path
    if os.path.lexists(word):
        raise InvalidInput(f"{word!r} is not a run's directory", hint="a run is " + RUN_HELP)
    raise NotFound(f"there is nothing at {word!r}")


def _last(home: Home, *, is_quiet: bool) -> Path:
    """Return the newest run of this project that did something. A replay is no run of its own: who
    looks at one and then says `last` means what was replayed, or a fork."""
    project = project_directory()
    with all_indexed(home) as (index, _):
        newer, run = (0, None) if project is None else _newest(index, project)
        if run is not None:
            if newer and not is_quiet:
                warn(f"last is {run.run}: what is newer is a replay, or did nothing")
            return Path(run.directory)
        _, elsewhere = _newest(index, None)
    if elsewhere is None:
        raise NotFound("there is no run yet", hint="a run begins when a sandbox does something")
    where = printable(elsewhere.project or "an unknown directory", 400)
    raise NotFound(
        f"no run belongs to {printable(project or 'this directory', 400)}",
        hint=f"the newest one elsewhere is {elsewhere.run}, of {where}: name it by its id",
    )


def _newest(index: RunIndex, project: str | None) -> tuple[int, RunRow | None]:
    """Return the newest run that `last` can be, and how many are newer that one could think of.
    Without a project, of all directories."""
    newer = 0
    for run in newest_first(index, project=project):
        if run.kind in _RUNS and run.steps:
            return newer, run
        newer += run.kind in (*_RUNS, REPLAY)
    return newer, None
