"""Many small objects in one file: a line each, named by its SHA-256.

Objects that are small and are needed together would cost too much as a file each. A pack is only
appended to. Nothing in it is signed: a line is as true as whatever names it by its digest.
"""

from __future__ import annotations

import errno
import os
import threading
from hashlib import sha256
from pathlib import Path

from paddock.model.errors import IntegrityError, NotFound
from paddock.objects.file_bytes import open_to_read, sync_directory
from paddock.objects.line_file import batches
from paddock.objects.store import DIGEST

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Pack:
    """A pack as it is written. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._fd = -1
        self._is_flushed = True
        self._is_named = False

    def put(self, line: bytes) -> str:
        """Append a line and return its digest. It is on disk when `flush` has returned."""
        with self._guard:
            if self._fd < 0:
                self._fd = self._open()
            self._is_flushed = False
            written = os.write(self._fd, line + b"\n")
            if written != len(line) + 1:
                # The rest of the line is no object; a whole one may follow in a line of its own.
                os.write(self._fd, b"\n")
                why = f"the disk is full: there was room for {written} of {len(line) + 1} bytes"
                raise OSError(errno.ENOSPC, why)
        return sha256(line).hexdigest()

    def flush(self) -> None:
        """Return when every line that was put is on disk."""
        with self._guard:
            if self._fd < 0 or self._is_flushed:
                return
            fd, is_named = os.dup(self._fd), self._is_named
            self._is_flushed = self._is_named = True
        try:
            os.fdatasync(fd)
            if not is_named:
                sync_directory(self._path.parent)
        finally:
            os.close(fd)

    def close(self) -> None:
        with self._guard:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        fd = os.open(self._path, _APPEND, 0o600)
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            os.write(fd, b"\n")  # an earlier writer was interrupted within a line
        return fd


class PackReader:
    """A pack as it is read, also while more is written to it."""

    def __init__(self, path: Path, noun: str) -> None:
        """`noun` is what messages call an object of this pack."""
        self._path = path
        self._noun = noun
        self._spots: dict[bytes, tuple[int, int]] = {}  # offset and size by digest
        self._scanned = 0

    def read(self, digest: str) -> bytes:
        """Return the line of that digest, checked. Raises NotFound or IntegrityError where it is
        not there, or not what its name says."""
        if DIGEST.fullmatch(digest) is None:
            raise IntegrityError(f"{digest!r:.80} is not the digest of a {self._noun}")
        name = bytes.fromhex(digest)
        try:
            if name not in self._spots:
                self._scan()
            if name not in self._spots:
                raise NotFound(f"the {self._noun} {digest} is missing, or was changed")
            line = self._read_at(*self._spots[name])
        except OSError as error:
            raise IntegrityError(f"{self._path.name} is unreadable: {error.strerror}") from None
        if sha256(line).digest() != name:
            raise IntegrityError(f"the {self._noun} {digest} has been changed")
        return line

    def _read_at(self, offset: int, size: int) -> bytes:
        fd = open_to_read(self._path)
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)

    def _scan(self) -> None:
        """Note where lines are, from where the last scan stopped. Their names are their hashes."""
        if not self._path.exists():
            return
        for batch in batches(self._path, self._scanned):
            offset = batch.offset
            for line in batch.lines:
                self._spots.setdefault(sha256(line).digest(), (offset, len(line)))
                offset += len(line) + 1
            self._scanned = offset
