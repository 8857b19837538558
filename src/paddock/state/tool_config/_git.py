"""Which changes would make git run something, or turn a directory into a repository.

Git takes a directory for a repository when it is called `.git`, when a file `.git` points to it, or
when it looks like one: a HEAD, and `objects` and `refs` beside it or in what `commondir` names. In
a repository, almost every file can lead to a program (`config`, `hooks`, `info/attributes`,
`commondir`, settings of worktrees and modules). So what may be written into an existing repository
is a short list, and nothing may be written that would make a new one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from paddock.model.results import FileType
from paddock.state.tool_config._names import fold

GIT = ".git"
IN_REPOSITORY = "git obeys what lies in a repository"
NEW_REPOSITORY = "it would turn a directory into a git repository"

# What makes a directory a repository.
MARKS = ("HEAD", "objects", "refs", "commondir")
_DATA_DIRECTORIES = ("objects", "refs", "logs")
_DATA_FILES = frozenset({"HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "COMMIT_EDITMSG", "index",
                         "packed-refs"})  # fmt: skip
# These make git read the objects of another place.
_ALTERNATES = frozenset({"alternates", "http-alternates"})
# What a directory of a repository consists of, folded.
_PARTS_OF_REPOSITORY = frozenset({
    "head", "objects", "refs", "commondir", "gitdir", "config", "config.worktree", "hooks", "info",
    "packed-refs", "index", "modules", "worktrees", "reftable", "shallow", "logs",
})  # fmt: skip


def is_repository(names: AbstractSet[str]) -> bool:
    """Return whether a directory with these names of `MARKS` is a repository to git."""
    has_data = {"objects", "refs"} <= names or "commondir" in names
    return "HEAD" in names and has_data


def is_becoming_one(name: str, marks: AbstractSet[str], arriving: AbstractSet[str]) -> bool:
    """Return whether an entry helps to turn a directory into a repository. `marks` are the names
    of `MARKS` that the directory has, `arriving` the folded names that all changes bring."""
    if fold(name) not in _PARTS_OF_REPOSITORY or is_repository(marks):
        return False
    return is_repository(marks | {mark for mark in MARKS if mark.lower() in arriving})


def is_in_repository(path: str) -> bool:
    """Return whether a path is a `.git` or lies in one."""
    return any(fold(name) == GIT for name in path.split("/"))


def repository_path(path: str) -> str:
    """Return the part of a path in a repository that is the `.git` itself."""
    names = path.split("/")
    depth = next(at for at, name in enumerate(names) if fold(name) == GIT)
    return "/".join(names[: depth + 1])


def inside_repository(above: Sequence[str]) -> tuple[str, ...] | None:
    """Return the path from a repository to the directory of the host with these parts, if it is
    `.git` or lies in a repository; None for all others."""
    for depth, name in enumerate(above):
        if fold(name) == GIT:
            return tuple(above[depth + 1 :])
        place = "/" + "/".join(above[:depth])
        names = frozenset(mark for mark in MARKS if os.path.lexists(os.path.join(place, mark)))
        if is_repository(names):
            return tuple(above[depth:])
    return None


def why_inside(inner: Sequence[str], kind: FileType) -> str | None:
    """Return why a path of an existing repository is not written. Links never are: git would read
    its settings through them. Of a long path its first two names and the last are enough."""
    if kind not in (FileType.FILE, FileType.DIR):
        return IN_REPOSITORY
    if inner[0] in _DATA_FILES:
        is_data = len(inner) == 1 and kind is FileType.FILE
    elif inner[0] in _DATA_DIRECTORIES:
        is_data = len(inner) > 1 or kind is FileType.DIR
        is_information = [fold(part) for part in inner[:2]] == ["objects", "info"]
        if is_information and fold(inner[-1]) in _ALTERNATES:
            is_data = False
    else:
        is_data = False
    return None if is_data else IN_REPOSITORY
