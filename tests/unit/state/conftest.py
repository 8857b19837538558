"""What the tests of stored trees share: a reading of a tree that two trees can be compared by."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.state.files.tree_walk import remove

Description = dict[bytes, tuple[Any, ...]]


def _describe(root: Path, *, times: bool = False) -> Description:
    found: Description = {}
    links: dict[int, bytes] = {}
    top = os.fsencode(root)
    for base, dirs, files in os.walk(top):
        for name in sorted([*dirs, *files]):
            path = os.path.join(base, name)
            key = os.path.relpath(path, top)
            st = os.lstat(path)
            fact: tuple[Any, ...] = (stat.filemode(st.st_mode),)
            if stat.S_ISLNK(st.st_mode):
                fact = ("link", os.readlink(path))
            elif stat.S_ISREG(st.st_mode):
                first = links.setdefault(st.st_ino, key)
                fact += (first,) if first != key else (_content(path),)
                fact += (st.st_mtime_ns,) if times else ()
            elif stat.S_ISCHR(st.st_mode):
                fact = ("char", st.st_rdev)
            if stat.S_ISDIR(st.st_mode) and b"user.overlay.opaque" in _xattrs(path):
                fact += ("opaque",)
            found[key] = fact
    return found


def _content(path: bytes) -> bytes | tuple[int, int]:
    st = os.stat(path)
    if st.st_size > 1 << 24:
        return st.st_size, st.st_blocks * 512 // (1 << 20)
    mode = stat.S_IMODE(st.st_mode)
    os.chmod(path, mode | 0o400)
    with open(path, "rb") as file:
        content = file.read()
    os.chmod(path, mode)
    return content


def _xattrs(path: bytes) -> list[bytes]:
    try:
        return [os.fsencode(name) for name in os.listxattr(path)]
    except OSError:
        return []


@pytest.fixture(scope="session")
def describe() -> Callable[..., Description]:
    """Everything in a tree that matters, by its path."""
    return _describe


@pytest.fixture
def deep_tree(tmp_path: Path) -> Iterator[Path]:
    """A chain of directories past PATH_MAX and the recursion limit, a file at each end of
    every hundredth, and a sibling so that a walk has to come back up."""
    root = tmp_path / "deep"
    root.mkdir()
    fd = os.open(root, os.O_RDONLY)
    for level in range(1100):
        if level % 100 == 0:
            file = os.open(f"z{level}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
            os.write(file, str(level).encode())
            os.close(file)
        os.mkdir("directory", dir_fd=fd)
        child = os.open("directory", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = child
    os.close(fd)
    yield root
    # The clean-up of pytest itself cannot remove trees this deep.
    parent = os.open(tmp_path, os.O_RDONLY)
    for name in os.listdir(parent):
        remove(name, parent)
    os.close(parent)
