"""The recorder of the state of some directories: at any time, again and again, each state named by
one digest.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.objects.file_bytes import chunks
from paddock.objects.store import ObjectStore
from paddock.state.disk_space import check_space
from paddock.state.files.descent import open_file
from paddock.state.trees.held_files import MappedFiles
from paddock.state.trees.large_files import SPLIT_ABOVE, TooManyParts, split
from paddock.state.trees.nodes import Node, StoredTree, bytes_of_tree
from paddock.state.trees.scan import (
    MAX_ENTRIES,
    UNTRUSTED,
    RootScan,
    SeenDir,
    SeenFile,
    TakenFile,
    every_seen,
    file_clock_ns,
    find_seen,
    is_same,
)

# A file with more bytes than this is read once at a step, also if it changes meanwhile, and all
# such files together only so far: to read them at every step would be a way to stop the run. What
# is not read is known by its size. The last state is always read.
MAX_READ_OFTEN_BYTES = 256 << 20
MAX_REREAD_BYTES = 32 << 30
# Of directories, beyond what may be stored. After that nothing is recorded but the last state.
MAX_DIRECTORY_BYTES = 256 << 20
# Read at once; larger files are read in pieces.
_SMALL_BYTES = 1 << 20
_TRIES = 3
_MAX_STORED = 200_000  # digests in memory
_NOTHING_MAPPED = MappedFiles({})
MAX_AT_ONCE = 200  # entries that are looked at without a thread: well below a millisecond


class Recorded(msgspec.Struct, frozen=True):
    """One state: its digest, the paths that changed since the last one (each begins with the name
    of its root), how many entries there are, whether that is all of them, and, of the final one,
    how many files are not in the store."""

    tree: str
    changed: tuple[str, ...]
    total: int
    is_whole: bool = True
    unstored: int = 0


class Recorder:
    """Records the same directories as often as wanted; what has not changed is not read again."""

    def __init__(
        self,
        objects: ObjectStore | None,
        roots: Mapping[str, Path],
        *,
        mapped: Callable[[], MappedFiles] | None = None,
        may_store: Callable[[int], bool] | None = None,
    ) -> None:
        """Without a store it only finds out what the state is. `mapped` gives the files that
        are mapped shared at the moment; without it nobody is expected to have any. `may_store` is
        asked before something new is stored; without it everything is."""
        self._mapped = mapped
        self.roots = dict(roots)
        self.seen = {name: SeenDir() for name in roots}
        self._keeper = FileKeeper(objects, may_store)
        self._last = ("", False)
        self._turn = threading.Lock()  # actions in flight together are recorded one by one

    def record(self, *, is_final: bool = False) -> Recorded:
        """Return the state now. The final one is stored in full, whatever was stored before. Raises
        OSError when a root is gone, the store cannot be written, or nothing more may be stored in
        it, and OutOfSpace when its disk has no room but what is reserved."""
        with self._turn:
            if is_final:
                self._keeper.is_final = True
                self._keeper.check_space()
                for file in self._unstored():
                    file.changed_ns = UNTRUSTED
                return replace(self._record(), unstored=sum(1 for _ in self._unstored()))
            if self._keeper.is_full:
                raise used_up()
            return self._record()

    def unchanged(self) -> Recorded | None:
        """Return the last state, if it is certainly still the one, and if few looks are enough to
        know it: for a caller who must not wait. None says nothing."""
        total = sum(root_dir.entries for root_dir in self.seen.values())
        tree, was_cut = self._last
        if not tree or was_cut or total > MAX_AT_ONCE or not self._turn.acquire(blocking=False):
            return None
        try:
            if self._mapped is not None and total:
                return None  # to find out who maps what takes as long as an agent wants
            if all(is_same(root, self.seen[name]) for name, root in self.roots.items()):
                return Recorded(tree, (), total)
            return None
        finally:
            self._turn.release()

    def _unstored(self) -> Iterator[SeenFile]:
        """Return the files of which not all bytes are in the store."""
        return (file for file in every_seen(self.seen) if not file.node.is_kept)

    def _mapped_files(self) -> MappedFiles:
        return _NOTHING_MAPPED if self._mapped is None else self._mapped()

    def _distrust(self, mapped: MappedFiles) -> None:
        """Have files read again that are mapped shared. The kernel stamps a mapped page when it is
        first written, and again only after it has been written back: until then the stamp of a file
        says nothing about its bytes.

        Done before a scan, and once more after it: what is written through a map after the scan
        may have the stamp that the scan saw, and need not be mapped at the next one any more. A
        file that comes to be mapped during the scan gets a stamp that is not older than the scan,
        because its clock is read before it is asked what is mapped."""
        roots = tuple(f"{name}/" for name in self.roots)
        paths = [path for path in mapped.inodes if path.startswith(roots)]
        is_unknown = not mapped.is_complete or any(
            path.startswith(roots) for path in mapped.nameless
        )
        if not paths and not is_unknown:
            return
        inodes = {mapped.inodes[path] for path in paths}
        # In an overlay the scan may see another number than processes do; the path leads to it.
        inodes |= {seen.inode for path in paths if (seen := find_seen(self.seen, path))}
        for file in every_seen(self.seen):
            if is_unknown or file.inode in inodes:
                file.changed_ns = UNTRUSTED

    def _record(self) -> Recorded:
        now_ns = file_clock_ns()
        mapped = self._mapped_files()
        self._distrust(mapped)
        changed: list[str] = []
        room, is_cut = MAX_ENTRIES, False
        for name, root in self.roots.items():
            scan = RootScan(self._keeper, name, room, now_ns)
            try:
                scan.run(root, self.seen[name])
            except InvalidInput:
                raise FileNotFoundError(errno.ENOENT, "its files are gone", str(root)) from None
            except BaseException:
                self.seen[name] = SeenDir()  # half of it is old, half is new
                raise
            changed += scan.changed
            room, is_cut = scan.room, is_cut or scan.is_cut
        self._distrust(mapped)
        tree, was_cut = self._last
        if changed or not tree or is_cut != was_cut:
            tree = self._keeper.take_object(bytes_of_tree(StoredTree(self._nodes(), is_cut)))
            self._last = tree, is_cut
        total = sum(root_dir.entries for root_dir in self.seen.values())
        return Recorded(tree, tuple(dict.fromkeys(changed)), total, not is_cut)

    def _nodes(self) -> dict[str, Node]:
        return {name: seen.node for name, seen in self.seen.items() if seen.node is not None}


class FileKeeper:
    """Reads files that may be changing, and stores what it read where there is a store."""

    def __init__(
        self, objects: ObjectStore | None, may_store: Callable[[int], bool] | None
    ) -> None:
        self._objects = objects
        self._may_store = may_store
        self._stored: set[str] = set()
        self._unread_bytes = MAX_REREAD_BYTES
        self._directory_bytes = MAX_DIRECTORY_BYTES
        self.is_final = False  # the last state is stored whatever it takes
        self.is_full = False  # not even a directory could be stored

    def take_object(self, data: bytes) -> str:
        digest, is_stored = self._put(data)
        if is_stored or self._objects is None:
            return digest
        # Without directories nothing would be known of a state, not even the digests of its files.
        self._directory_bytes -= len(data)
        if self._directory_bytes < 0:
            self.is_full = True
            raise used_up()
        self._store(digest, data)
        return digest

    def check_space(self) -> None:
        """Raise OutOfSpace where storing more would take what is reserved on the disk."""
        if self._objects is not None:
            check_space(self._objects.directory)

    def take_file(self, name: str, dir_fd: int) -> TakenFile | None:
        """Read a file. Returns None when it is gone, or no regular file any more."""
        fd = open_file(name, dir_fd, lift=True)
        if fd is None:
            return None
        try:
            return self._steady(fd)
        finally:
            os.close(fd)

    def _steady(self, fd: int) -> TakenFile:
        """Return what was read while nothing changed; after some tries whatever was read."""
        before = os.fstat(fd)
        for _ in range(_TRIES):
            content = self._read(fd, before)
            after = os.fstat(fd)
            is_steady = _stamp(before) == _stamp(after) and content.size == after.st_size
            if is_steady or content.size > MAX_READ_OFTEN_BYTES:
                break
            before = after
        return TakenFile(
            after, content.digest, content.size, content.is_kept, is_steady, content.is_split
        )

    def _read(self, fd: int, st: os.stat_result) -> _Content:
        """Return the content of a file. The bytes that are hashed are those that are stored, so a
        digest never belongs to other bytes."""
        if st.st_size <= _SMALL_BYTES:
            data = os.pread(fd, st.st_size, 0) if st.st_size else b""
            digest, is_kept = self._put(data)
            return _Content(digest, len(data), is_kept)
        if st.st_size <= SPLIT_ABOVE:
            return self._read_whole(fd, st.st_size)
        return self._read_in_parts(fd, st)

    def _read_whole(self, fd: int, size: int) -> _Content:
        digest, taken = _hashed(fd, size)
        if self._objects is None or self._is_stored(digest):
            return _Content(digest, taken, True)
        if not self._may(taken):
            return _Content(digest, taken, False)
        # Read once more: it may have changed meanwhile, and then this is what it is.
        digest, taken = self._objects.put_chunks(self._while_room(chunks(fd, ((0, size),))))
        return _Content(digest, taken, True)

    def _read_in_parts(self, fd: int, st: os.stat_result) -> _Content:
        unread = _Content("", st.st_size, False)
        allocated = min(st.st_size, st.st_blocks * 512)
        if allocated > MAX_READ_OFTEN_BYTES and not self.is_final:
            self._unread_bytes -= allocated
            if self._unread_bytes < 0:
                return unread
        is_kept = True

        def put(data: bytes) -> str:
            nonlocal is_kept
            digest, is_stored = self._put(data)
            is_kept &= is_stored
            return digest

        try:
            listed, size = split(fd, st.st_size, put)
        except TooManyParts:
            return unread
        digest = put(listed)
        return _Content(digest, size, is_kept, is_split=True)

    def _put(self, data: bytes) -> tuple[str, bool]:
        """Return the digest of some bytes, and whether they are in the store, if there is one."""
        digest = hashlib.sha256(data).hexdigest()
        if self._objects is None or self._is_stored(digest):
            return digest, True
        if not self._may(len(data)):
            return digest, False
        self._store(digest, data)
        return digest, True

    def _store(self, digest: str, data: bytes) -> None:
        assert self._objects is not None
        self.check_space()
        self._objects.add(digest, data)
        self._note_stored(digest)

    def _is_stored(self, digest: str) -> bool:
        """Return whether an object is in the store. What was found there once stays while a run
        records, and is not looked for again."""
        assert self._objects is not None
        if digest in self._stored:
            return True
        if not self._objects.has(digest):
            return False
        self._note_stored(digest)
        return True

    def _note_stored(self, digest: str) -> None:
        if len(self._stored) >= _MAX_STORED:
            self._stored.clear()
        self._stored.add(digest)

    def _while_room(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.check_space()
            yield piece

    def _may(self, size: int) -> bool:
        return self.is_final or self._may_store is None or self._may_store(size)


class _Content(msgspec.Struct, frozen=True):
    """The content of a file as it was read, and whether its bytes are in the store."""

    digest: str
    size: int
    is_kept: bool
    is_split: bool = False


def used_up() -> OSError:
    """Return the error for a state that has no room in the record any more."""
    return OSError(errno.EFBIG, "the run's record budget is used up")


def _stamp(st: os.stat_result) -> tuple[int, int, int]:
    return st.st_ctime_ns, st.st_size, st.st_mode


def _hashed(fd: int, size: int) -> tuple[str, int]:
    state, taken = hashlib.sha256(), 0
    for piece in chunks(fd, ((0, size),)):
        state.update(piece)
        taken += len(piece)
    return state.hexdigest(), taken
