"""Which journal a person means, and the index over those of this user."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from paddock.cli.output import warn
from paddock.journal.index import Index
from paddock.journal.index_rows import RunRow
from paddock.journal.places import is_held
from paddock.journal.reader import Reader
from paddock.journal.segments import segment_name
from paddock.model.errors import InvalidInput, NotFound
from paddock.model.plain import plain
from paddock.state.home import Home

RUN_HELP = "an id, the beginning of one, `last` (no replay), or a path"
REPLAY = "replay"
MAX_RUNS = 1_000_000
_SHOWN = 5
_PAGE = 50


def find_journal(word: str, *, may_be_file: bool = False, is_quiet: bool = False) -> Path:
    """The directory of a run; with `may_be_file` also a file. Says what is near when it is not, and
    on the error output which one `last` is where one could think of another, unless `is_quiet`."""
    if "/" in word or word.startswith("."):
        return _at_path(word, may_be_file=may_be_file)
    home = Home.find()
    if word == "last":
        return _last(home, is_quiet=is_quiet)
    found = [name for name in _names(home) if name.startswith(word)] if word else []
    if word in found or len(found) == 1:
        return home.runs / (word if word in found else found[0])
    if found:
        shown = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        raise NotFound(f"{word!r} could be {shown}; write more of it")
    if os.path.lexists(word):
        return _at_path(word, may_be_file=may_be_file)
    near = difflib.get_close_matches(word, _names(home), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "paddock runs lists them"
    raise NotFound(f"there is no run {word!r}", hint=hint)


def open_index(home: Home) -> Index:
    return Index(home.root / "index.sqlite")


@contextlib.contextmanager
def all_indexed(home: Home) -> Iterator[tuple[Index, list[str]]]:
    """The index, up to date, and what could not be read into it."""
    with open_index(home) as index:
        yield index, index.update_all(home.runs)


@contextlib.contextmanager
def indexed(directory: Path) -> Iterator[tuple[Index, RunRow]]:
    """An index that has this run. One that lies elsewhere leaves no trace in the user's own."""
    home = Home.find()
    is_ours = directory.absolute().parent.resolve() == home.runs.resolve()
    place = home.runs / directory.name if is_ours else directory.absolute()
    run = str(Reader(place).opened().body.get("run"))
    with contextlib.ExitStack() as stack:
        if is_ours:
            index = stack.enter_context(open_index(home))
        else:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-"))
            index = stack.enter_context(Index(Path(scratch) / "index.sqlite"))
        index.update(place)
        yield index, index.run(run)


def state_of(run: RunRow) -> str:
    """`running`, `ended`, or `interrupted`: its process is gone and did not close the journal."""
    if run.state == "closed":
        return "ended"
    return "running" if is_held(Path(run.directory)) else "interrupted"


def replayed_in(directory: Path) -> str | None:
    """The run that this one is a replay of, if it is one."""
    opened = Reader(directory).opened().body
    lineage = opened.get("lineage")
    if opened.get("kind") != REPLAY or not isinstance(lineage, dict):
        return None
    return plain(str(lineage.get("run")), 60)


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
    """The newest, of those that did something. A replay is no run of its own: who looks at one and
    then says `last` means what was replayed, or a fork."""
    passed = 0
    with all_indexed(home) as (index, _):
        while runs := index.runs(limit=_PAGE, offset=passed):
            for run in runs:
                if run.kind != REPLAY and run.steps:
                    if passed and not is_quiet:
                        warn(f"last is {run.run}: what is newer is a replay, or did nothing")
                    return Path(run.directory)
                passed += 1
    raise NotFound("there is no run yet", hint="a run begins when a sandbox does something")
