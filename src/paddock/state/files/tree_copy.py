"""Copying and measuring a layer that an agent filled, on file systems without snapshots.

The machine is frozen while its layer is copied, but not while it is measured: names are never
resolved twice (see `descent`), and what the agent closed to itself is still copied and counted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from paddock.model.errors import Conflict, SandboxError
from paddock.objects.file_bytes import copy_file
from paddock.state.files import tree_walk
from paddock.state.files.descent import Descent, open_file
from paddock.state.home import remove_tree
from paddock.state.privilege import is_privileged

_BLOCK = 512
_LEAST = 1024  # what a name costs at least, so that a million empty files are not nothing
COUNTLESS = 1 << 62


def tree_bytes(top: Path) -> int:
    """Return the bytes on disk below `top`, counting a file of many names once; COUNTLESS for a
    tree that is too large to count."""
    total = 0
    seen: set[int] = set()
    try:
        with Descent(top, lift=True) as descent:
            for _, info in tree_walk.walk(descent):
                is_again = info.st_nlink > 1 and info.st_ino in seen and stat.S_ISREG(info.st_mode)
                total += _LEAST if is_again else max(info.st_blocks * _BLOCK, _LEAST)
                if info.st_nlink > 1:
                    seen.add(info.st_ino)
    except (Conflict, OSError):
        return total  # it changed underneath: the next count is soon
    except SandboxError:
        return COUNTLESS
    return total


def copy_tree(source: Path, target: Path) -> None:
    """Makes `target` a copy of the layer `source`; overlay work directories stay empty."""
    with Descent(source, lift=True) as descent:
        target.mkdir(mode=0o700)
        try:
            with Descent(target) as place, Descent(target) as first:
                _Copy(descent, place, first).run()
        except BaseException:
            remove_tree(target)
            raise


class _Copy:
    """One copy under way: where we read, where we write, and where first names lie."""

    def __init__(self, source: Descent, place: Descent, first: Descent) -> None:
        self._source = source
        self._place = place
        self._first = first
        self._links: dict[int, list[str]] = {}
        self._directories: list[tuple[list[str], os.stat_result]] = [([], source.start)]

    def run(self) -> None:
        _copy_xattrs(self._source.fd, self._place.fd)
        for name, info in tree_walk.walk(self._source):
            is_directory = stat.S_ISDIR(info.st_mode)
            parts = list(self._source.parts) if is_directory else [*self._source.parts, name]
            if _is_in_work(parts):
                continue
            self._place.go_to(parts[:-1])
            if is_directory:
                self._make_directory(parts, info)
            else:
                self._make_entry(parts, name, info)
        for parts, info in reversed(
            self._directories
        ):  # modes last: a closed one takes no children
            self._place.go_to(parts[:-1])
            if parts:
                _set_attributes(self._place.fd, parts[-1], info)
        self._place.go_to([])
        _set_attributes(self._place.fd, ".", self._source.start)

    def _make_directory(self, parts: list[str], info: os.stat_result) -> None:
        os.mkdir(parts[-1], 0o700, dir_fd=self._place.fd)
        self._directories.append((parts, info))
        self._place.enter(parts[-1])
        _copy_xattrs(self._source.fd, self._place.fd)

    def _make_entry(self, parts: list[str], name: str, info: os.stat_result) -> None:
        into = self._place.fd
        first = self._links.get(info.st_ino) if info.st_nlink > 1 else None
        if first is not None:
            self._first.go_to(first[:-1])
            os.link(
                first[-1], name, src_dir_fd=self._first.fd, dst_dir_fd=into, follow_symlinks=False
            )
            return
        if stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(name, dir_fd=self._source.fd), name, dir_fd=into)
        elif stat.S_ISREG(info.st_mode):
            _copy_content(self._source, name, info.st_size, into)
        elif stat.S_ISFIFO(info.st_mode):
            os.mkfifo(name, dir_fd=into)
        elif stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=into)  # an overlay's whiteout
        else:
            return  # sockets and devices have no meaning in a copy
        self._links[info.st_ino] = parts
        _set_attributes(into, name, info)


def _is_in_work(parts: list[str]) -> bool:
    return len(parts) > 3 and parts[0] == "overlays" and parts[2] == "work"


def _copy_content(source: Descent, name: str, size: int, into: int) -> None:
    reader = open_file(name, source.fd, lift=True)
    if reader is None:
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        writer = os.open(name, flags, 0o600, dir_fd=into)
        try:
            copy_file(reader, writer, size)
            _copy_xattrs(reader, writer)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _set_attributes(fd: int, name: str, info: os.stat_result) -> None:
    if is_privileged():
        os.chown(name, info.st_uid, info.st_gid, dir_fd=fd, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(name, stat.S_IMODE(info.st_mode) & 0o1777, dir_fd=fd)
    os.utime(name, ns=(info.st_atime_ns, info.st_mtime_ns), dir_fd=fd, follow_symlinks=False)


def _copy_xattrs(origin: int, copy: int) -> None:
    for name in os.listxattr(origin):
        if name.startswith("user."):
            with contextlib.suppress(OSError):  # a file system with less room for them
                os.setxattr(copy, name, os.getxattr(origin, name))
