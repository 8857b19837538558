"""A sandbox's own writable layer: made, forked, measured and removed. One face, two kinds.

`BtrfsLayers` has hard quotas and forks in one step; `PlainLayers` works anywhere, copies (by
reflink where the file system can) and leaves the quota to a watcher.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from paddock.objects.store_lock import StoreLock
from paddock.state.files.tree_copy import copy_tree, tree_bytes
from paddock.state.home import Home, SandboxRecord, remove_tree
from paddock.state.layers import btrfs
from paddock.state.privilege import is_privileged

_INHERITED = "user.paddock.inherited"  # on a layer's root, which no sandbox sees
_LEAST_QUOTA = 1 << 20
PARTS = ("home", "tmp", "overlays")
_VOLUME = "volume-"


def volume_layer(volume: str) -> str:
    """Return the layer that a volume lies in."""
    return f"{_VOLUME}{volume}"


def is_copy(layer: str) -> bool:
    """Return whether it is a copy that a fork is made from and compared with, or that a snapshot
    reads."""
    return layer.partition("-")[0] in ("base", "saving")


def copies_lock(home: Home) -> StoreLock:
    """Return the lock that is held, shared, while copies are in use that no sandbox's record
    names."""
    return StoreLock(home.root / ".copies.lock")


def volume_of(layer: str) -> str | None:
    """Return the volume that lies in a layer, if one does."""
    return layer.removeprefix(_VOLUME) if layer.startswith(_VOLUME) else None


def unneeded_copies(home: Home, layers: Layers) -> list[str]:
    """Return the copies that no sandbox compares itself with. Only under the exclusive lock of
    copies."""
    records = [SandboxRecord.read(directory) for directory in home.sandboxes.iterdir()]
    needed = {(record.info or {}).get("base") for record in records if record is not None}
    return [name for name in layers.names() if is_copy(name) and name not in needed]


class Layers(Protocol):
    """The place where layers live."""

    has_hard_quota: bool
    is_copy_on_write: bool

    def path(self, name: str) -> Path: ...

    def names(self) -> list[str]: ...

    def create(self, name: str, quota_bytes: int, owner: tuple[int, int]) -> Path: ...

    def fork(self, source: str, name: str, quota_bytes: int) -> Path: ...

    def set_quota(self, name: str, quota_bytes: int) -> None: ...

    def used_bytes(self, name: str) -> int: ...

    def own_bytes(self, name: str) -> int:
        """Return what it does not share with the layer that it was forked from."""
        ...

    def destroy(self, name: str) -> None: ...

    def trim(self) -> None:
        """Gives the room of what was removed back to the host's file system."""
        ...


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
            inherited = btrfs.used_bytes(source_fd) + _inherited(source_fd)
        with self._opened(name) as fd:
            # Shared blocks are charged to whoever wrote them; the fork counts them all the same.
            os.setxattr(fd, _INHERITED, str(inherited).encode())
        self.set_quota(name, quota_bytes)
        return self.path(name)

    def set_quota(self, name: str, quota_bytes: int) -> None:
        with self._opened(name) as fd:
            btrfs.limit_subvolume(fd, max(quota_bytes - _inherited(fd), _LEAST_QUOTA))

    def used_bytes(self, name: str) -> int:
        with self._opened(name) as fd:
            return btrfs.used_bytes(fd) + _inherited(fd)

    def own_bytes(self, name: str) -> int:
        with self._opened(name) as fd:
            return btrfs.used_bytes(fd)

    def destroy(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            btrfs.destroy_subvolume(self._fd, name)

    def trim(self) -> None:
        btrfs.trim(self._fd)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=self._fd)
        try:
            yield fd
        finally:
            os.close(fd)


def _inherited(fd: int) -> int:
    try:
        return int(os.getxattr(fd, _INHERITED))
    except (OSError, ValueError):
        return 0


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

    def own_bytes(self, name: str) -> int:
        return self.used_bytes(name)

    def destroy(self, name: str) -> None:
        if self.path(name).exists():
            remove_tree(self.path(name))

    def trim(self) -> None:
        return


def _make_parts(path: Path, owner: tuple[int, int]) -> None:
    for part in PARTS:
        (path / part).mkdir(mode=0o755)
        if is_privileged():
            os.chown(path / part, *owner)
    if is_privileged():
        os.chown(path, *owner)
