"""Directories of an agent turned into nodes, again and again, reading only what has changed.

What a path was is known by its stamp: the kernel sets the time of change at every change and
nobody can set it back. Its clock has ticks, so a stamp is trusted only if it is older than the
tick in which the file was read: a later change has a later stamp then. No link is followed, and
what vanishes or changes meanwhile is taken as it was found.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from paddock.model.errors import InvalidInput, OutOfSpace
from paddock.model.space import is_out_of_space
from paddock.state.changes.change import link_target
from paddock.state.files.descent import CHANGED_UNDERNEATH, MAX_OPEN_LEVELS, Descent, shown
from paddock.state.files.overlay_marks import has_opaque_mark, is_whiteout
from paddock.state.files.tree_walk import listing
from paddock.state.trees.nodes import DirectoryObjects, Node, NodeKind, line_of

# Deeper directories and further entries are an attack or a mistake: they are left out, and the
# tree says that it is cut. Up to this depth a descent keeps the way back open, so that nothing
# that is moved meanwhile can end the scan.
MAX_DEPTH = MAX_OPEN_LEVELS - 2
MAX_ENTRIES = 500_000
# CLOCK_REALTIME_COARSE, for which Python has no name: the clock that file systems stamp with.
_FILE_CLOCK = 5
UNTRUSTED = -1  # no stamp is ever like it


class Keeping(Protocol):
    """The receiver of the bytes that a scan finds."""

    def take_object(self, data: bytes) -> str: ...

    def take_file(self, name: str, dir_fd: int) -> TakenFile | None: ...


class TakenFile(msgspec.Struct, frozen=True):
    """A file as it was read: its status, and what is known of its bytes. `is_steady`: it did not
    change while it was read."""

    status: os.stat_result
    digest: str
    size: int
    is_kept: bool
    is_steady: bool
    is_split: bool = False


class SeenFile(msgspec.Struct):
    """One name at the last scan."""

    raw_name: bytes
    changed_ns: int
    inode: int
    node: Node
    line: bytes


class SeenDir(msgspec.Struct):
    """One directory at the last scan. `names` are all of a listing, also what is not kept."""

    changed_ns: int = UNTRUSTED
    inode: int = 0
    names: list[str] = []
    nodes: dict[str, SeenFile] = {}
    below: dict[str, SeenDir] = {}
    node: Node | None = None
    line: bytes = b""
    entries: int = 0


class RootScan:
    """One pass over one root. `changed` has the paths that differ from the pass before."""

    def __init__(self, keeping: Keeping, prefix: str, room: int, now_ns: int) -> None:
        """`now_ns` is what `file_clock_ns` said before anything was looked at."""
        self._keeping = keeping
        self._prefix = prefix
        self.room = room
        self._now = now_ns
        self.changed: list[str] = []
        self.is_cut = False

    def run(self, root: Path, seen: SeenDir) -> None:
        """Bring `seen` up to date; its node is the root's then."""
        with Descent(root, lift=True) as descent:
            self._directory(descent, "", descent.start, seen)

    def _directory(self, descent: Descent, name: str, st: os.stat_result, seen: SeenDir) -> bool:
        """Read the directory that `descent` is in; return whether it differs from what it was."""
        is_new = seen.node is None
        is_same = not is_new and st.st_ctime_ns == seen.changed_ns and st.st_ino == seen.inode
        is_other = False
        if not is_same or len(seen.names) > self.room:
            is_other = self._relist(descent, st, seen)
        self.room -= len(seen.names)
        for child in _suspects(descent.fd, seen.nodes):
            is_other |= self._look(descent, child, seen)
        if len(seen.names) > len(seen.nodes) + len(seen.below):
            for child in seen.names:
                if child not in seen.nodes and child not in seen.below:
                    is_other |= self._look(descent, child, seen)
        for child in list(seen.below):
            is_other |= self._enter(descent, child, seen)
        return self._conclude(descent, name, st, seen, is_other=is_other, is_same=is_same)

    def _relist(self, descent: Descent, st: os.stat_result, seen: SeenDir) -> bool:
        names = listing(descent.fd)
        is_trusted = st.st_ctime_ns < self._now
        if len(names) > self.room:
            names, is_trusted, self.is_cut = names[: self.room], False, True
        gone = (seen.nodes.keys() | seen.below.keys()).difference(names)
        for name in gone:
            self._forget(descent, name, seen)
        seen.names = names
        seen.inode = st.st_ino
        seen.changed_ns = st.st_ctime_ns if is_trusted else UNTRUSTED
        return bool(gone)

    def _forget(self, descent: Descent, name: str, seen: SeenDir) -> bool:
        """Forget a name that has gone, or has become something that is not kept."""
        was = seen.nodes.pop(name, None) is not None
        was |= seen.below.pop(name, None) is not None
        if was:
            self._tell(descent.path_of(name))
        return was

    def _look(self, descent: Descent, name: str, seen: SeenDir) -> bool:
        """Read what a name is now, and return whether that differs from what it was."""
        try:
            st = os.stat(name, dir_fd=descent.fd, follow_symlinks=False)
        except OSError:
            return self._forget(descent, name, seen)
        if stat.S_ISDIR(st.st_mode):
            return self._enter(descent, name, seen)
        seen.below.pop(name, None)
        now = self._read(descent, name, st)
        if now is None:
            return self._forget(descent, name, seen)
        old = seen.nodes.get(name)
        seen.nodes[name] = now
        if old is not None and old.line == now.line:
            return False
        self._tell(descent.path_of(name))
        return True

    def _read(self, descent: Descent, name: str, st: os.stat_result) -> SeenFile | None:
        mode = st.st_mode
        if stat.S_ISREG(mode):
            return self._read_file(descent, name)
        if stat.S_ISLNK(mode):
            target = link_target(name, descent.fd) or ""
            return self._seen(st, Node(name, NodeKind.SYMLINK, target=target)) if target else None
        if stat.S_ISFIFO(mode):
            return self._seen(st, Node(name, NodeKind.FIFO, mode=mode & 0o777))
        return self._seen(st, Node(name, NodeKind.WHITEOUT)) if is_whiteout(st) else None

    def _read_file(self, descent: Descent, name: str) -> SeenFile | None:
        try:
            taken = self._keeping.take_file(name, descent.fd)
        except OutOfSpace as error:
            path = shown(f"{self._prefix}/{descent.path_of(name)}")
            raise OutOfSpace(f"{path} is not stored: {error.message}", hint=error.hint) from None
        except OSError as error:  # not that it is gone: that it may not or cannot be read
            if is_out_of_space(error):
                raise  # it is the store that has no room, and nothing must look as if it had
            self.is_cut = True
            return None
        if taken is None:
            return None
        node = Node(
            name,
            NodeKind.FILE,
            mode=taken.status.st_mode & 0o777,
            size=taken.size,
            digest=taken.digest,
            is_kept=taken.is_kept,
            is_split=taken.is_split,
        )
        return self._seen(taken.status, node, is_steady=taken.is_steady)

    def _seen(self, st: os.stat_result, node: Node, *, is_steady: bool = True) -> SeenFile:
        is_trusted = is_steady and st.st_ctime_ns < self._now
        changed_ns = st.st_ctime_ns if is_trusted else UNTRUSTED
        return SeenFile(os.fsencode(node.name), changed_ns, st.st_ino, node, line_of(node))

    def _enter(self, descent: Descent, name: str, seen: SeenDir) -> bool:
        if descent.depth >= MAX_DEPTH:
            self.is_cut = True
            return self._forget(descent, name, seen)
        try:
            st = descent.enter(name)
        except OSError as error:
            was_there = self._forget(descent, name, seen)
            if error.errno not in CHANGED_UNDERNEATH:
                self.is_cut = True
            elif was_there:
                self._look(descent, name, seen)  # it is no directory any more
            return was_there
        was_file = seen.nodes.pop(name, None) is not None
        inner = seen.below.get(name)
        if inner is None:
            inner = seen.below[name] = SeenDir()
        is_other = self._directory(descent, name, st, inner)
        descent.leave()
        return is_other or was_file

    def _conclude(
        self,
        descent: Descent,
        name: str,
        st: os.stat_result,
        seen: SeenDir,
        *,
        is_other: bool,
        is_same: bool,
    ) -> bool:
        """Write the directory's object if it, or anything in it, differs from what it was."""
        old = seen.node
        if old is not None and is_same and not is_other:
            return False
        is_opaque = old.is_opaque if old is not None and is_same else has_opaque_mark(descent.fd)
        mode = st.st_mode & 0o1777
        digest = self._store(seen) if old is None or is_other else old.digest
        seen.node = Node(name, NodeKind.DIR, mode=mode, digest=digest, is_opaque=is_opaque)
        seen.line = line_of(seen.node)
        seen.entries = len(seen.nodes) + sum(1 + inner.entries for inner in seen.below.values())
        is_self_other = old is None or (old.mode, old.is_opaque) != (mode, is_opaque)
        if is_self_other and (name or old is not None):
            self._tell("/".join(descent.parts))
        return is_other or is_self_other

    def _store(self, seen: SeenDir) -> str:
        objects = DirectoryObjects(self._keeping.take_object)
        for name in seen.names:
            entry = seen.nodes.get(name) or seen.below.get(name)
            if entry is not None:
                objects.add(name, entry.line)
        return self._keeping.take_object(objects.finish())

    def _tell(self, path: str) -> None:
        self.changed.append(f"{self._prefix}/{path}" if path else self._prefix)


def file_clock_ns() -> int:
    """Return a time that whatever changes from now on has at least as its time of change."""
    return time.clock_gettime_ns(_FILE_CLOCK)


def every_seen(seen: Mapping[str, SeenDir]) -> Iterator[SeenFile]:
    """Yield everything that was seen and is no directory."""
    pending = list(seen.values())
    while pending:
        directory = pending.pop()
        pending += directory.below.values()
        yield from directory.nodes.values()


def find_seen(seen: Mapping[str, SeenDir], path: str) -> SeenFile | None:
    """Return what is known of the file at a path that begins with the name of its root, or None if
    it was not there or is a directory. The root with the longest name is the one that is mounted
    last."""
    for root in sorted(seen, key=len, reverse=True):
        if not path.startswith(f"{root}/"):
            continue
        directory: SeenDir | None = seen[root]
        *parents, name = path.removeprefix(f"{root}/").split("/")
        for part in parents:
            directory = None if directory is None else directory.below.get(part)
        return None if directory is None else directory.nodes.get(name)
    return None


def is_same(root: Path, seen: SeenDir) -> bool:
    """Return whether a pass would certainly find nothing new. It reads statuses and nothing
    else."""
    try:
        with Descent(root, lift=True) as descent:
            return _is_same(descent, descent.start, seen)
    except (OSError, InvalidInput):
        return False


def _is_same(descent: Descent, st: os.stat_result, seen: SeenDir) -> bool:
    if seen.node is None or st.st_ctime_ns != seen.changed_ns or st.st_ino != seen.inode:
        return False
    if len(seen.names) != len(seen.nodes) + len(seen.below) or _suspects(descent.fd, seen.nodes):
        return False
    for name, inner in seen.below.items():
        if not _is_same(descent, descent.enter(name), inner):
            return False
        descent.leave()
    return True


def _suspects(fd: int, nodes: dict[str, SeenFile]) -> list[str]:
    """Return names that are not certainly what they were. It is one call for each file at each
    step: what this loop does is what a large tree costs, so it has names as the kernel wants
    them."""
    suspects = []
    lstat = os.lstat
    for name, old in nodes.items():
        try:
            st = lstat(old.raw_name, dir_fd=fd)
        except OSError:
            suspects.append(name)
            continue
        if st.st_ctime_ns != old.changed_ns or st.st_ino != old.inode:
            suspects.append(name)
    return suspects
