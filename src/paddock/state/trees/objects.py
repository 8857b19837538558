"""Objects under their SHA-256, one file each, shared by all runs. Knows neither trees nor names.

An object is written under a name of its own and renamed, so that whatever has its place is whole;
two writers of the same bytes do each other no harm. Nothing is synced: a lost write shows as an
empty or missing object, which is written again by whoever has its bytes, and never as a wrong one,
because every byte that is read back is checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock.model.errors import IntegrityError
from paddock.state.disk_space import check_space
from paddock.state.files.descent import FILE_FLAGS
from paddock.state.files.file_copy import CHUNK_BYTES, write_at
from paddock.state.snapshots.entries import DIGEST
from paddock.state.trees.large_files import write_sparse

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN, _PACKED = b"0", b"1"
# A block of the disk is this large: to press less saves nothing.
_LEAST_PACKED = 4096
# Larger ones are mostly archives and media; and they are read in pieces, which packed ones are not.
_MOST_PACKED = 1 << 20
# A directory's object of as many nodes as a tree may have; anything larger is not ours.
MAX_READ_BYTES = 256 << 20
_MAX_KNOWN = 200_000  # digests in memory


class Objects:
    """The objects below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root / "objects")
        self._staging = os.fspath(root / "tmp")
        for directory in (os.fspath(root), self._root, self._staging):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        self._known: set[str] = set()  # that are certainly there: spares a look at the disk
        self._made: set[str] = set()

    def put(self, data: bytes) -> tuple[str, bool]:
        """Stores bytes; gives their digest, and whether they are new here."""
        digest = hashlib.sha256(data).hexdigest()
        if self.has(digest):
            return digest, False
        with self._new_file() as (fd, path):
            write_at(fd, _stored_form(data), 0)
            self._place(path, digest)
        return digest, True

    def put_chunks(self, data: Iterable[bytes]) -> tuple[str, int, bool]:
        """Bytes that come in pieces, as one object: digest, size, and whether it is new here."""
        state, size = hashlib.sha256(), 0
        with self._new_file() as (fd, path):
            write_at(fd, _PLAIN, 0)
            for chunk in data:
                write_sparse(fd, chunk, 1 + size)
                state.update(chunk)
                size += len(chunk)
            os.ftruncate(fd, 1 + size)
            digest = state.hexdigest()
            is_new = not self.has(digest)
            if is_new:
                self._place(path, digest)
        return digest, size, is_new

    def check_space(self) -> None:
        """Raise OutOfSpace when the disk has no room but what is reserved."""
        check_space(Path(self._root))

    def has(self, digest: str) -> bool:
        if digest in self._known:
            return True
        try:
            # An object has at least its first byte; an empty file is one that a crash left.
            is_there = os.stat(self.path(digest), follow_symlinks=False).st_size > 0
        except FileNotFoundError:
            return False
        if is_there:
            self._know(digest)
        return is_there

    def path(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"

    def read(self, digest: str, limit: int = MAX_READ_BYTES) -> bytes:
        """All bytes of an object, checked. `IntegrityError` if they are not there or not they."""
        found, size = [], 0
        for chunk in self.chunks(digest):
            size += len(chunk)
            if size > limit:
                raise IntegrityError(f"object {digest} is larger than {limit} bytes")
            found.append(chunk)
        return b"".join(found)

    def chunks(self, digest: str) -> Iterator[bytes]:
        """The bytes of an object in pieces; the error for damaged ones comes after the last."""
        state = hashlib.sha256()
        for chunk in self._unchecked(digest):
            state.update(chunk)
            yield chunk
        if state.hexdigest() != digest:
            raise IntegrityError(f"object {digest} was changed or damaged")

    def sweep(self, used: set[str], *, older_than_s: float) -> int:
        """Removes older objects that are not in `used`, and what crashed writers left; gives the
        bytes. Only while nobody writes."""
        freed = 0
        self._known.clear()
        for path, size in self.unused(used, older_than_s=older_than_s):
            os.unlink(path)
            freed += size
        return freed

    def unused(self, used: set[str], *, older_than_s: float) -> Iterator[tuple[str, int]]:
        """Paths and sizes of what `sweep` removes. What vanishes meanwhile is left out."""
        latest = time.time() - older_than_s
        places = [f"{self._root}/{home}" for home in os.listdir(self._root)]
        for place in (*places, self._staging):
            with os.scandir(place) as found:
                for one in found:
                    with contextlib.suppress(FileNotFoundError):
                        st = one.stat(follow_symlinks=False)
                        if one.name not in used and st.st_mtime <= latest:
                            yield one.path, st.st_size

    def _unchecked(self, digest: str) -> Iterator[bytes]:
        if DIGEST.fullmatch(digest) is None:
            raise IntegrityError(f"{digest[:80]!r} is no digest of an object")
        try:
            fd = os.open(self.path(digest), FILE_FLAGS)
        except OSError as error:
            raise IntegrityError(f"object {digest} cannot be read: {error.strerror}") from None
        try:
            form, at = os.pread(fd, 1, 0), 1
            if form == _PACKED:
                yield _unpacked(digest, os.pread(fd, _MOST_PACKED + 1, 1))
                return
            if form != _PLAIN:
                raise IntegrityError(f"object {digest} was changed or damaged")
            while chunk := os.pread(fd, CHUNK_BYTES, at):
                yield chunk
                at += len(chunk)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[tuple[int, str]]:
        path = f"{self._staging}/{secrets.token_hex(8)}"
        fd = os.open(path, _NEW_FILE, 0o600)
        try:
            yield fd, path
        finally:
            os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # it failed, or somebody else had stored the same already

    def _place(self, path: str, digest: str) -> None:
        if digest[:2] not in self._made:
            with contextlib.suppress(FileExistsError):
                os.mkdir(f"{self._root}/{digest[:2]}", 0o700)
            self._made.add(digest[:2])
        os.rename(path, self.path(digest))
        self._know(digest)

    def _know(self, digest: str) -> None:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known.add(digest)


def _stored_form(data: bytes) -> bytes:
    if _LEAST_PACKED <= len(data) <= _MOST_PACKED:
        packed = zlib.compress(data, 1)
        if len(packed) < len(data) - len(data) // 8:
            return _PACKED + packed
    return _PLAIN + data


def _unpacked(digest: str, packed: bytes) -> bytes:
    try:
        reading = zlib.decompressobj()
        data = reading.decompress(packed, _MOST_PACKED + 1)
    except zlib.error:
        data = b""
    if not 0 < len(data) <= _MOST_PACKED:
        raise IntegrityError(f"object {digest} was changed or damaged")
    return data
