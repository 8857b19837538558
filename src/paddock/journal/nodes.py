"""Values that records name by their digest, in one file of a run: a line each, whose SHA-256 is its
name. Many of them are small and are needed together, so a file for each would cost too much.

Nothing here is signed. A node is as true as the record that names it: its digest is in there.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from paddock.journal.blobs import Blobs, put_back, set_aside
from paddock.journal.canonical import canonical_text, encoded
from paddock.journal.plain_values import as_json
from paddock.journal.secrets.mask import Masker
from paddock.journal.secrets.value_hmac import Keyed, keyed_leaves
from paddock.journal.segments import batches, open_to_read, sync_directory
from paddock.journal.strict_json import parse_json
from paddock.model.errors import IntegrityError, NotFound
from paddock.model.events import BlobRef

FILE_NAME = "nodes.jsonl"
_MAX_KNOWN = 16 << 20  # bytes of values that were read and may be asked for again
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def node_line(
    value: Mapping[str, Any], blobs: Blobs, masker: Masker | None, keyed: Keyed | None
) -> bytes:
    """A value as it is kept: masked, large texts set aside, in the one spelling that it has. With
    `keyed`, what was masked can still be compared."""
    text = canonical_text(value)
    if masker is not None and not masker.is_clean(text):
        masked = masker.mask(value)
        if keyed is not None:
            masked["keyed"] = keyed_leaves(keyed, value, masked)
        value, text = masked, canonical_text(masked)
    text, refs = set_aside(value, text, blobs)
    if refs:
        slim = json.loads(text) | {"blobs": as_json(refs)}
        text = canonical_text(slim)
    return encoded(text)


class Nodes:
    """The file as it is written. Safe to use from several threads."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._guard = threading.Lock()
        self._fd = -1
        self._is_flushed = True
        self._is_named = False

    def put(self, line: bytes) -> str:
        """Appends a line and answers its digest. It is on disk when `flush` has returned."""
        with self._guard:
            if self._fd < 0:
                self._fd = self._opened()
            self._is_flushed = False
            written = os.write(self._fd, line + b"\n")
            if written != len(line) + 1:
                # The rest of the line is no node, and a whole one may follow in a line of its own.
                os.write(self._fd, b"\n")
                why = f"the disk is full: there was room for {written} of {len(line) + 1} bytes"
                raise OSError(errno.ENOSPC, why)
        return sha256(line).hexdigest()

    def flush(self) -> None:
        """Returns when every line that was put is on disk."""
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

    def _opened(self) -> int:
        fd = os.open(self._path, _APPEND, 0o600)
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            os.write(fd, b"\n")  # an earlier writer was interrupted within a line
        return fd


class WrittenNodes:
    """The nodes of a run as they are read back, also while more are written."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._blobs = Blobs(directory)
        self._spots: dict[bytes, tuple[int, int]] = {}
        self._scanned = 0
        self._known: dict[str, tuple[Mapping[str, Any], int]] = {}
        self._known_bytes = 0

    def read(self, digest: str, limit: int) -> tuple[Mapping[str, Any], int]:
        """The value of that digest, whole and checked, and how many bytes it takes. `NotFound` or
        `IntegrityError` where it is not, or is larger than `limit`. Others get the same value:
        each question of a conversation has all messages before it."""
        known = self._known.get(digest)
        if known is not None and known[1] <= limit:
            return known
        node = self._parsed(self._line(digest), digest)
        refs = _refs(node.pop("blobs", []), digest)
        size = self._spots[bytes.fromhex(digest)][1] + sum(ref.size_bytes for ref in refs)
        if size > limit:
            raise IntegrityError(f"what is named {digest} is larger than it may be")
        return self._kept(digest, put_back(node, refs, self._blobs), size)

    def _kept(
        self, digest: str, node: Mapping[str, Any], size: int
    ) -> tuple[Mapping[str, Any], int]:
        self._known_bytes += size
        if self._known_bytes > _MAX_KNOWN:
            self._known, self._known_bytes = {}, size
        self._known[digest] = (node, size)
        return node, size

    def _line(self, digest: str) -> bytes:
        if len(digest) != 64 or not digest.isascii() or not digest.isalnum():
            raise IntegrityError(f"{digest!r:.80} is not the digest of a node")
        try:
            name = bytes.fromhex(digest)
        except ValueError:
            raise IntegrityError(f"{digest!r:.80} is not the digest of a node") from None
        try:
            if name not in self._spots:
                self._scan()
            if name not in self._spots:
                raise NotFound(f"the node {digest} is missing, or was changed")
            line = self._read_at(*self._spots[name])
        except OSError as error:
            raise IntegrityError(f"{FILE_NAME} is unreadable: {error.strerror}") from None
        if sha256(line).digest() != name:
            raise IntegrityError(f"the node {digest} has been changed")
        return line

    def _read_at(self, offset: int, size: int) -> bytes:
        fd = open_to_read(self._path)
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)

    def _scan(self) -> None:
        """Notes where lines are, from where it stopped last time. Their names are their hashes."""
        if not self._path.exists():
            return
        for batch in batches(self._path, self._scanned):
            offset = batch.offset
            for line in batch.lines:
                self._spots.setdefault(sha256(line).digest(), (offset, len(line)))
                offset += len(line) + 1
            self._scanned = offset

    def _parsed(self, line: bytes, digest: str) -> dict[str, Any]:
        try:
            node = parse_json(line)
        except ValueError:
            node = None
        if not isinstance(node, dict):
            raise IntegrityError(f"what is named {digest} is no node")
        return node


def _refs(found: Any, digest: str) -> tuple[BlobRef, ...]:
    try:
        refs = msgspec.convert(found, tuple[BlobRef, ...])
        if any(ref.size_bytes < 0 for ref in refs):
            raise ValueError("a blob has no negative size")
        return refs
    except ValueError:
        raise IntegrityError(f"what is named {digest} is no node") from None
