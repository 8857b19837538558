"""Objects under their SHA-256, one file each: `ab/ab12...` below a directory.

An object is written to a file of its own and then renamed to its name, so whatever has its name is
whole, and two writers of the same bytes do each other no harm. Every byte is checked when it is
read. How an object gets to disk depends on what a loss would mean, so there are three ways:

1. `ObjectStore.put` syncs nothing. After a crash an object may be missing or empty, never wrong,
   and whoever has its bytes writes it again.
2. A store with `is_durable` keeps new files open until `flush` has synced them and their names.
3. `ObjectStore.batch` stages new objects and gives them their names together, once all of them are
   on disk. They are removed if `publish` is not called.

Only one who alone uses a store may call `sweep`: a writer may be about to use any object.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
import secrets
import shutil
import stat
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType

from paddock.model.errors import IntegrityError
from paddock.objects.file_bytes import (
    CHUNK_BYTES,
    chunks,
    digest_of,
    sync_directory,
    sync_file_system,
    write_sparse,
)

DIGEST = re.compile(r"[0-9a-f]{64}")
# More than any object whose bytes are needed at once; anything larger is not ours.
MAX_READ_BYTES = 256 << 20
# Read at once; larger files are read in pieces.
_SMALL_BYTES = 1 << 20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PLAIN, _COMPRESSED = b"0", b"1"
# A block of the disk is this large: to compress less saves nothing.
_LEAST_COMPRESSED = 4096
# Larger objects are mostly archives and media, and are read in pieces, which needs plain bytes.
_MOST_COMPRESSED = 1 << 20
_MAX_OPEN = 64  # files that wait for a flush; further ones are synced at once
# From here on one sync of the file system is cheaper than one for every file.
_MANY_FILES = 16


class Framing(enum.Enum):
    """The layout of an object's bytes in its file."""

    RAW = "raw"  # as they are
    MARKED = "marked"  # behind a byte that says whether they are compressed


class ObjectMissing(IntegrityError):
    """There is no object of that digest."""


class ObjectWriter(ABC):
    """Stores bytes that are not stored yet. The store itself and a batch differ in when a new
    object gets its name."""

    framing: Framing

    def put(self, data: bytes) -> tuple[str, bool]:
        """Store bytes; return their digest, and whether they are new here."""
        digest = hashlib.sha256(data).hexdigest()
        is_new = not self.has(digest, len(data))
        if is_new:
            self.add(digest, data)
        return digest, is_new

    def add(self, digest: str, data: bytes) -> None:
        """Store bytes that are not there, under their digest."""
        framed = data if self.framing is Framing.RAW else _marked(data)
        self._finish(*self._stage((framed,)), digest)

    def put_chunks(self, data: Iterable[bytes]) -> tuple[str, int]:
        """Store bytes that come in pieces as one object; return its digest and size."""
        state, size = hashlib.sha256(), 0

        def hashed() -> Iterator[bytes]:
            nonlocal size
            for chunk in data:
                state.update(chunk)
                size += len(chunk)
                yield chunk

        mark = () if self.framing is Framing.RAW else (_PLAIN,)
        fd, path = self._stage(chain(mark, hashed()))
        digest = state.hexdigest()
        if self.has(digest, size):
            os.close(fd)
            os.unlink(path)
        else:
            self._finish(fd, path, digest)
        return digest, size

    def put_file(self, source: int, size: int) -> tuple[str, int]:
        """Store the first `size` bytes of an open file that may be changing: what is hashed is what
        is stored. Return the digest and how many bytes there really were."""
        if size <= _SMALL_BYTES:
            data = b"".join(chunks(source, ((0, size),)))
            return self.put(data)[0], len(data)
        digest = digest_of(source, size)
        if self.has(digest, size):
            return digest, size
        return self.put_chunks(chunks(source, ((0, size),)))

    @abstractmethod
    def has(self, digest: str, size: int | None = None) -> bool:
        """Return whether an object is there and, where that can be seen, not cut short: a damaged
        one is written again by whoever has its bytes."""

    @abstractmethod
    def _stage(self, pieces: Iterable[bytes]) -> tuple[int, str]:
        """Write pieces to a new file; return its descriptor and path."""

    @abstractmethod
    def _finish(self, fd: int, path: str, digest: str) -> None:
        """Take over a file that was written whole."""


class ObjectStore(ObjectWriter):
    """The objects below one directory, which is made when the first one is written."""

    def __init__(
        self,
        directory: Path,
        *,
        framing: Framing,
        staging: Path | None = None,
        is_durable: bool = False,
        noun: str = "object",
    ) -> None:
        """`staging` is on the same file system; without it new files begin in `directory`. `noun`
        is what messages call an object."""
        self.framing = framing
        self.directory = directory
        self._root = os.fspath(directory)
        self._staging = self._root if staging is None else os.fspath(staging)
        self._is_durable = is_durable
        self._noun = noun
        self._guard = threading.Lock()
        self._unsynced: list[int] = []
        self._changed: set[str] = set()  # directories with names that are not on disk yet

    def has(self, digest: str, size: int | None = None) -> bool:
        try:
            st = os.stat(self.path(digest), follow_symlinks=False)
        except FileNotFoundError:
            return False
        if self.framing is Framing.MARKED:
            return st.st_size > 0  # an object has at least its mark; a crash leaves an empty file
        return size is None or st.st_size == size

    def path(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"

    def read(self, digest: str, limit: int = MAX_READ_BYTES) -> bytes:
        """Return all bytes of an object, checked. Raises IntegrityError if they are not there, are
        others, or are more than `limit`."""
        pieces, size = [], 0
        for chunk in self.chunks(digest):
            size += len(chunk)
            if size > limit:
                raise IntegrityError(f"{self._noun} {digest} is larger than {limit} bytes")
            pieces.append(chunk)
        return b"".join(pieces)

    def chunks(self, digest: str) -> Iterator[bytes]:
        """Yield the bytes of an object in pieces; the error for changed ones comes after the last
        one."""
        state = hashlib.sha256()
        for chunk in self._unchecked(digest):
            state.update(chunk)
            yield chunk
        if state.hexdigest() != digest:
            raise self._changed_object(digest)

    def open(self, digest: str) -> int:
        """Open the file of an object. Its digest is for the reader to check while it reads."""
        if DIGEST.fullmatch(digest) is None:
            raise IntegrityError(f"{digest[:80]!r} is not the digest of an object")
        try:
            fd = os.open(self.path(digest), _READ_FLAGS)
        except FileNotFoundError:
            raise ObjectMissing(f"{self._noun} {digest} is missing") from None
        except OSError as error:
            text = f"{self._noun} {digest} is unreadable: {error.strerror}"
            raise IntegrityError(text) from None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise IntegrityError(f"{self._noun} {digest} is unreadable: it is not a file")

    def batch(self) -> ObjectBatch:
        """Return a writer for objects that get their names together."""
        return ObjectBatch(self)

    def flush(self) -> None:
        """Return when every object that was put is on disk, in a store that `is_durable`."""
        with self._guard:
            fds, self._unsynced = self._unsynced, []
            directories, self._changed = self._changed, set()
        try:
            for fd in fds:
                os.fdatasync(fd)
        finally:
            for fd in fds:
                os.close(fd)
        for directory in directories:
            sync_directory(Path(directory))

    def close(self) -> None:
        """Let go of what was not flushed."""
        with self._guard:
            for fd in self._unsynced:
                os.close(fd)
            self._unsynced = []

    def sweep(self, used: set[str], *, older_than_s: float = 0.0) -> int:
        """Remove older objects that are not in `used`, and what crashed writers left; return their
        bytes. Only while nobody else uses the store."""
        freed = 0
        for path, size in self.unused(used, older_than_s=older_than_s):
            os.unlink(path)
            freed += size
        if self._staging != self._root and os.path.isdir(self._staging):
            # Earlier versions staged the objects of one writer in a directory of its own.
            for entry in os.scandir(self._staging):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
        return freed

    def unused(self, used: set[str], *, older_than_s: float = 0.0) -> Iterator[tuple[str, int]]:
        """Yield path and size of what `sweep` removes. What vanishes meanwhile is left out."""
        latest = time.time() - older_than_s
        for entry in self._files():
            with contextlib.suppress(FileNotFoundError):
                st = entry.stat(follow_symlinks=False)
                is_file = not stat.S_ISDIR(st.st_mode)
                if is_file and entry.name not in used and st.st_mtime <= latest:
                    yield entry.path, st.st_size

    def _files(self) -> Iterator[os.DirEntry[str]]:
        with contextlib.suppress(FileNotFoundError):
            for prefix in os.listdir(self._root):
                with os.scandir(f"{self._root}/{prefix}") as entries:
                    yield from entries
            with os.scandir(self._staging) as entries:
                yield from entries

    def _unchecked(self, digest: str) -> Iterator[bytes]:
        fd = self.open(digest)
        try:
            at = 0
            if self.framing is Framing.MARKED:
                mark, at = os.pread(fd, 1, 0), 1
                if mark == _COMPRESSED:
                    yield self._decompressed(digest, os.pread(fd, _MOST_COMPRESSED + 1, 1))
                    return
                if mark != _PLAIN:
                    raise self._changed_object(digest)
            while chunk := os.pread(fd, CHUNK_BYTES, at):
                yield chunk
                at += len(chunk)
        finally:
            os.close(fd)

    def _decompressed(self, digest: str, data: bytes) -> bytes:
        try:
            plain = zlib.decompressobj().decompress(data, _MOST_COMPRESSED + 1)
        except zlib.error:
            plain = b""
        if not 0 < len(plain) <= _MOST_COMPRESSED:
            raise self._changed_object(digest)
        return plain

    def _changed_object(self, digest: str) -> IntegrityError:
        return IntegrityError(f"{self._noun} {digest} was changed or damaged")

    def _stage(self, pieces: Iterable[bytes]) -> tuple[int, str]:
        path = f"{self._staging}/.{secrets.token_hex(8)}"
        try:
            fd = os.open(path, _NEW_FILE, 0o600)
        except FileNotFoundError:
            self._make_directory(self._staging)
            fd = os.open(path, _NEW_FILE, 0o600)
        try:
            size = 0
            for piece in pieces:
                write_sparse(fd, piece, size)
                size += len(piece)
            os.ftruncate(fd, size)
        except BaseException:
            os.close(fd)
            os.unlink(path)
            raise
        return fd, path

    def _finish(self, fd: int, path: str, digest: str) -> None:
        try:
            self._rename(path, digest)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        if not self._is_durable:
            os.close(fd)
            return
        with self._guard:
            self._changed.add(os.path.dirname(self.path(digest)))
            if len(self._unsynced) < _MAX_OPEN:
                self._unsynced.append(fd)
                return
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def _rename(self, path: str, digest: str) -> None:
        target = self.path(digest)
        try:
            os.rename(path, target)
        except FileNotFoundError:
            self._make_directory(os.path.dirname(target))
            os.rename(path, target)

    def _make_directory(self, directory: str) -> None:
        missing = []
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for new in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(new, 0o700)
        if self._is_durable:
            with self._guard:
                self._changed.update(map(os.path.dirname, missing))


class ObjectBatch(ObjectWriter):
    """New objects of one writer: unnamed until `publish`, gone if that is not called."""

    def __init__(self, store: ObjectStore) -> None:
        self.framing = store.framing
        self._store = store
        self._staged: dict[str, str] = {}  # paths by digest

    def __enter__(self) -> ObjectBatch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for path in self._staged.values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def has(self, digest: str, size: int | None = None) -> bool:
        return digest in self._staged or self._store.has(digest, size)

    def publish(self) -> None:
        """Give all staged objects their names, once their bytes are on disk."""
        if not self._staged:
            return
        _sync_files(list(self._staged.values()))
        for digest, path in self._staged.items():
            self._store._rename(path, digest)
        directories = {os.path.dirname(self._store.path(digest)) for digest in self._staged}
        _sync_files([*directories, *{os.path.dirname(directory) for directory in directories}])
        self._staged.clear()

    def _stage(self, pieces: Iterable[bytes]) -> tuple[int, str]:
        return self._store._stage(pieces)

    def _finish(self, fd: int, path: str, digest: str) -> None:
        os.close(fd)
        self._staged[digest] = path


def _marked(data: bytes) -> bytes:
    if _LEAST_COMPRESSED <= len(data) <= _MOST_COMPRESSED:
        compressed = zlib.compress(data, 1)
        if len(compressed) < len(data) - len(data) // 8:
            return _COMPRESSED + compressed
    return _PLAIN + data


def _sync_files(paths: list[str]) -> None:
    """Return when files or directories of one file system are on disk."""
    are_many = len(paths) >= _MANY_FILES
    for path in paths[:1] if are_many else paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if are_many:
                sync_file_system(fd)
            else:
                os.fsync(fd)
        finally:
            os.close(fd)
