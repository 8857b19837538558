"""A sandbox's own writable layer: made, forked, measured and removed. One face, two kinds.

`BtrfsLayers` has hard quotas and forks in one step; `PlainLayers` works anywhere, copies (by
reflink where the file system can) and leaves the quota to a watcher.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from paddock.model.errors import SandboxError
from paddock.state import btrfs
from paddock.state.home import remove_tree

PARTS = ("home", "tmp", "overlays")
_FICLONE = 0x40049409
_BLOCK = 512


class Layers(Protocol):
    """Where layers live."""

    has_hard_quota: bool
    is_copy_on_write: bool

    def path(self, name: str) -> Path: ...

    def names(self) -> list[str]: ...

    def create(self, name: str, quota_bytes: int, owner: tuple[int, int]) -> Path: ...

    def fork(self, source: str, name: str, quota_bytes: int) -> Path: ...

    def set_quota(self, name: str, quota_bytes: int) -> None: ...

    def used_bytes(self, name: str) -> int: ...

    def destroy(self, name: str) -> None: ...


class BtrfsLayers:
    """Layers as subvolumes of a mounted btrfs, given by a descriptor of its root."""

    has_hard_quota = True
    is_copy_on_write = True

    def __init__(self, root_fd: int, root: Path | None = None) -> None:
        self._fd = root_fd
        # Without a path, by the descriptor: the mount is in the keeper's namespace, not in ours.
        self._root = root or Path(f"/proc/self/fd/{root_fd}")

    def path(self, name: str) -> Path:
        return self._root / name

    def names(self) -> list[str]:
        return os.listdir(self._root)

    def create(self, name: str, quota_bytes: int, owner: tuple[int, int]) -> Path:
        btrfs.create_subvolume(self._fd, name)
        self.set_quota(name, quota_bytes)
        path = self.path(name)
        _make_parts(path, owner)
        return path

    def fork(self, source: str, name: str, quota_bytes: int) -> Path:
        with self._opened(source) as source_fd:
            btrfs.snapshot_subvolume(self._fd, source_fd, name)
        self.set_quota(name, quota_bytes)
        return self.path(name)

    def set_quota(self, name: str, quota_bytes: int) -> None:
        with self._opened(name) as fd:
            btrfs.limit_subvolume(fd, quota_bytes)

    def used_bytes(self, name: str) -> int:
        with self._opened(name) as fd:
            return btrfs.used_bytes(fd)

    def destroy(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            btrfs.destroy_subvolume(self._fd, name)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=self._fd)
        try:
            yield fd
        finally:
            os.close(fd)


class PlainLayers:
    """Layers as plain directories."""

    has_hard_quota = False
    is_copy_on_write = False

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        return self._root / name

    def names(self) -> list[str]:
        return os.listdir(self._root)

    def create(self, name: str, quota_bytes: int, owner: tuple[int, int]) -> Path:
        path = self.path(name)
        path.mkdir(mode=0o755)
        _make_parts(path, owner)
        return path

    def fork(self, source: str, name: str, quota_bytes: int) -> Path:
        copy_tree(self.path(source), self.path(name))
        return self.path(name)

    def set_quota(self, name: str, quota_bytes: int) -> None:
        return

    def used_bytes(self, name: str) -> int:
        return tree_bytes(self.path(name))

    def destroy(self, name: str) -> None:
        if self.path(name).exists():
            remove_tree(self.path(name))


def tree_bytes(top: Path) -> int:
    """Bytes on disk below `top`, with something for each name, so that empty files count too."""
    total = 0
    pending = [os.fspath(top)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                total += max(info.st_blocks * _BLOCK, 1024)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return total


def copy_tree(source: Path, target: Path) -> None:
    """A copy of a layer that nobody is writing (its machine is frozen): links are not followed."""
    pending = [(os.fspath(source), os.fspath(target))]
    links: dict[int, str] = {}
    directories: list[tuple[str, os.stat_result]] = []
    while pending:
        origin, copy = pending.pop()
        info = os.lstat(origin)
        os.mkdir(copy, 0o700)
        directories.append((copy, info))
        _copy_xattrs(origin, copy)
        with os.scandir(origin) as entries:
            for entry in entries:
                place = os.path.join(copy, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, place))
                else:
                    _copy_entry(entry, place, links)
    for copy, info in reversed(directories):  # modes last: a closed directory takes no children
        _copy_attributes(copy, info)


def _copy_entry(entry: os.DirEntry[str], place: str, links: dict[int, str]) -> None:
    info = entry.stat(follow_symlinks=False)
    if info.st_nlink > 1 and info.st_ino in links:
        os.link(links[info.st_ino], place, follow_symlinks=False)
        return
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(entry.path), place)
    elif stat.S_ISREG(info.st_mode):
        copy_file(entry.path, place)
    elif stat.S_ISFIFO(info.st_mode):
        os.mkfifo(place)
    elif stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
        os.mknod(place, stat.S_IFCHR, 0)  # an overlay's whiteout
    else:
        return  # sockets and devices have no meaning in a copy
    links[info.st_ino] = place
    _copy_attributes(place, info)


def copy_file(source: str, target: str) -> None:
    """Shares the blocks where the file system can, else copies in the kernel."""
    reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _clone_or_copy(reader, writer)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _clone_or_copy(reader: int, writer: int) -> None:
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
        return
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY):
            raise SandboxError(f"cannot copy a file of the layer: {error.strerror}") from None
    while os.copy_file_range(reader, writer, 1 << 30):
        pass


def _copy_attributes(place: str, info: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.chown(place, info.st_uid, info.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(place, stat.S_IMODE(info.st_mode) & 0o1777)
    os.utime(place, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)


def _copy_xattrs(origin: str, copy: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listxattr(origin, follow_symlinks=False):
            if name.startswith("user."):
                value = os.getxattr(origin, name, follow_symlinks=False)
                os.setxattr(copy, name, value, follow_symlinks=False)


def _make_parts(path: Path, owner: tuple[int, int]) -> None:
    for part in PARTS:
        (path / part).mkdir(mode=0o755)
        if os.geteuid() == 0:
            os.chown(path / part, *owner)
    if os.geteuid() == 0:
        os.chown(path, *owner)
