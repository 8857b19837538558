"""A position inside a tree of untrusted files, held by descriptors. No link is ever followed here.

The files were written by an agent that may still be changing them, so a path is never resolved
twice: a directory is opened relative to its parent's descriptor, and everything done in it goes
through that descriptor. Trees may be deeper than PATH_MAX, so the number of open descriptors is
bounded; a parent whose descriptor was closed is reached again by `..` and recognised by its inode.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from paddock.model.errors import Conflict, InvalidInput

DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a FIFO that takes a file's place between two calls must not hang us.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Deep enough that ordinary trees never reopen a parent, far below the usual limit of 1024 files.
MAX_OPEN_LEVELS = 48
# What an entry that is no longer what it was a moment ago answers.
CHANGED_UNDERNEATH = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})


class _Level:
    __slots__ = ("fd", "identity", "lifted_from")

    def __init__(self, fd: int, identity: tuple[int, int], lifted_from: int | None) -> None:
        self.fd = fd  # -1 while closed to save descriptors
        self.identity = identity
        self.lifted_from = lifted_from  # the mode to give back when we leave


class Descent:
    """A position in one tree: `fd` is the current directory, `parts` the way to it, `start` the
    status of the root when we came.

    `lift` lets an ordinary user read what its own agent has made unreadable: the owner's bits
    are set while we are inside and put back when we leave.
    """

    def __init__(self, root: Path | int, *, lift: bool = False) -> None:
        """Starts at a directory that the caller names (a link in its place is refused), or at an
        open one by its descriptor, which stays the caller's."""
        if isinstance(root, int):
            root = os.dup(root)
            self.start = os.fstat(root)
            level = _Level(root, _identity(self.start), None)
        else:
            level, self.start = _open_level(os.fspath(root), None, lift=lift)
        self._levels = [level]
        self._lift = lift
        self.parts: list[str] = []

    @property
    def fd(self) -> int:
        return self._levels[-1].fd

    @property
    def depth(self) -> int:
        return len(self.parts)

    def path_of(self, name: str) -> str:
        return "/".join([*self.parts, name])

    def enter(self, name: str) -> os.stat_result:
        """Go into a child directory; return its status as it was before any lifting."""
        level, st = _open_level(name, self.fd, lift=self._lift)
        self._levels.append(level)
        self.parts.append(name)
        self._close_far_level()
        return st

    def leave(self, finish: Callable[[int], None] | None = None) -> None:
        """Go back to the parent. `finish` gets the child's descriptor once it is not needed for
        finding the parent any more, so it may take permissions away."""
        child, parent = self._levels.pop(), self._levels[-1]
        self.parts.pop()
        try:
            if parent.fd < 0:
                parent.fd = self._reopen_parent(child.fd, parent.identity)
            if child.lifted_from is not None:
                os.fchmod(child.fd, child.lifted_from)
            if finish is not None:
                finish(child.fd)
        finally:
            os.close(child.fd)

    def go_to(self, parts: Sequence[str]) -> None:
        """Move to another directory of the tree by way of the nearest common parent."""
        self.rise_towards(parts)
        for name in parts[self.depth :]:
            self.enter(name)

    def rise_towards(self, parts: Sequence[str]) -> None:
        """Move up until we are on the way to a directory, or in it."""
        common = _common_prefix(self.parts, parts)
        while self.depth > common:
            self.leave()

    def reset(self) -> None:
        """Go back to the root without passing through the directories between, for when one of them
        is not where it was."""
        while len(self._levels) > 1:
            level = self._levels.pop()
            if level.fd >= 0:
                _close_level(level)
        self.parts.clear()

    def make_writable(self) -> None:
        """Give the owner back all rights on the current directory, where we are the owner."""
        st = os.fstat(self.fd)
        if st.st_uid == os.geteuid() and st.st_mode & 0o700 != 0o700:
            os.fchmod(self.fd, stat.S_IMODE(st.st_mode) | 0o700)

    def close(self) -> None:
        self.reset()
        while self._levels:
            _close_level(self._levels.pop())

    def __enter__(self) -> Descent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _close_far_level(self) -> None:
        """Close the level that has just become too far up; the root's stays open."""
        far = len(self._levels) - MAX_OPEN_LEVELS
        if far > 0 and self._levels[far].fd >= 0:
            os.close(self._levels[far].fd)
            self._levels[far].fd = -1

    def _reopen_parent(self, child_fd: int, identity: tuple[int, int]) -> int:
        fd = os.open("..", DIR_FLAGS, dir_fd=child_fd)
        if _identity(os.fstat(fd)) == identity:
            return fd
        os.close(fd)
        raise Conflict(
            "a directory was moved while its tree was being read",
            hint="pause the sandbox first, then try again",
        )


def open_file(name: str, dir_fd: int, *, lift: bool = False) -> int | None:
    """Open a regular file for reading. Returns None when it is gone or is no regular file (any
    more)."""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in CHANGED_UNDERNEATH:
            return None
        if error.errno != errno.EACCES or not lift:
            raise
        fd = _open_lifted(name, FILE_FLAGS, dir_fd)[0]
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def shown(path: str, limit: int = 200) -> str:
    """Return an untrusted path as it may stand in a message: no control characters, not endless."""
    safe = ascii(path)[1:-1]
    return safe if len(safe) <= limit else f"...{safe[-limit:]}"


def _close_level(level: _Level) -> None:
    try:
        if level.lifted_from is not None:
            os.fchmod(level.fd, level.lifted_from)
    finally:
        os.close(level.fd)


def _identity(st: os.stat_result) -> tuple[int, int]:
    return st.st_dev, st.st_ino


def _open_level(name: str, dir_fd: int | None, *, lift: bool) -> tuple[_Level, os.stat_result]:
    lifted_from = None
    try:
        fd = os.open(name, DIR_FLAGS, dir_fd=dir_fd)
        st = os.fstat(fd)
    except PermissionError:
        if not lift:
            raise
        fd, st = _open_lifted(name, DIR_FLAGS, dir_fd)
        lifted_from = stat.S_IMODE(st.st_mode)
    except OSError as error:
        if dir_fd is None and error.errno in CHANGED_UNDERNEATH:
            raise InvalidInput(f"{name}: no such directory (a link is not followed)") from None
        raise
    if lift and lifted_from is None and _denies_search(st):
        lifted_from = stat.S_IMODE(st.st_mode)
        os.fchmod(fd, lifted_from | 0o500)
    return _Level(fd, _identity(st), lifted_from), st


def _denies_search(st: os.stat_result) -> bool:
    """Return whether a directory is ours and readable, but not searchable: listing works, opening
    what is listed does not."""
    user = os.geteuid()
    return user != 0 and st.st_uid == user and not st.st_mode & 0o100


def _open_lifted(name: str, flags: int, dir_fd: int | None) -> tuple[int, os.stat_result]:
    """Open our own file or directory that denies its owner; return its status from before.

    The permission is changed through the descriptor of the very inode that was checked, by its
    link in /proc: a name could mean another file by now. A file gets its mode back at once, a
    directory stays lifted, because opening its children needs the right to search it.
    """
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        st = os.fstat(handle)
        is_dir = stat.S_ISDIR(st.st_mode)
        if st.st_uid != os.geteuid() or not (is_dir or stat.S_ISREG(st.st_mode)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        link, mode = f"/proc/self/fd/{handle}", stat.S_IMODE(st.st_mode)
        os.chmod(link, mode | (0o500 if is_dir else 0o400))
        try:
            return os.open(link, flags & ~os.O_NOFOLLOW), st
        finally:
            if not is_dir:
                os.chmod(link, mode)
    finally:
        os.close(handle)


def _common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count
