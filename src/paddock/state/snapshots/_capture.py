"""A tree of untrusted files turned into the nodes of a snapshot.

Kept: directories, regular files (with holes and hard links), symbolic links, FIFOs, overlayfs's
whiteouts and `user.*` attributes. Left out and counted: sockets, other devices, attributes past the
bounds. Never kept: owners, setuid and setgid bits, the attributes that overlayfs writes for itself.

A walk visits a directory before what is in it, but its object can be made only afterwards. So the
directories on the way down are open levels, each of which collects the lines of its nodes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from paddock.model.errors import HostCannot, SandboxError
from paddock.objects.store import ObjectBatch
from paddock.state.changes.change import link_target
from paddock.state.files.descent import Descent, open_file, shown
from paddock.state.files.overlay_marks import OPAQUE, is_whiteout
from paddock.state.files.tree_walk import walk
from paddock.state.trees.large_files import SPLIT_ABOVE, TooManyParts, split
from paddock.state.trees.nodes import (
    DirectoryObjects,
    Node,
    NodeKind,
    StoredTree,
    bytes_of_tree,
    line_of,
)

# A file below this costs less as a part of its directory's object than as an object of its own.
INLINE_BYTES = 4096
# Of all files and all attributes together: the lines of open levels are held in memory.
MAX_INLINED_BYTES = 64 << 20
MAX_ALL_XATTR_BYTES = 256 << 20
MAX_XATTR_BYTES = 4096
# These name inodes of one machine, and mean nothing after a restore.
_OVERLAY_NOTES = frozenset(
    f"user.overlay.{note}" for note in ("origin", "impure", "nlink", "upper", "uuid")
) | {"user.paddock.inherited"}


class Capture:
    """One pass over one tree. The counts are valid once `save` has returned."""

    def __init__(self, batch: ObjectBatch) -> None:
        self._batch = batch
        self._levels: list[_Level] = []
        self._first_names: dict[tuple[int, int], Node] = {}  # of files with several names
        self._inline_room = MAX_INLINED_BYTES
        self._xattr_room = MAX_ALL_XATTR_BYTES
        self.skipped = Counter({"sockets": 0, "devices": 0, "xattrs": 0})
        self.entries = self.files = self.links = self.size_bytes = 0

    def save(self, descent: Descent) -> str:
        """Store the tree; return its digest."""
        self._open_level("", descent.start, descent.fd)
        for name, st in walk(descent):
            # Of a directory, `descent` is inside it already.
            is_directory = stat.S_ISDIR(st.st_mode)
            self._close_levels(descent.depth if is_directory else descent.depth + 1)
            if is_directory:
                self._open_level(name, st, descent.fd)
                continue
            node = self._node(descent, name, st)
            if node is not None:
                self.entries += 1
                self._levels[-1].add(node)
        self._close_levels(1)
        root = self._finished(self._levels.pop())
        return self._put(bytes_of_tree(StoredTree({"": root})))

    def _open_level(self, name: str, st: os.stat_result, fd: int) -> None:
        self.entries += 1
        node = Node(name, NodeKind.DIR, mode=st.st_mode & 0o1777, mtime_ns=st.st_mtime_ns)
        self._levels.append(_Level(self._with_xattrs(node, fd), self._put))

    def _close_levels(self, count: int) -> None:
        """Finish directories until `count` are open."""
        while len(self._levels) > count:
            node = self._finished(self._levels.pop())
            self._levels[-1].add(node)

    def _finished(self, level: _Level) -> Node:
        return replace(level.node, digest=self._put(level.objects.finish()))

    def _node(self, descent: Descent, name: str, st: os.stat_result) -> Node | None:
        mode = st.st_mode
        if stat.S_ISREG(mode):
            return self._file(descent, name)
        if stat.S_ISLNK(mode):
            target = link_target(name, descent.fd)
            if not target:
                return None  # it was a link a moment ago
            return Node(name, NodeKind.SYMLINK, target=target, mtime_ns=st.st_mtime_ns)
        if stat.S_ISFIFO(mode):
            return Node(name, NodeKind.FIFO, mode=mode & 0o777, mtime_ns=st.st_mtime_ns)
        if is_whiteout(st):
            return Node(name, NodeKind.WHITEOUT)
        self.skipped["sockets" if stat.S_ISSOCK(mode) else "devices"] += 1
        return None

    def _file(self, descent: Descent, name: str) -> Node | None:
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
            return self._open_file(name, fd)
        finally:
            os.close(fd)

    def _open_file(self, name: str, fd: int) -> Node:
        st = os.fstat(fd)
        inode = (st.st_dev, st.st_ino)
        if inode in self._first_names:
            self.links += 1
            return replace(self._first_names[inode], name=name)
        node = Node(name, NodeKind.FILE, mode=st.st_mode & 0o777, mtime_ns=st.st_mtime_ns)
        node = self._with_xattrs(self._with_content(node, fd, st.st_size), fd)
        self.files += 1
        self.size_bytes += node.size
        if st.st_nlink > 1:
            self._first_names[inode] = replace(node, link=self.entries)
        return node

    def _with_content(self, node: Node, fd: int, size: int) -> Node:
        if self._may_inline(size):
            data = os.pread(fd, size, 0) if size else b""
            digest = hashlib.sha256(data).hexdigest()
            return replace(node, size=len(data), digest=digest, inline=data)
        if size > SPLIT_ABOVE:
            try:
                parts, size = split(fd, size, self._put)
            except TooManyParts as error:
                raise SandboxError(f"cannot save {shown(node.name)}: {error.strerror}") from None
            return replace(node, size=size, digest=self._put(parts), is_split=True)
        digest, size = self._batch.put_file(fd, size)
        return replace(node, size=size, digest=digest)

    def _with_xattrs(self, node: Node, fd: int) -> Node:
        try:
            names = os.listxattr(fd)
        except OSError:
            return node  # this file system keeps none
        kept: list[tuple[str, bytes]] = []
        is_opaque = False
        room = min(MAX_XATTR_BYTES, self._xattr_room)
        for name in sorted(names, key=lambda name: (not name.startswith("user.overlay."), name)):
            if not name.startswith("user.") or name in _OVERLAY_NOTES:
                continue
            value = _xattr(fd, name)
            if name == OPAQUE and value == b"y":
                is_opaque = True  # always kept: without this mark a layer means something else
                continue
            cost = len(name) + len(value)
            if cost > room or not name.isascii():
                self.skipped["xattrs"] += 1
                continue
            room -= cost
            self._xattr_room -= cost
            kept.append((name, value))
        return replace(node, is_opaque=is_opaque, xattrs=tuple(sorted(kept)))

    def _may_inline(self, size: int) -> bool:
        if size >= INLINE_BYTES or size > self._inline_room:
            return False
        self._inline_room -= size
        return True

    def _put(self, data: bytes) -> str:
        return self._batch.put(data)[0]


class _Level:
    """A directory on the way down: its node, still without a digest, and what is in it so far."""

    def __init__(self, node: Node, put: Callable[[bytes], str]) -> None:
        self.node = node
        self.objects = DirectoryObjects(put)

    def add(self, node: Node) -> None:
        self.objects.add(node.name, line_of(node))


def _xattr(fd: int, name: str) -> bytes:
    try:
        return os.getxattr(fd, name)
    except OSError:
        return b""
