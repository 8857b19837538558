"""Stored nodes made into files of a directory.

Whoever calls this has entered the directory by its descriptor (`files.descent`). Nothing is
followed and nothing is written over: a name that is taken is a FileExistsError.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator

from paddock.model.errors import HostCannot
from paddock.objects.file_bytes import write_sparse
from paddock.state.changes.target_directory import Owner
from paddock.state.files.descent import FILE_FLAGS, shown
from paddock.state.files.overlay_marks import OPAQUE
from paddock.state.trees.nodes import Node, NodeKind

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NodeFiles:
    """Makes the files of one tree."""

    def __init__(
        self, content: Callable[[Node], Iterator[tuple[int, bytes]]], owner: Owner | None
    ) -> None:
        """`content` gives the bytes of a file by offset, checked."""
        self._content = content
        self._owner = owner

    def create(self, dir_fd: int, node: Node) -> None:
        """Make what a node says. A directory is empty, and open to us until it is sealed."""
        name = node.name
        if node.kind is NodeKind.FILE:
            self.create_file(dir_fd, node, name)
            return
        if node.kind is NodeKind.DIR:
            os.mkdir(name, 0o700, dir_fd=dir_fd)
        elif node.kind is NodeKind.SYMLINK:
            os.symlink(node.target, name, dir_fd=dir_fd)
        elif node.kind is NodeKind.FIFO:
            os.mkfifo(name, 0o600, dir_fd=dir_fd)
        else:
            # Device 0:0 is no device: the kernel lets anybody make it.
            os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=dir_fd)
        if node.kind is NodeKind.FIFO:
            # Opening the reading end does not wait for a writer.
            self._seal_and_close(os.open(name, FILE_FLAGS, dir_fd=dir_fd), node)
            return
        if self._owner is not None:
            os.chown(name, *self._owner, dir_fd=dir_fd, follow_symlinks=False)
        if node.mtime_ns is not None:
            times = (node.mtime_ns, node.mtime_ns)
            os.utime(name, ns=times, dir_fd=dir_fd, follow_symlinks=False)

    def create_file(self, dir_fd: int, node: Node, name: str) -> None:
        """Make a regular file under a name that may be a temporary one."""
        fd = os.open(name, _NEW_FILE, 0o600, dir_fd=dir_fd)
        try:
            self.fill(fd, node)
        except BaseException:
            os.close(fd)
            raise
        self._seal_and_close(fd, node)

    def fill(self, fd: int, node: Node) -> None:
        """Write the bytes of a file. They are checked while they are read, so damaged ones end it.
        Holes stay holes, so nothing may be left of what was there before."""
        os.ftruncate(fd, 0)
        for offset, data in self._content(node):
            write_sparse(fd, data, offset)
        os.ftruncate(fd, node.size)

    def seal(self, fd: int, node: Node) -> None:
        """Set attributes, owner, mode, time: in this order, as each can undo or forbid the next."""
        attributes = ((OPAQUE, b"y"), *node.xattrs) if node.is_opaque else node.xattrs
        for key, value in attributes:
            try:
                os.setxattr(fd, key, value)
            except OSError as error:
                raise HostCannot(
                    f"cannot set {key} on {shown(node.name)}: {error.strerror}",
                    hint="the file system must keep user extended attributes",
                ) from None
        if self._owner is not None:
            os.fchown(fd, *self._owner)
        os.fchmod(fd, node.mode)
        if node.mtime_ns is not None:
            os.utime(fd, ns=(node.mtime_ns, node.mtime_ns))

    def _seal_and_close(self, fd: int, node: Node) -> None:
        try:
            self.seal(fd, node)
        finally:
            os.close(fd)


def set_opaque(file: int | str, *, is_opaque: bool) -> None:
    """Set or remove overlayfs's mark of a directory that hides the lower one."""
    if is_opaque:
        os.setxattr(file, OPAQUE, b"y")
        return
    try:
        os.removexattr(file, OPAQUE)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            raise
