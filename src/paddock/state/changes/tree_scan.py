"""The changes of a tree since it was scanned, for a workspace whose start is known."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from paddock.model.results import FileType
from paddock.state.changes.change import (
    FileChange,
    PathRoom,
    file_type,
    link_target,
    permissions,
    size_of,
    walk_order,
)
from paddock.state.files.descent import Descent
from paddock.state.files.tree_walk import walk


class Stamp(msgspec.Struct, frozen=True):
    """The state of a path at the time of a scan. The kernel sets `ctime_ns` at every change and
    nobody can set it back, so a forged time of modification hides nothing."""

    type: FileType
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    inode: int
    target: str | None = None


def scan(tree: Path) -> dict[str, Stamp]:
    """Return every path of a tree with its stamp, to compare with later."""
    with Descent(tree, lift=True) as descent:
        return dict(_stamps(descent))


def scan_changes(before: Mapping[str, Stamp], tree: Path) -> list[FileChange]:
    """Return the changes of a tree since it was scanned."""
    changes = _compared(before, scan(tree))
    return sorted(changes, key=lambda change: walk_order(change.path))


def _stamps(descent: Descent) -> Iterator[tuple[str, Stamp]]:
    room = PathRoom()
    for name, st in walk(descent):
        is_dir = stat.S_ISDIR(st.st_mode)
        path = "/".join(descent.parts) if is_dir else descent.path_of(name)
        target = link_target(name, descent.fd) if stat.S_ISLNK(st.st_mode) else None
        yield room.take(path), _stamp(st, target)


def _stamp(st: os.stat_result, target: str | None) -> Stamp:
    return Stamp(
        type=file_type(st.st_mode),
        size=size_of(st),
        mtime_ns=st.st_mtime_ns,
        ctime_ns=st.st_ctime_ns,
        mode=permissions(st),
        inode=st.st_ino,
        target=target,
    )


def _compared(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> Iterator[FileChange]:
    for path, new in after.items():
        old = before.get(path)
        if old is None:
            yield FileChange(path, "added", new.type, new.size)
        elif not _is_same_stamp(old, new):
            yield FileChange(path, "modified", new.type, new.size)
    for path, old in before.items():
        if path in after:
            continue
        parent = path.rpartition("/")[0]
        # Below a directory that is gone, or that is none any more, nothing is listed.
        if parent and (parent not in after or after[parent].type is not FileType.DIR):
            continue
        yield FileChange(path, "deleted", old.type, old.size)


def _is_same_stamp(old: Stamp, new: Stamp) -> bool:
    if FileType.DIR in (old.type, new.type):
        # What else a directory's stamp says changes with its children, which are listed.
        return (old.type, old.mode) == (new.type, new.mode)
    return old == new
