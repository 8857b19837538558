"""Which files of a sandbox its processes hold, and what a restore leaves alone because of that.

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
from paddock.state.trees.nodes import Node, NodeKind
from paddock.state.trees.plan import Deed, Making, Removal, Sealing, Writing, deed_parts
from paddock.state.trees.scan import SeenDir, every_seen, find_seen

_JOINS_NAMES = ("-", ".", "~", "_")  # between the name of a file and what is named after it
_JOURNALS = ("-journal", "-wal", "-shm", "-mj")  # as SQLite names what belongs to a database


class HeldFiles(msgspec.Struct, frozen=True):
    """What processes hold. Paths are as the processes see them, which is how a tree names its
    roots. `nameless` are files whose name is gone and that may have another one: the name that the
    kernel prints, and the inode number."""

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
    """Divides the deeds of a restore into those that are done and those that are left out."""

    def __init__(self, held: HeldFiles, seen: Mapping[str, SeenDir]) -> None:
        self._held = held
        self._seen = seen
        self._inodes = _held_inodes(held, seen)
        self._above = frozenset(_parents_of((*held.files, *held.directories)))

    def divide(self, deeds: Mapping[str, list[Deed]]) -> tuple[dict[str, list[Deed]], list[str]]:
        """The deeds to do, by root, and the paths that stay other than they were recorded."""
        if self._held.is_empty:
            return dict(deeds), []
        paths = {
            full_path(root, deed_parts(deed)): deed
            for root, some in deeds.items()
            for deed in some
            if not isinstance(deed, Sealing)
        }
        kept = {path for path, deed in paths.items() if self._is_kept(path, deed)}
        # A held file that stays other may refer to what lies beside and below it.
        others = {path for path in kept if self.is_held(path)}
        around = {_split(path)[0] for path in others}
        kept |= {
            path
            for path, deed in paths.items()
            if (isinstance(deed, Removal) and _is_in(path, around)) or _is_named_after(path, others)
        }
        chosen = {
            root: [deed for deed in some if not _is_left_out(root, deed, kept)]
            for root, some in deeds.items()
        }
        return chosen, sorted(kept)

    def is_held(self, path: str) -> bool:
        """Return whether a process has the file open or maps it, under this or another of its
        names."""
        if path in self._held.files:
            return True
        seen = find_seen(self._seen, path)
        return seen is not None and seen.inode in self._inodes

    def _is_kept(self, path: str, deed: Deed) -> bool:
        if isinstance(deed, Writing) and deed.has_same_bytes:
            return False  # only its mode is set, which harms nobody who has it open
        if self.is_held(path) or _is_journal_of(path, self._held.files):
            return True
        takes_away = isinstance(deed, Removal) or (isinstance(deed, Making) and deed.has_other)
        return takes_away and (path in self._above or path in self._held.directories)


def _held_inodes(held: HeldFiles, seen: Mapping[str, SeenDir]) -> set[int]:
    """Return the inode numbers, as a scan sees them, of all held files that were seen. A path leads
    to the right one. The number that processes see does not always: in an overlay a file that was
    copied up keeps the number that it has in its source."""
    inodes = {found.inode for path in held.files if (found := find_seen(seen, path)) is not None}
    roots = tuple(f"{root}/" for root in seen)
    nameless = {inode: path for path, inode in held.nameless if path.startswith(roots)}
    if unknown := nameless.keys() - {one.inode for one in every_seen(seen)}:
        raise HostCannot(
            f"{shown(nameless[min(unknown)])} is held open by a program, and its other names cannot"
            " be found",
            hint="choose another step, at which it is closed",
        )
    return inodes | nameless.keys()


def full_path(root: str, parts: Collection[str]) -> str:
    """A path as the processes see it; the root over a template's own files has an empty name."""
    return "/".join((root, *parts)) or "/"


def _is_left_out(root: str, deed: Deed, kept: Collection[str]) -> bool:
    """Return what lies below a name that stays as it is cannot be made either."""
    parts = deed_parts(deed)
    return any(full_path(root, parts[:length]) in kept for length in range(1, len(parts) + 1))


def _is_journal_of(path: str, held: Collection[str]) -> bool:
    return any(path[: path.rfind(one)] in held for one in _JOURNALS if one in path)


def _is_named_after(path: str, held: Collection[str]) -> bool:
    """Return whether a path is the name of one of these files with something behind it."""
    start = path.rfind("/") + 1
    ends = (at for at in range(start, len(path)) if path[at] in _JOINS_NAMES)
    return any(path[:end] in held for end in ends)


def _is_in(path: str, directories: Collection[str]) -> bool:
    return any(parent in directories for parent in _parents_of((path,)))


def _parents_of(paths: Collection[str]) -> Iterator[str]:
    for path in paths:
        while path := _split(path)[0]:
            yield path


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory, name


def is_unwritten(deed: Deed, now: Node | None, first: Node | None) -> bool:
    """Return whether the file that a deed would change is as the agent found it when it began: then
    the recorded bytes are not the agent's own work."""
    if isinstance(deed, Making) and deed.node.kind is NodeKind.FILE and not deed.has_other:
        return True  # the process reads the source's own file, which has never been written to
    if not isinstance(deed, Writing) or now is None or first is None:
        return False
    return (now.digest, now.size) == (first.digest, first.size)
