"""The files of a program as state: copied, restored, compared. Links of the program are never
followed, and only plain files are read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paddock.objects.file_bytes import digest_of
from paddock.state.files import tree_walk
from paddock.state.files.descent import Descent, open_file
from paddock.state.files.tree_copy import copy_tree
from paddock.state.home import remove_tree
from paddock.world.changes import DocumentChange

_MAX_CHANGES = 1000
Entry = dict[str, Any]


def replace(source: Path, target: Path) -> None:
    """Make `target` an exact copy of `source`, or empty if there is no source."""
    clear(target)
    if source.exists():
        target.rmdir()
        copy_tree(source, target)


def clear(top: Path) -> None:
    """Make an empty directory, removing what is there."""
    if top.exists():
        remove_tree(top)
    top.mkdir(parents=True, mode=0o700)


def entries(top: Path) -> dict[str, Entry]:
    """Describe the files below a directory, by path, without times: they differ between runs."""
    return dict(_entries(top)) if top.exists() else {}


def digest(top: Path) -> str:
    digest = hashlib.sha256()
    for path, entry in sorted(entries(top).items()):
        digest.update(repr((path, sorted(entry.items()))).encode())
    return digest.hexdigest()


def changes(before: Path, after: Path) -> list[DocumentChange]:
    """Return the changed files, at most a thousand."""
    old, new = entries(before), entries(after)
    paths = [path for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)]
    return [
        DocumentChange("file", path, old.get(path), new.get(path)) for path in paths[:_MAX_CHANGES]
    ]


def _entries(top: Path) -> Iterator[tuple[str, Entry]]:
    with Descent(top) as descent:
        for name, info in tree_walk.walk(descent):
            if stat.S_ISDIR(info.st_mode):
                continue
            yield descent.path_of(name), _entry(descent, name, info)


def _entry(descent: Descent, name: str, info: os.stat_result) -> Entry:
    if stat.S_ISLNK(info.st_mode):
        return {"link": os.readlink(name, dir_fd=descent.fd)}
    if not stat.S_ISREG(info.st_mode):
        return {"special": stat.S_IFMT(info.st_mode)}
    fd = open_file(name, descent.fd)
    if fd is None:
        return {"gone": True}
    try:
        return {"bytes": info.st_size, "sha256": digest_of(fd, info.st_size)}
    finally:
        os.close(fd)
