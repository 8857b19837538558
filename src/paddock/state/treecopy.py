"""Copying and measuring a layer that an agent filled, on file systems without snapshots.

The machine is frozen while its layer is copied, but not while it is measured: names are never
resolved twice (see `descent`), and what the agent closed to itself is still copied and counted.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from paddock.model.errors import Conflict, SandboxError
from paddock.state.copying import copy_file
from paddock.state.descent import Descent, open_file
from paddock.state.privilege import is_privileged
from paddock.state.treewalk import walk

_BLOCK = 512
_LEAST = 1024  # what a name costs at least, so that a million empty files are not nothing
COUNTLESS = 1 << 62


def tree_bytes(top: Path) -> int:
    """Bytes on disk below `top`; COUNTLESS when there are more entries than anybody needs."""
    total = 0
    try:
        with Descent(top, lift=True) as descent:
            for _, info in walk(descent):
                total += max(info.st_blocks * _BLOCK, _LEAST)
    except (Conflict, OSError):
        return total  # it changed underneath: the next count is soon
    except SandboxError:
        return COUNTLESS
    return total


def copy_tree(source: Path, target: Path) -> None:
    """Makes `target` a copy of the layer `source`; overlay work directories stay empty."""
    target.mkdir(mode=0o700)
    links: dict[int, str] = {}
    directories: list[tuple[str, os.stat_result]] = []
    with Descent(source, lift=True) as descent:
        directories.append((os.fspath(target), descent.start))
        for name, info in walk(descent):
            is_directory = stat.S_ISDIR(info.st_mode)
            inner = descent.parts if is_directory else [*descent.parts, name]
            place = os.path.join(target, *inner)
            if _is_in_work(inner):
                continue
            if is_directory:
                os.mkdir(place, 0o700)
                directories.append((place, info))
                _copy_xattrs(descent.fd, place)
            else:
                _copy_entry(descent, name, info, place, links)
    for place, info in reversed(directories):  # modes last: a closed directory takes no children
        _copy_attributes(place, info)


def _is_in_work(parts: list[str]) -> bool:
    return len(parts) > 3 and parts[0] == "overlays" and parts[2] == "work"


def _copy_entry(
    descent: Descent, name: str, info: os.stat_result, place: str, links: dict[int, str]
) -> None:
    if info.st_nlink > 1 and info.st_ino in links:
        os.link(links[info.st_ino], place, follow_symlinks=False)
        return
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(name, dir_fd=descent.fd), place)
    elif stat.S_ISREG(info.st_mode):
        _copy_content(descent, name, info.st_size, place)
    elif stat.S_ISFIFO(info.st_mode):
        os.mkfifo(place)
    elif stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
        os.mknod(place, stat.S_IFCHR, 0)  # an overlay's whiteout
    else:
        return  # sockets and devices have no meaning in a copy
    links[info.st_ino] = place
    _copy_attributes(place, info)


def _copy_content(descent: Descent, name: str, size: int, place: str) -> None:
    reader = open_file(name, descent.fd, lift=True)
    if reader is None:
        return
    try:
        writer = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copy_file(reader, writer, size)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _copy_attributes(place: str, info: os.stat_result) -> None:
    if is_privileged():
        os.chown(place, info.st_uid, info.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(place, stat.S_IMODE(info.st_mode) & 0o1777)
    os.utime(place, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)


def _copy_xattrs(origin: int, copy: str) -> None:
    for name in os.listxattr(origin):
        if name.startswith("user."):
            os.setxattr(copy, name, os.getxattr(origin, name), follow_symlinks=False)
