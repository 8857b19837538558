"""The changes that the upper layer of an overlay makes in the lower one. Both are only read.

The layer is one that the kernel wrote in a user namespace (`userxattr`): a whiteout is character
device 0:0, and a directory that hides the lower one has the attribute `user.overlay.opaque`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path

import msgspec

from paddock.objects.file_bytes import has_same_content
from paddock.state.changes.change import (
    FileChange,
    Kind,
    PathRoom,
    file_type,
    link_target,
    permissions,
    size_of,
)
from paddock.state.files.descent import CHANGED_UNDERNEATH, Descent, open_file
from paddock.state.files.overlay_marks import has_opaque_mark, is_whiteout
from paddock.state.files.tree_walk import listing, status


def overlay_changes(
    upper: Path, lower: Path | int, *, hidden: Container[str] = ()
) -> list[FileChange]:
    """Return the changes that an overlay's upper layer (mounted with `userxattr`) makes in its
    lower one. A file that was copied up but has the same bytes and mode is no change. What is
    hidden of the lower one was not there for whoever wrote the upper: it is neither changed nor
    deleted."""
    with Descent(upper, lift=True) as above, Descent(lower) as below:
        return list(_walk(above, below, hidden))


class _Frame(msgspec.Struct):
    names: Iterator[str]
    has_lower: bool
    is_opaque: bool


def _walk(above: Descent, below: Descent, hidden: Container[str]) -> Iterator[FileChange]:
    """Walks the upper layer with the lower one beside it, as far as both are directories."""
    room = PathRoom()
    frames = [_frame(above, below, has_lower=True, is_opaque=False)]
    while frames:
        frame = frames[-1]
        name = next(frame.names, None)
        if name is None:
            frames.pop()
            if frames:
                above.leave()
                if frame.has_lower:
                    below.leave()
            continue
        new = status(name, above.fd)
        is_shown = frame.has_lower and above.path_of(name) not in hidden
        old = status(name, below.fd) if is_shown else None
        if new is None or is_whiteout(new):
            if old is not None and (new is not None or frame.is_opaque):
                yield _change(room, above, name, "deleted", old)
        elif stat.S_ISDIR(new.st_mode):
            change = _directory_change(room, above, name, new, old)
            inner = _entered(above, below, name, old, is_opaque=frame.is_opaque)
            if inner is not None:
                frames.append(inner)
                if change is not None:
                    yield change
        elif old is None:
            yield _change(room, above, name, "added", new)
        elif not _is_same(above, below, name, new, old):
            yield _change(room, above, name, "modified", new)


def _frame(above: Descent, below: Descent, *, has_lower: bool, is_opaque: bool) -> _Frame:
    """Return the frame of the directory that both are in. `is_opaque` is the parent's: below an
    opaque directory nothing shows through any more, and the kernel does not mark the directories in
    it again."""
    is_opaque = has_lower and (is_opaque or has_opaque_mark(above.fd))
    names = listing(above.fd)
    if is_opaque:
        names = sorted({*names, *listing(below.fd)}, key=os.fsencode)
    return _Frame(iter(names), has_lower, is_opaque)


def _entered(
    above: Descent, below: Descent, name: str, old: os.stat_result | None, *, is_opaque: bool
) -> _Frame | None:
    """Goes into a directory of the upper layer, and into that of the lower one where it shows
    through. A lower one that we may not read did not show anything to the agent either."""
    try:
        above.enter(name)
    except OSError as error:
        if error.errno in CHANGED_UNDERNEATH:
            return None
        raise
    has_lower = False
    if old is not None and stat.S_ISDIR(old.st_mode):
        try:
            below.enter(name)
            has_lower = True
        except PermissionError:
            pass
        except OSError as error:
            if error.errno not in CHANGED_UNDERNEATH:
                raise
    return _frame(above, below, has_lower=has_lower, is_opaque=is_opaque)


def _directory_change(
    room: PathRoom, above: Descent, name: str, new: os.stat_result, old: os.stat_result | None
) -> FileChange | None:
    if old is None:
        return _change(room, above, name, "added", new)
    if stat.S_ISDIR(old.st_mode) and permissions(old) == permissions(new):
        return None
    return _change(room, above, name, "modified", new)


def _is_same(
    above: Descent, below: Descent, name: str, new: os.stat_result, old: os.stat_result
) -> bool:
    if stat.S_IFMT(new.st_mode) != stat.S_IFMT(old.st_mode):
        return False
    if stat.S_ISLNK(new.st_mode):
        return link_target(name, above.fd) == link_target(name, below.fd)
    if permissions(new) != permissions(old) or new.st_rdev != old.st_rdev:
        return False
    if not stat.S_ISREG(new.st_mode):
        return True
    return new.st_size == old.st_size and _is_same_content(above, below, name, new.st_size)


def _is_same_content(above: Descent, below: Descent, name: str, size: int) -> bool:
    """Return whether two files have the same bytes. A file that cannot be read is not the same."""
    fds: list[int] = []
    try:
        for descent, lift in ((above, True), (below, False)):
            fd = open_file(name, descent.fd, lift=lift)
            if fd is None:
                return False
            fds.append(fd)
        if any(os.fstat(fd).st_size != size for fd in fds):
            return False
        return has_same_content(fds[0], fds[1], size)
    except PermissionError:
        return False
    finally:
        for fd in fds:
            os.close(fd)


def _change(
    room: PathRoom, descent: Descent, name: str, kind: Kind, st: os.stat_result
) -> FileChange:
    return FileChange(room.take(descent.path_of(name)), kind, file_type(st.st_mode), size_of(st))
