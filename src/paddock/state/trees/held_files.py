"""The files that processes of a sandbox hold, and what a restore leaves alone because of them.

To write recorded bytes underneath an open descriptor is never right. The process goes on at its
old offset, or with pages that it has cached: a log gets a hole of NUL bytes, a database in WAL mode
loses what was committed, and nothing fails. So a file that a process has open or maps stays as the
process wrote it. Three things stay with it:

- the journals of a database (`app.db-journal`, `app.db-wal`): to put back a rollback journal beside
  a database that was left alone would roll that database back;
- directories that are open or somebody's working directory, and those above;
- where the bytes of the held file differ from the recorded ones: files named after it
  (`agent.log.1`), and names beside and below it that the record does not have, because it may refer
  to them (a cache may keep its values in such files).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from paddock.model.errors import HostCannot
from paddock.state.files.descent import shown
from paddock.state.trees._plan import (
    Creation,
    DirectoryMode,
    Operation,
    Removal,
    Rewrite,
    full_path,
)
from paddock.state.trees.nodes import Node, NodeKind
from paddock.state.trees.scan import SeenDir, every_seen, find_seen

_JOINS_NAMES = ("-", ".", "~", "_")  # between the name of a file and what is named after it
_JOURNALS = ("-journal", "-wal", "-shm", "-mj")  # as SQLite names what belongs to a database


class HeldFiles(msgspec.Struct, frozen=True):
    """The files and directories that processes hold. Paths are as the processes see them, which is
    how a tree names its roots. `nameless` are files whose name is gone and that may have another
    one: the name that the kernel prints, and the inode number."""

    files: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()
    nameless: frozenset[tuple[str, int]] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.directories or self.nameless)


NOTHING_HELD = HeldFiles()


class MappedFiles(msgspec.Struct, frozen=True):
    """Files that processes have mapped shared: their inode numbers by path, and the names of those
    whose name is gone and that may have another one. Not complete if some process could not be
    looked at."""

    inodes: Mapping[str, int]
    nameless: frozenset[str] = frozenset()
    is_complete: bool = True


class NotWrittenByAgent(HostCannot):
    """Recorded bytes would have to go into a file that a process holds open, and that process did
    not write them: they came from elsewhere, and do not come again. `now` is what is there."""

    def __init__(self, root: str, parts: tuple[str, ...], now: Node | None) -> None:
        super().__init__(
            f"{shown(full_path(root, parts))} is held open by a program, and the recorded bytes"
            " were not written by the agent itself"
        )
        self.root = root
        self.parts = parts
        self.now = now


class HeldFilter:
    """Divides the operations of a restore into those that are done and those that are left out."""

    def __init__(self, held: HeldFiles, seen: Mapping[str, SeenDir]) -> None:
        self._held = held
        self._seen = seen
        self._inodes = _held_inodes(held, seen)
        paths = (*held.files, *held.directories)
        self._above = {directory for path in paths for directory in above(path)}

    def divide(self, operations: list[Operation]) -> tuple[list[Operation], list[str]]:
        """Return the operations to do, and the paths that stay different from what was recorded."""
        if self._held.is_empty:
            return operations, []
        paths = {
            operation.full_path: operation
            for operation in operations
            if not isinstance(operation, DirectoryMode)
        }
        kept = {path for path, operation in paths.items() if self._is_kept(path, operation)}
        # A held file that stays as it is may refer to what lies beside and below it.
        held = {path for path in kept if self.is_held(path)}
        around = {path.rpartition("/")[0] for path in held}
        for path, operation in paths.items():
            is_beside = isinstance(operation, Removal) and not around.isdisjoint(above(path))
            if is_beside or _is_named_after(path, held):
                kept.add(path)
        chosen = [operation for operation in operations if not _is_left_out(operation, kept)]
        return chosen, sorted(kept)

    def is_held(self, path: str) -> bool:
        """Return whether a process has the file open or maps it, under this or another of its
        names."""
        if path in self._held.files:
            return True
        seen = find_seen(self._seen, path)
        return seen is not None and seen.inode in self._inodes

    def _is_kept(self, path: str, operation: Operation) -> bool:
        if isinstance(operation, Rewrite) and operation.has_same_bytes:
            return False  # only its mode is set, which harms nobody who has it open
        if self.is_held(path) or _is_journal_of(path, self._held.files):
            return True
        takes_away = isinstance(operation, Removal)
        if isinstance(operation, Creation):
            takes_away = operation.has_other
        return takes_away and (path in self._above or path in self._held.directories)


def _held_inodes(held: HeldFiles, seen: Mapping[str, SeenDir]) -> set[int]:
    """Return the inode numbers, as a scan sees them, of all held files that were seen. A path leads
    to the right one. The number that processes see does not always: in an overlay a file that was
    copied up keeps the number that it has in its source."""
    files = (find_seen(seen, path) for path in held.files)
    inodes = {file.inode for file in files if file is not None}
    roots = tuple(f"{root}/" for root in seen)
    nameless = {inode: path for path, inode in held.nameless if path.startswith(roots)}
    if unknown := nameless.keys() - {file.inode for file in every_seen(seen)}:
        raise HostCannot(
            f"{shown(nameless[min(unknown)])} is held open by a program, and its other names cannot"
            " be found",
            hint="choose another step, at which it is closed",
        )
    return inodes | nameless.keys()


def above(path: str) -> Iterator[str]:
    """Yield the directories that a path lies in, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def _is_left_out(operation: Operation, kept: Collection[str]) -> bool:
    """Return whether an operation is on a name that stays as it is, or on what lies below one."""
    root, path = operation.root, operation.path
    return any(full_path(root, path[:length]) in kept for length in range(1, len(path) + 1))


def _is_journal_of(path: str, held: Collection[str]) -> bool:
    return any(path[: path.rfind(suffix)] in held for suffix in _JOURNALS if suffix in path)


def _is_named_after(path: str, held: Collection[str]) -> bool:
    """Return whether a path is the name of one of these files with something behind it."""
    start = path.rfind("/") + 1
    ends = (at for at in range(start, len(path)) if path[at] in _JOINS_NAMES)
    return any(path[:end] in held for end in ends)


def is_unwritten(operation: Operation, now: Node | None, first: Node | None) -> bool:
    """Return whether the file that an operation would change is as the agent found it when it
    began: then the recorded bytes are not the agent's own work."""
    if isinstance(operation, Creation) and not operation.has_other:
        # The process reads the source's own file, which has never been written to.
        return operation.node.kind is NodeKind.FILE
    if not isinstance(operation, Rewrite) or now is None or first is None:
        return False
    return (now.digest, now.size) == (first.digest, first.size)
