"""Files of a mount's source that a sandbox must not see: a layer of whiteouts that lies over the
source and below the sandbox's own writes, and the care for hidden files when changes go back.

The kernel takes the names away where it looks them up, so there is nothing inside to link to, to
rename or to open by another way.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from paddock.model.results import FileType
from paddock.state.changes.change import FileChange
from paddock.state.changes.write_back import Applied
from paddock.state.home import remove_tree

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_hiding(
    place: Path, source: int, hidden: Iterable[str], owner: tuple[int, int] | None
) -> None:
    """Make the layer anew at `place`. `source` is a descriptor of the mount's source: directories
    on the way to a hidden name look as they do there."""
    if place.exists():
        remove_tree(place)  # of the parent of a fork, or of a snapshot with another list
    place.mkdir(mode=0o755, parents=True)
    here = os.open(place, _OPEN)
    try:
        there = os.open(".", _OPEN, dir_fd=source)
        try:
            _fill(here, there, _by_directory(hidden), owner)
        finally:
            os.close(there)
    finally:
        os.close(here)


def split_hidden(
    changes: Iterable[FileChange], hidden: Iterable[str]
) -> tuple[list[FileChange], list[Applied]]:
    """Return the changes that may be written back, and a refusal for each that would touch
    something hidden: the sandbox cannot have known what it replaces."""
    hidden = tuple(hidden)
    fine: list[FileChange] = []
    refused: list[Applied] = []
    for change in changes:
        why = _why_not(change, hidden)
        if why is None:
            fine.append(change)
        else:
            refused.append(Applied(change.path, change.kind, "refused", why))
    return fine, refused


def _why_not(change: FileChange, hidden: tuple[str, ...]) -> str | None:
    if any(change.path == path or change.path.startswith(path + "/") for path in hidden):
        return "it is hidden from the sandbox, and the source may have its own"
    keeps_content = change.kind != "deleted" and change.type is FileType.DIR
    if not keeps_content and any(path.startswith(change.path + "/") for path in hidden):
        return "something in it is hidden from the sandbox and would be lost"
    return None


# Names in a directory; those that are hidden themselves have nothing in them.
_Names = dict[str, "_Names"]


def _by_directory(hidden: Iterable[str]) -> _Names:
    top: _Names = {}
    for path in hidden:
        names = top
        for part in path.split("/"):
            names = names.setdefault(part, {})
    return top


def _fill(here: int, there: int, names: _Names, owner: tuple[int, int] | None) -> None:
    """Make a whiteout for each hidden name, and for each on the way to one that is no directory in
    the source: nothing of what may come to be behind it is to be seen either."""
    for name, inner in names.items():
        beyond = _open_directory(name, there) if inner else None
        if beyond is None:
            os.mknod(name, stat.S_IFCHR | 0o600, 0, dir_fd=here)
            continue
        try:
            os.mkdir(name, 0o700, dir_fd=here)
            below = os.open(name, _OPEN, dir_fd=here)
            try:
                _fill(below, beyond, inner, owner)
            finally:
                os.close(below)
        finally:
            os.close(beyond)
    _look_alike(here, os.fstat(there), owner)  # last: a closed directory takes no names


def _open_directory(name: str, parent: int) -> int | None:
    try:
        return os.open(name, _OPEN, dir_fd=parent)
    except OSError:
        return None  # gone, a link, a file, or closed to us: then its name is taken away


def _look_alike(fd: int, info: os.stat_result, owner: tuple[int, int] | None) -> None:
    if owner is not None:
        os.fchown(fd, *owner)
    os.fchmod(fd, stat.S_IMODE(info.st_mode) & 0o777)
    os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))
