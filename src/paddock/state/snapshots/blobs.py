"""Contents of files under their SHA-256, each stored once. Knows no trees and no snapshots.

A writer stages its new blobs in a directory of its own and publishes them together, so that
whatever has its place under `blobs/` is complete and on disk. Callers hold the store's lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from paddock.model.errors import IntegrityError
from paddock.state.files.descent import DIR_FLAGS, FILE_FLAGS, Descent
from paddock.state.files.file_copy import (
    chunks,
    copy_range,
    digest_of,
    reflink,
    sync_file_system,
    write_at,
)
from paddock.state.files.tree_walk import empty

# Below this one read and one write beat every cleverer way of copying.
SMALL_BYTES = 1 << 20
# From here on one sync of the file system is cheaper than one for every file.
_MANY_FILES = 16
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BlobStore:
    """The blobs of one store, below `root`."""

    def __init__(self, root: Path) -> None:
        self._blobs = os.fspath(root / "blobs")
        self._staging = root / "tmp"
        for directory in (root / "blobs", self._staging):
            directory.mkdir(mode=0o700, exist_ok=True)

    def stage(self) -> Stage:
        """A place for the new blobs of one writer."""
        return Stage(self, self._staging / secrets.token_hex(8))

    def home(self, digest: str) -> str:
        return f"{self._blobs}/{digest[:2]}"

    def path(self, digest: str) -> str:
        return f"{self._blobs}/{digest[:2]}/{digest}"

    def has(self, digest: str, size: int) -> bool:
        """Stored, and not cut short: a damaged blob is written again by whoever has its bytes."""
        try:
            return os.stat(self.path(digest), follow_symlinks=False).st_size == size
        except FileNotFoundError:
            return False

    def open(self, digest: str, size: int) -> int:
        """A blob for reading; its digest is for the reader to check while it reads."""
        try:
            fd = os.open(self.path(digest), FILE_FLAGS)
        except OSError as error:
            raise IntegrityError(f"blob {digest} cannot be read: {error.strerror}") from None
        if os.fstat(fd).st_size != size:
            os.close(fd)
            raise IntegrityError(f"blob {digest} does not have its {size} bytes any more")
        return fd

    def check(self, digest: str, size: int) -> None:
        """`IntegrityError` unless the blob is there and is what its name says."""
        fd = self.open(digest, size)
        try:
            if digest_of(fd, size) != digest:
                raise IntegrityError(f"blob {digest} was changed or damaged")
        finally:
            os.close(fd)

    def sweep(self, used: set[str]) -> int:
        """Removes blobs that are not in `used` and what crashed writers left; gives the bytes.
        Only under the exclusive lock: a writer may be about to use any blob that is there."""
        freed = 0
        for path, size in self.unused(used):
            os.unlink(path)
            freed += size
        with Descent(self._staging) as descent:
            empty(descent)
        return freed

    def unused(self, used: set[str]) -> Iterator[tuple[str, int]]:
        """Paths and sizes of the blobs that `sweep` removes."""
        for blob in self._stored():
            if blob.name not in used:
                yield blob.path, blob.stat(follow_symlinks=False).st_size

    def _stored(self) -> Iterator[os.DirEntry[str]]:
        for home in os.listdir(self._blobs):
            with os.scandir(f"{self._blobs}/{home}") as blobs:
                yield from blobs


class Stage:
    """New blobs of one writer: invisible until `publish`, gone if that does not come."""

    def __init__(self, store: BlobStore, directory: Path) -> None:
        self._store = store
        self._directory = directory
        self._staged: set[str] = set()
        self._fd = -1

    def __enter__(self) -> Stage:
        os.mkdir(self._directory, 0o700)
        self._fd = os.open(self._directory, DIR_FLAGS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with Descent(self._fd) as descent:
            empty(descent)
        os.close(self._fd)
        os.rmdir(self._directory)

    def put_bytes(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        if not self._has(digest, len(data)):
            fd = os.open(digest, _NEW_FILE, 0o600, dir_fd=self._fd)
            try:
                write_at(fd, data, 0)
            finally:
                os.close(fd)
            self._staged.add(digest)
        return digest

    def put_file(self, source: int, size: int) -> tuple[str, int]:
        """The first `size` bytes of an open file that may be changing: what is hashed is what is
        stored. Gives the digest and how many bytes there really were."""
        if size <= SMALL_BYTES:
            data = b"".join(chunks(source, ((0, size),)))
            return self.put_bytes(data), len(data)
        with self._new_file() as (fd, name):
            if not reflink(source, fd):
                digest = digest_of(source, size)
                if self._has(digest, size):
                    return digest, size
                copy_range(source, fd, 0, 0, size)
            else:
                os.ftruncate(fd, min(size, os.fstat(fd).st_size))
            # Nobody else writes the copy, so its digest holds.
            stored = os.fstat(fd).st_size
            digest = digest_of(fd, stored)
            if not self._has(digest, stored):
                self._keep(name, digest)
            return digest, stored

    def put_chunks(self, data: Iterable[bytes]) -> tuple[str, int]:
        """Bytes that come in pieces, as one blob. Gives its digest and its size."""
        state, size = hashlib.sha256(), 0
        with self._new_file() as (fd, name):
            for chunk in data:
                write_at(fd, chunk, size)
                state.update(chunk)
                size += len(chunk)
            digest = state.hexdigest()
            if not self._has(digest, size):
                self._keep(name, digest)
        return digest, size

    def publish(self) -> None:
        """Gives all staged blobs their places, once their bytes are on disk."""
        if not self._staged:
            return
        self._sync([f"{self._directory}/{digest}" for digest in self._staged])
        homes = {self._store.home(digest) for digest in self._staged}
        for home in homes:
            with contextlib.suppress(FileExistsError):
                os.mkdir(home, 0o700)
        for digest in self._staged:
            os.rename(digest, self._store.path(digest), src_dir_fd=self._fd)
        self._sync([*homes, *{os.path.dirname(home) for home in homes}])
        self._staged.clear()

    def _has(self, digest: str, size: int) -> bool:
        return digest in self._staged or self._store.has(digest, size)

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[tuple[int, str]]:
        name = f"new-{secrets.token_hex(8)}"
        fd = os.open(name, _NEW_FILE, 0o600, dir_fd=self._fd)
        try:
            yield fd, name
        finally:
            os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._fd)

    def _keep(self, name: str, digest: str) -> None:
        os.rename(name, digest, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        self._staged.add(digest)

    def _sync(self, paths: list[str]) -> None:
        if len(paths) >= _MANY_FILES:
            paths, sync = paths[:1], sync_file_system
        else:
            sync = os.fsync
        for path in paths:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                sync(fd)
            finally:
                os.close(fd)
