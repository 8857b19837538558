"""One changed path, and the functions that the ways of finding changes share."""

from __future__ import annotations

import os
import stat
from typing import Literal

import msgspec

from paddock.model.errors import SandboxError
from paddock.model.results import FileType

Kind = Literal["added", "modified", "deleted"]

# All paths of one answer together. An agent can nest directories so that paths of ordinary names
# grow with the square of their number.
MAX_PATHS_BYTES = 512 << 20
_LEAST_COST_BYTES = 100  # what a change takes beside its path, so their number is bounded too


class FileChange(msgspec.Struct, frozen=True):
    """One changed path, relative to the tree's top. Bytes that are no UTF-8 stand in it as
    surrogates, as everywhere in Python."""

    path: str
    kind: Kind
    type: FileType
    size: int


def file_type(mode: int) -> FileType:
    if stat.S_ISREG(mode):
        return FileType.FILE
    if stat.S_ISDIR(mode):
        return FileType.DIR
    return FileType.SYMLINK if stat.S_ISLNK(mode) else FileType.OTHER


def size_of(st: os.stat_result) -> int:
    """Return the size that a change reports: the bytes of a file, nothing for all else."""
    return st.st_size if stat.S_ISREG(st.st_mode) else 0


def permissions(st: os.stat_result) -> int:
    """Return the part of a mode that counts as a change."""
    return st.st_mode & 0o777


def link_target(name: str, dir_fd: int) -> str | None:
    """Return the target of a link, or None when it is no link any more."""
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError:
        return None


def walk_order(path: str) -> bytes:
    """Return a key that sorts a directory before what is in it, and that before the next directory.
    It works because no name has a NUL in it."""
    return os.fsencode(path).replace(b"/", b"\0")


class PathRoom:
    """Counts the paths of one answer, and refuses one that would fill the memory."""

    def __init__(self) -> None:
        self._room = MAX_PATHS_BYTES

    def take(self, path: str) -> str:
        self._room -= len(path) + _LEAST_COST_BYTES
        if self._room < 0:
            raise SandboxError(
                f"the list of changes is longer than {MAX_PATHS_BYTES} bytes",
                hint="the tree has too many or too deeply nested files; take a snapshot instead",
            )
        return path
