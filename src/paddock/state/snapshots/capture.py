"""A tree of untrusted files turned into stored entries. Reads and records; decides nothing else.

Kept: directories, regular files (holes and hard links too), symbolic links, FIFOs, overlayfs's
whiteouts and `user.*` attributes. Left out and counted: sockets, other devices, attributes past the
bound. Never kept: owners, setuid and setgid bits, the notes that overlayfs writes for itself.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator

from paddock.model.errors import HostCannot
from paddock.state.files.descent import Descent, open_file, shown
from paddock.state.files.file_copy import Extents, chunks, data_extents
from paddock.state.files.tree_walk import walk
from paddock.state.snapshots.blobs import Stage
from paddock.state.snapshots.entries import Entry, EntryKind, encode

# A file below this costs less as a part of the tree's own blob than as a blob of its own.
INLINE_BYTES = 4096
# All inlined files together: past this the tree's blob would get too large to hold in memory.
MAX_INLINED_BYTES = 64 << 20
MAX_XATTR_BYTES = 4096
# These name inodes of one machine, and mean nothing after a restore.
_OVERLAY_NOTES = frozenset(
    f"user.overlay.{note}" for note in ("origin", "impure", "nlink", "upper", "uuid")
) | {"user.paddock.inherited"}
_FLUSH_BYTES = 1 << 20


class Capture:
    """One pass over one tree. The counts are valid once `chunks` has been read to its end."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._first_names: dict[tuple[int, int], int] = {}
        self._inlined = 0
        self.skipped = Counter({"sockets": 0, "devices": 0, "xattrs": 0})
        self.entries = self.files = self.links = self.size_bytes = 0

    def chunks(self, descent: Descent) -> Iterator[bytes]:
        """The lines of the tree, in pieces of about a megabyte."""
        pending: list[bytes] = []
        length = 0
        for entry in self._tree(descent):
            pending.append(encode(entry))
            length += len(pending[-1])
            self.entries += 1
            if length > _FLUSH_BYTES:
                yield b"\n".join([*pending, b""])
                pending, length = [], 0
        yield b"\n".join([*pending, b""])

    def _tree(self, descent: Descent) -> Iterator[Entry]:
        yield self._directory(descent, "", descent.start)
        for name, st in walk(descent):
            entry = self._entry(descent, name, st)
            if entry is not None:
                yield entry

    def _entry(self, descent: Descent, name: str, st: os.stat_result) -> Entry | None:
        mode = st.st_mode
        if stat.S_ISREG(mode):
            return self._file(descent, name)
        if stat.S_ISDIR(mode):
            return self._directory(descent, name, st)
        if stat.S_ISLNK(mode):
            return _symlink(descent, name, st)
        if stat.S_ISFIFO(mode):
            mode &= 0o777
            return Entry(descent.depth + 1, name, EntryKind.FIFO, mode, st.st_mtime_ns)
        if is_whiteout(st):
            return Entry(descent.depth + 1, name, EntryKind.WHITEOUT)
        self.skipped["sockets" if stat.S_ISSOCK(mode) else "devices"] += 1
        return None

    def _directory(self, descent: Descent, name: str, st: os.stat_result) -> Entry:
        xattrs = self._xattrs(descent.fd)
        mode = st.st_mode & 0o1777
        return Entry(descent.depth, name, EntryKind.DIR, mode, st.st_mtime_ns, xattrs=xattrs)

    def _file(self, descent: Descent, name: str) -> Entry | None:
        try:
            fd = open_file(name, descent.fd, lift=True)
        except PermissionError as error:
            raise HostCannot(
                f"cannot read {shown(descent.path_of(name))}: {error.strerror}",
                hint="it belongs to another user; run as root or as its owner",
            ) from None
        if fd is None:
            return None
        try:
            return self._open_file(descent.depth + 1, name, fd)
        finally:
            os.close(fd)

    def _open_file(self, depth: int, name: str, fd: int) -> Entry:
        st = os.fstat(fd)
        if st.st_nlink > 1:
            first = self._first_names.setdefault((st.st_dev, st.st_ino), self.entries)
            if first != self.entries:
                self.links += 1
                return Entry(depth, name, EntryKind.FILE, link=first)
        inline, blob, extents, size = self._content(fd, st.st_size)
        self.files += 1
        self.size_bytes += size
        return Entry(
            depth,
            name,
            EntryKind.FILE,
            mode=st.st_mode & 0o777,
            mtime_ns=st.st_mtime_ns,
            size=size,
            inline=inline,
            blob=blob,
            extents=extents,
            xattrs=self._xattrs(fd),
        )

    def _content(self, fd: int, size: int) -> tuple[bytes | None, str | None, Extents | None, int]:
        """Inline bytes or a blob, the extents, and how many bytes the file really had."""
        if size < INLINE_BYTES and self._inlined + size <= MAX_INLINED_BYTES:
            data = os.pread(fd, size, 0) if size else b""
            self._inlined += len(data)
            return data, None, None, len(data)
        extents = data_extents(fd, size)
        if extents is None:
            digest, size = self._stage.put_file(fd, size)
            return None, digest, None, size
        if not extents:
            return b"", None, extents, size
        digest, stored = self._stage.put_chunks(chunks(fd, extents))
        kept = _cut(extents, stored)
        if not kept:
            return b"", None, None, 0
        return None, digest, kept, size if kept == extents else sum(kept[-1])

    def _xattrs(self, fd: int) -> tuple[tuple[str, bytes], ...]:
        try:
            names = os.listxattr(fd)
        except OSError:
            return ()  # this file system keeps none
        kept: list[tuple[str, bytes]] = []
        room = MAX_XATTR_BYTES
        # overlayfs's marks come first: without them a layer means something else.
        for name in sorted(names, key=lambda name: (not name.startswith("user.overlay."), name)):
            if not name.startswith("user.") or name in _OVERLAY_NOTES:
                continue
            value = _xattr(fd, name)
            cost = len(name) + len(value)
            if cost > room or not name.isascii():
                self.skipped["xattrs"] += 1
                continue
            room -= cost
            kept.append((name, value))
        return tuple(sorted(kept))


def is_whiteout(st: os.stat_result) -> bool:
    """overlayfs's mark that the lower file of this name is deleted."""
    return stat.S_ISCHR(st.st_mode) and st.st_rdev == 0


def _symlink(descent: Descent, name: str, st: os.stat_result) -> Entry | None:
    try:
        target = os.readlink(name, dir_fd=descent.fd)
    except OSError:
        return None  # it was a link a moment ago
    depth = descent.depth + 1
    return Entry(depth, name, EntryKind.SYMLINK, mtime_ns=st.st_mtime_ns, target=target)


def _xattr(fd: int, name: str) -> bytes:
    try:
        return os.getxattr(fd, name)
    except OSError:
        return b""


def _cut(extents: Extents, stored: int) -> Extents:
    """The part of the extents that could still be read when the file was cut meanwhile."""
    kept: list[tuple[int, int]] = []
    for offset, length in extents:
        if stored <= 0:
            break
        kept.append((offset, min(length, stored)))
        stored -= length
    return tuple(kept)
