"""The state of some directories at one moment, again and again, each named by one digest."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from paddock.model.errors import InvalidInput
from paddock.model.values import dataclass
from paddock.state.copying import CHUNK_BYTES
from paddock.state.descent import open_file
from paddock.state.trees.nodes import Node, Tree, bytes_of_tree
from paddock.state.trees.objects import Objects
from paddock.state.trees.scanning import MAX_ENTRIES, Scan, SeenDir, TakenFile, is_same

# A larger file is known by its digest only, and a still larger one by its size: to read it at each
# step would be a way to stop the run.
MAX_KEPT_BYTES = 64 << 20
MAX_HASHED_BYTES = 256 << 20
# What one run may add to the store: as much in files, and as much in directories. Without room for
# a file it is known by its digest; without room for a directory nothing is recorded any more.
MAX_RUN_BYTES = 2 << 30
# Read at once; larger files are read in pieces.
_SMALL_BYTES = 1 << 20
_TRIES = 3
MAX_AT_ONCE = 200  # entries that are looked at without a thread: well below a millisecond


@dataclass(frozen=True, slots=True)
class Recorded:
    """One state: its digest, the paths that changed since the last one (each begins with the name
    of its root), how many entries there are, and whether that is all of them."""

    tree: str
    changed: tuple[str, ...]
    total: int
    is_whole: bool = True


class Recorder:
    """Records the same directories as often as wanted; what has not changed is not read again."""

    def __init__(self, objects: Objects | None, roots: Mapping[str, Path]) -> None:
        """Without a store it only finds out what the state is."""
        self.roots = dict(roots)
        self.seen = {name: SeenDir() for name in roots}
        self._keeper = FileKeeper(objects)
        self._last = ("", False)
        self._turn = threading.Lock()  # actions in flight together are recorded one by one

    def record(self) -> Recorded:
        """The state now. OSError when a root is gone or the store cannot be written."""
        with self._turn:
            return self._record()

    def unchanged(self) -> Recorded | None:
        """The last state, if it is certainly still the one, and if few looks are enough to know
        it: for who must not wait. None says nothing."""
        total = sum(one.entries for one in self.seen.values())
        tree, was_cut = self._last
        if not tree or was_cut or total > MAX_AT_ONCE or not self._turn.acquire(blocking=False):
            return None
        try:
            if all(is_same(root, self.seen[name]) for name, root in self.roots.items()):
                return Recorded(tree, (), total)
            return None
        finally:
            self._turn.release()

    def _record(self) -> Recorded:
        changed: list[str] = []
        room, is_cut = MAX_ENTRIES, False
        for name, root in self.roots.items():
            scan = Scan(self._keeper, name, room)
            try:
                scan.run(root, self.seen[name])
            except InvalidInput:
                raise FileNotFoundError(errno.ENOENT, "its files are gone", str(root)) from None
            except BaseException:
                self.seen[name] = SeenDir()  # half of it is old, half is new
                raise
            changed += scan.changed
            room, is_cut = scan.room, is_cut or scan.is_cut
        tree, was_cut = self._last
        if changed or not tree or is_cut != was_cut:
            tree = self._keeper.take_object(bytes_of_tree(Tree(self._nodes(), is_cut)))
            self._last = tree, is_cut
        total = sum(one.entries for one in self.seen.values())
        return Recorded(tree, tuple(dict.fromkeys(changed)), total, not is_cut)

    def _nodes(self) -> dict[str, Node]:
        return {name: one.node for name, one in self.seen.items() if one.node is not None}


class FileKeeper:
    """Reads files that may be changing, and keeps what it read where there is a store."""

    def __init__(self, objects: Objects | None) -> None:
        self._objects = objects
        self._room = self._directory_room = MAX_RUN_BYTES

    def take_object(self, data: bytes) -> str:
        if self._objects is None:
            return hashlib.sha256(data).hexdigest()
        digest, is_new = self._objects.put(data)
        if is_new:
            self._directory_room -= len(data)
        if self._directory_room < 0:
            raise OSError(errno.EDQUOT, "the run has used up its share of the store")
        return digest

    def take_file(self, name: str, dir_fd: int) -> TakenFile | None:
        """None when it is gone, or no regular file any more."""
        fd = open_file(name, dir_fd, lift=True)
        if fd is None:
            return None
        try:
            return self._steady(fd)
        finally:
            os.close(fd)

    def _steady(self, fd: int) -> TakenFile:
        """What was read while nothing changed; after some tries whatever was read."""
        before = os.fstat(fd)
        for _ in range(_TRIES):
            digest, size, is_kept = self._read(fd, before.st_size)
            after = os.fstat(fd)
            is_steady = _stamp(before) == _stamp(after) and size == after.st_size
            if is_steady:
                break
            before = after
        return TakenFile(after, digest, size, is_kept, is_steady)

    def _read(self, fd: int, size: int) -> tuple[str, int, bool]:
        """Digest, size and whether the bytes are kept. What is hashed is what is kept."""
        if size <= _SMALL_BYTES:
            return self._read_small(fd, size)
        if size > MAX_HASHED_BYTES:
            return "", size, False
        if self._objects is None:  # as it would be kept, so that both give the same digest
            return *_hashed(fd, size), size <= MAX_KEPT_BYTES
        if size > min(MAX_KEPT_BYTES, self._room):
            return *_hashed(fd, size), False
        digest, taken, is_new = self._objects.put_chunks(_pieces(fd, size))
        if is_new:
            self._room -= taken
        return digest, taken, True

    def _read_small(self, fd: int, size: int) -> tuple[str, int, bool]:
        data = os.pread(fd, size, 0) if size else b""
        if self._objects is None or size > self._room:
            return hashlib.sha256(data).hexdigest(), len(data), self._objects is None
        digest, is_new = self._objects.put(data)
        if is_new:
            self._room -= len(data)
        return digest, len(data), True


def _stamp(st: os.stat_result) -> tuple[int, int, int]:
    return st.st_ctime_ns, st.st_size, st.st_mode


def _hashed(fd: int, size: int) -> tuple[str, int]:
    state, taken = hashlib.sha256(), 0
    for piece in _pieces(fd, size):
        state.update(piece)
        taken += len(piece)
    return state.hexdigest(), taken


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    at = 0
    while at < size and (piece := os.pread(fd, min(CHUNK_BYTES, size - at), at)):
        yield piece
        at += len(piece)
