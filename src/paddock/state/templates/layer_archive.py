"""Layers unpacked, one over the other, into a root file system.

Never made: device nodes, setuid and setgid bits, owners other than us. The bounds hold for all
layers together and are checked before the bytes are written.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from pathlib import Path

import msgspec

from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.sizes import format_size
from paddock.objects.file_bytes import write_at
from paddock.state.files.descent import FILE_FLAGS, Descent, shown
from paddock.state.files.tree_walk import status
from paddock.state.templates._root_file_system import Rootfs, image_parts
from paddock.state.templates._tar_stream import TarStream, stored_ranges

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
# Not the archive's fault: no room, a failing disk, too many open files.
_HOST_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE})
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# Packed root file systems grow to three or four times their size. An archive of zeros, or one layer
# named many times, grows without end.
MOST_GROWTH = 20
LEAST_BYTES, MOST_BYTES = 1 << 30, 20 << 30
# An entry of a real image takes about a kilobyte of its archive, an empty file almost nothing.
_BYTES_PER_ENTRY = 256
LEAST_ENTRIES, MOST_ENTRIES = 200_000, 2_000_000


class UnpackLimits(msgspec.Struct, frozen=True):
    """The most that an image may unpack to, over all its layers. What a later layer replaces counts
    too, and of a sparse file its whole length."""

    max_bytes: int = MOST_BYTES
    max_entries: int = MOST_ENTRIES

    @classmethod
    def for_source(
        cls, source: Path, *, max_bytes: int | None = None, max_entries: int | None = None
    ) -> UnpackLimits:
        """Return limits in proportion to what an image takes on disk, unless the caller names
        others."""
        stored = _stored_bytes(source)
        grown = min(max(LEAST_BYTES, MOST_GROWTH * stored), MOST_BYTES)
        entries = min(max(LEAST_ENTRIES, stored // _BYTES_PER_ENTRY), MOST_ENTRIES)
        return cls(max_bytes or grown, max_entries or entries)

    @property
    def max_stream_bytes(self) -> int:
        """Return the greatest length of its archives: the data, and headers and padding of every
        entry."""
        return self.max_bytes + self.max_entries * 4096


class Unpacker:
    """Fills one empty directory; used once for each layer, then finished."""

    def __init__(self, rootfs: Path, limits: UnpackLimits) -> None:
        self._limits = limits
        self._descent = Descent(rootfs)
        self._rootfs = Rootfs(self._descent)
        self.entries = self.size_bytes = self.skipped_devices = 0

    def apply(self, stream: TarStream) -> None:
        """Put one layer over what is there."""
        self._rootfs.begin_layer()
        for member in stream.members():
            self.entries += 1
            if self.entries > self._limits.max_entries:
                raise self._too_much(f"{self._limits.max_entries} entries")
            try:
                self._put(stream, member)
            except OSError as error:
                kind = HostCannot if error.errno in _HOST_FAULTS else InvalidInput
                raise kind(f"cannot unpack {shown(member.name)}: {error.strerror}") from None

    def finish(self) -> None:
        self._rootfs.finish()
        self._descent.close()

    def close(self) -> None:
        self._descent.close()

    def _put(self, stream: TarStream, member: tarfile.TarInfo) -> None:
        parts = image_parts(member.name)
        if not parts:
            self._put_top(member)
            return
        *parents, name = parts
        if name.startswith(_WHITEOUT):
            self._put_whiteout(parents, name)
        elif member.isreg():
            self._put_file(stream, member, parents, name)
        elif member.isdir():
            self._rootfs.go_to(parents)
            self._rootfs.make_dir(name, member.mode & 0o1777 | 0o400)
        elif member.issym():
            self._put_symlink(member, parents, name)
        elif member.islnk():
            self._put_link(member, parents, name)
        elif member.isfifo():
            self._put_fifo(member, parents, name)
        else:
            self.skipped_devices += 1

    def _put_top(self, member: tarfile.TarInfo) -> None:
        if member.isdir():
            self._rootfs.go_to([])
            self._rootfs.set_mode(member.mode & 0o1777 | 0o400)

    def _put_whiteout(self, parents: list[str], name: str) -> None:
        if not self._rootfs.go_to(parents, create=False):
            return
        hidden = name.removeprefix(_WHITEOUT)
        if name == _OPAQUE:
            self._rootfs.hide_all()
        elif hidden in ("", ".", ".."):
            raise InvalidInput(f"the archive has a whiteout of {hidden!r}")
        elif not hidden.startswith(_WHITEOUT):  # the rest are notes of the aufs of old
            self._rootfs.hide(hidden)

    def _put_file(
        self, stream: TarStream, member: tarfile.TarInfo, parents: list[str], name: str
    ) -> None:
        self._reserve(member.size)
        fd = self._create(parents, name)
        try:
            self._fill(fd, stream, member)
            os.fchmod(fd, member.mode & 0o777 | 0o400)
            _set_time(fd, member)
        finally:
            os.close(fd)

    def _fill(self, fd: int, stream: TarStream, member: tarfile.TarInfo) -> None:
        ranges = stored_ranges(member)
        if any(not 0 <= offset <= offset + length <= member.size for offset, length in ranges):
            raise InvalidInput(f"{shown(member.name)} has an impossible sparse map")
        places, offset, room = iter(ranges), 0, 0
        for chunk in stream.data(member):
            view = memoryview(chunk)
            while view:
                while room == 0:
                    offset, room = next(places)
                piece = view[:room]
                write_at(fd, piece, offset)
                offset, room = offset + len(piece), room - len(piece)
                view = view[len(piece) :]
        os.ftruncate(fd, member.size)

    def _put_symlink(self, member: tarfile.TarInfo, parents: list[str], name: str) -> None:
        if not member.linkname or "\0" in member.linkname:
            raise InvalidInput(f"{shown(member.name)} is a link to nothing")
        self._rootfs.go_to(parents)
        self._rootfs.clear(name)
        os.symlink(member.linkname, name, dir_fd=self._rootfs.fd)
        self._rootfs.own(name)

    def _put_link(self, member: tarfile.TarInfo, parents: list[str], name: str) -> None:
        *source_parents, source = image_parts(member.linkname) or [""]
        if not source or not self._rootfs.go_to(source_parents, create=False):
            raise _dangling(member)
        directory = os.dup(self._rootfs.fd)
        try:
            self._rootfs.go_to(parents)
            self._link(directory, source, name, member)
        finally:
            os.close(directory)

    def _link(self, directory: int, source: str, name: str, member: tarfile.TarInfo) -> None:
        st, old = status(source, directory), status(name, self._rootfs.fd)
        if st is None or stat.S_ISDIR(st.st_mode):
            raise _dangling(member)
        if old is None or (old.st_dev, old.st_ino) != (st.st_dev, st.st_ino):
            self._rootfs.clear(name)
            here = self._rootfs.fd
            os.link(source, name, src_dir_fd=directory, dst_dir_fd=here, follow_symlinks=False)
        self._rootfs.own(name)

    def _put_fifo(self, member: tarfile.TarInfo, parents: list[str], name: str) -> None:
        self._rootfs.go_to(parents)
        self._rootfs.clear(name)
        os.mkfifo(name, 0o600, dir_fd=self._rootfs.fd)
        self._rootfs.own(name)
        fd = os.open(name, FILE_FLAGS, dir_fd=self._rootfs.fd)
        try:
            os.fchmod(fd, member.mode & 0o777 | 0o400)
        finally:
            os.close(fd)

    def _create(self, parents: list[str], name: str) -> int:
        self._rootfs.go_to(parents)
        self._rootfs.clear(name)
        self._rootfs.own(name)
        return os.open(name, _NEW_FILE, 0o600, dir_fd=self._rootfs.fd)

    def _reserve(self, size: int) -> None:
        if size < 0:
            raise InvalidInput("the archive has a file of negative size")
        self.size_bytes += size
        if self.size_bytes > self._limits.max_bytes:
            raise self._too_much(format_size(self._limits.max_bytes))

    def _too_much(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"the image unpacks to more than {what}",
            hint="if you trust it, add it with a larger --max-size or --max-entries",
        )


def _stored_bytes(source: Path) -> int:
    """Return what a file, or all files of a layout, really take: a hole in a file counts
    nothing."""
    paths = [source]
    if source.is_dir():
        paths = [Path(place, name) for place, _, names in os.walk(source) for name in names]
    total = 0
    for path in paths:
        try:
            st = os.stat(path, follow_symlinks=path == source)
        except OSError:
            continue  # whoever reads it says what is wrong with it
        total += min(st.st_size, st.st_blocks * 512)
    return total


def _dangling(member: tarfile.TarInfo) -> InvalidInput:
    return InvalidInput(
        f"{shown(member.name)} is a hard link to {shown(member.linkname)}, which is no file there"
    )


def _set_time(fd: int, member: tarfile.TarInfo) -> None:
    # Compiled Python files are valid only while their source keeps its time.
    if 0 <= member.mtime < 1 << 40:
        os.utime(fd, (member.mtime, member.mtime))
