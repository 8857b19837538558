"""The caller's own directory while changes are written into it: how one file, link or directory
gets there. Which changes may be written is decided in `write_back`.

Somebody may be renaming directories here at the same time. So everything goes through the
descriptor of the directory that was entered, a new file gets its content under a name of its own
and is renamed into place, and only what was really made here is given to another owner.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import stat
from collections.abc import Callable

from paddock.model.errors import Conflict
from paddock.objects.file_bytes import copy_file
from paddock.state.files.descent import Descent
from paddock.state.files.tree_walk import remove, status

Owner = tuple[int, int]
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ChangeRefused(Exception):
    """A change that is not written back; the text says why."""


class TargetDirectory:
    """A place in the tree that is written to."""

    def __init__(self, descent: Descent, owner: Owner | None) -> None:
        self.descent = descent
        self._owner = owner
        self._modes: dict[tuple[str, ...], int] = {}

    @property
    def fd(self) -> int:
        return self.descent.fd

    def put_file(self, name: str, source: int, st: os.stat_result) -> None:
        """Replace whatever has this name by a copy of an open file."""
        self._replace(name, lambda new: self._create_file(new, source, st))

    def put_link(self, name: str, points_to: str) -> None:
        """Replace whatever has this name by a symbolic link."""
        self._replace(name, lambda new: self._create_link(new, points_to))

    def make_dir(self, name: str, mode: int) -> None:
        """Make a directory and go into it."""
        os.mkdir(name, 0o700, dir_fd=self.fd)
        self.descent.enter(name)
        if self._owner is not None:
            if os.fstat(self.fd).st_uid != os.geteuid() or os.listdir(self.fd):
                raise ChangeRefused("the target is being changed by somebody else")
            os.fchown(self.fd, *self._owner)
        self.set_mode(mode)

    def set_mode(self, mode: int) -> None:
        """Set the mode of the current directory. We keep our rights until `finish`, and the setgid
        and sticky bits are the target's own."""
        mode |= os.fstat(self.fd).st_mode & 0o7000
        os.fchmod(self.fd, mode | 0o700)
        path = tuple(self.descent.parts)
        self._modes.pop(path, None)
        if mode & 0o700 != 0o700:
            self._modes[path] = mode

    def finish(self) -> None:
        """Give directories the modes that deny their owner something, inner ones first."""
        for path in sorted(self._modes, reverse=True):
            try:
                self.descent.go_to(path)
                self.descent.leave(functools.partial(os.fchmod, mode=self._modes[path]))
            except (OSError, Conflict):
                self.descent.reset()  # it was moved or removed meanwhile

    def _replace(self, name: str, create: Callable[[str], None]) -> None:
        temporary, here = f".paddock-{secrets.token_hex(8)}", self.fd
        try:
            create(temporary)
            st = status(name, here)
            if st is not None and stat.S_ISDIR(st.st_mode):
                remove(name, here)
            os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=here)
            raise

    def _create_file(self, name: str, source: int, st: os.stat_result) -> None:
        fd = os.open(name, _NEW_FILE, 0o600, dir_fd=self.fd)
        try:
            copy_file(source, fd, st.st_size)
            if self._owner is not None:
                os.fchown(fd, *self._owner)
            os.fchmod(fd, st.st_mode & 0o777)
            os.utime(fd, ns=(st.st_mtime_ns, st.st_mtime_ns))
        finally:
            os.close(fd)

    def _create_link(self, name: str, points_to: str) -> None:
        os.symlink(points_to, name, dir_fd=self.fd)
        if self._owner is None:
            return
        # By descriptor: a name could mean another file by now, and its owner must not change.
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            st = os.fstat(fd)
            if not stat.S_ISLNK(st.st_mode) or st.st_uid != os.geteuid():
                raise ChangeRefused("the target is being changed by somebody else")
            os.chown(f"/proc/self/fd/{fd}", *self._owner)
        finally:
            os.close(fd)
