"""Stored entries written out as a tree. Every byte is checked against its digest on the way.

The directory that is filled is ours alone until this is done; still nothing is ever followed or
written over, so a damaged or forged tree cannot reach anything outside of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from paddock.model.errors import Conflict, HostCannot, IntegrityError, PaddockError
from paddock.state.files.descent import DIR_FLAGS, FILE_FLAGS, Descent, shown
from paddock.state.files.file_copy import chunks, copy_file, digest_of, write_at
from paddock.state.files.tree_walk import empty, remove
from paddock.state.snapshots.blobs import SMALL_BYTES, BlobStore
from paddock.state.snapshots.entries import Entry, EntryKind

Owner = tuple[int, int]
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def restore_tree(
    entries: Iterator[Entry],
    into: Path,
    blobs: BlobStore,
    *,
    linked: frozenset[int] = frozenset(),
    owner: Owner | None = None,
) -> None:
    """Fills the empty directory `into`, or leaves it empty and raises. `linked` are the numbers
    of the entries that later ones are hard links to."""
    with Descent(into) as descent:
        if os.listdir(descent.fd):
            raise Conflict(f"{into} is not empty", hint="restore into a new directory")
        try:
            _Restorer(descent, blobs, linked, owner).run(entries)
        except BaseException:
            with contextlib.suppress(OSError, PaddockError), Descent(into, lift=True) as again:
                empty(again)
            raise


class _Restorer:
    def __init__(
        self, descent: Descent, blobs: BlobStore, linked: frozenset[int], owner: Owner | None
    ) -> None:
        self._descent = descent
        self._blobs = blobs
        self._linked = linked
        self._owner = owner
        self._open_dirs: list[Entry] = []  # directories that get their mode when we leave them
        self._farm = -1

    def run(self, entries: Iterator[Entry]) -> None:
        with self._link_farm():
            for number, entry in enumerate(entries):
                self._place(number, entry)
        while len(self._open_dirs) > 1:
            self._leave()
        if not self._open_dirs:
            raise IntegrityError("a stored tree is empty")
        self._seal(self._descent.fd, self._open_dirs[0])

    def _place(self, number: int, entry: Entry) -> None:
        if (entry.depth == 0) != (number == 0) or entry.depth > len(self._open_dirs):
            raise IntegrityError("a stored tree has an entry without its directory")
        try:
            while len(self._open_dirs) > max(entry.depth, 1):
                self._leave()
            self._create(number, entry)
        except FileExistsError:
            raise IntegrityError(f"a stored tree names {self._shown(entry)} twice") from None
        except OSError as error:
            raise HostCannot(f"cannot write {self._shown(entry)}: {error.strerror}") from None

    def _create(self, number: int, entry: Entry) -> None:
        fd = self._descent.fd
        if entry.kind is EntryKind.DIR:
            self._enter(entry)
        elif entry.kind is EntryKind.FILE:
            self._create_file(number, entry)
        elif entry.kind is EntryKind.SYMLINK:
            os.symlink(entry.target or "", entry.name, dir_fd=fd)
            self._seal_name(entry)
        elif entry.kind is EntryKind.FIFO:
            os.mkfifo(entry.name, 0o600, dir_fd=fd)
            self._seal_fifo(entry)
        else:
            # Device 0:0 is no device: the kernel lets anybody make it.
            os.mknod(entry.name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=fd)
            self._seal_name(entry)

    def _enter(self, entry: Entry) -> None:
        if entry.depth > 0:
            os.mkdir(entry.name, 0o700, dir_fd=self._descent.fd)
            self._descent.enter(entry.name)
        self._open_dirs.append(entry)

    def _leave(self) -> None:
        entry = self._open_dirs.pop()
        self._descent.leave(lambda fd: self._seal(fd, entry))

    def _create_file(self, number: int, entry: Entry) -> None:
        if entry.link is not None:
            self._link(str(entry.link), self._farm, entry.name, self._descent.fd)
            return
        fd = os.open(entry.name, _NEW_FILE, 0o600, dir_fd=self._descent.fd)
        try:
            self._fill(fd, entry)
            self._seal(fd, entry)
        finally:
            os.close(fd)
        if number in self._linked:
            self._link(entry.name, self._descent.fd, str(number), self._farm)

    def _link(self, name: str, dir_fd: int, new_name: str, new_dir_fd: int) -> None:
        try:
            os.link(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=new_dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            raise IntegrityError("a stored tree has a hard link to no file") from None

    def _fill(self, fd: int, entry: Entry) -> None:
        if entry.blob is None:
            self._scatter(fd, entry, entry.inline or b"")
            return
        try:
            source = self._blobs.open(entry.blob, entry.stored_bytes)
        except IntegrityError as error:
            raise IntegrityError(f"{self._shown(entry)}: {error.message}") from None
        try:
            found = self._fill_from(source, fd, entry)
        finally:
            os.close(source)
        if found != entry.blob:
            raise IntegrityError(f"{self._shown(entry)}: its stored bytes were changed or damaged")

    def _fill_from(self, source: int, fd: int, entry: Entry) -> str:
        """Writes the file and gives the digest of what was written."""
        if entry.extents is None and entry.size > SMALL_BYTES:
            copy_file(source, fd, entry.size)
            return digest_of(fd, entry.size)
        if entry.extents is None:
            data = b"".join(chunks(source, ((0, entry.size),)))
            write_at(fd, data, 0)
            return hashlib.sha256(data).hexdigest()
        state, at = hashlib.sha256(), 0
        os.ftruncate(fd, entry.size)
        for offset, length in entry.extents:
            for chunk in chunks(source, ((at, length),)):
                write_at(fd, chunk, offset)
                state.update(chunk)
                offset += len(chunk)
            at += length
        return state.hexdigest()

    def _scatter(self, fd: int, entry: Entry, data: bytes) -> None:
        if data:
            write_at(fd, data, 0)
        if entry.size > len(data):
            os.ftruncate(fd, entry.size)

    def _seal(self, fd: int, entry: Entry) -> None:
        """Attributes, owner, mode, time: in this order, as each can undo or forbid the next."""
        for key, value in entry.xattrs:
            try:
                os.setxattr(fd, key, value)
            except OSError as error:
                raise HostCannot(
                    f"cannot set {key} on {self._shown(entry)}: {error.strerror}",
                    hint="the file system must keep user extended attributes",
                ) from None
        if self._owner is not None:
            os.fchown(fd, *self._owner)
        os.fchmod(fd, entry.mode)
        os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))

    def _seal_fifo(self, entry: Entry) -> None:
        # Opening the reading end does not wait for a writer.
        fd = os.open(entry.name, FILE_FLAGS, dir_fd=self._descent.fd)
        try:
            self._seal(fd, entry)
        finally:
            os.close(fd)

    def _seal_name(self, entry: Entry) -> None:
        fd, times = self._descent.fd, (entry.mtime_ns, entry.mtime_ns)
        if self._owner is not None:
            os.chown(entry.name, *self._owner, dir_fd=fd, follow_symlinks=False)
        os.utime(entry.name, ns=times, dir_fd=fd, follow_symlinks=False)

    @contextlib.contextmanager
    def _link_farm(self) -> Iterator[None]:
        """Second names of files that get hard links, so that no descriptor need stay open."""
        if not self._linked:
            yield
            return
        name = f".paddock-links-{secrets.token_hex(8)}"
        root = os.dup(self._descent.fd)
        try:
            os.mkdir(name, 0o700, dir_fd=root)
            self._farm = os.open(name, DIR_FLAGS, dir_fd=root)
            yield
            remove(name, root)
        finally:
            if self._farm >= 0:
                os.close(self._farm)
            os.close(root)

    def _shown(self, entry: Entry) -> str:
        return shown(self._descent.path_of(entry.name))
