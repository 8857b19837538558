"""The mounts that the keeper gets ready before a guest is forked: detached ones, or checked
descriptors.

Root clones each source, maps its ids and hands the guest a mount that is attached nowhere yet: it
needs no right to the original path. An ordinary user's own paths are opened and checked instead.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from paddock.fence.container import mounts
from paddock.fence.mount_sources import open_source


class StagedTree(NamedTuple):
    """A detached mount, or (of an ordinary user) an open path, by its number in the plan."""

    number: int
    fd: int
    is_directory: bool


def detached(stages: list[dict[str, Any]], mappings: list[int | None]) -> list[StagedTree]:
    """Return every source as a mount of its own, with its ids mapped."""
    trees: list[StagedTree] = []
    try:
        for number, (stage, mapping) in enumerate(zip(stages, mappings, strict=True)):
            trees.append(_detached(number, stage, mapping))
    except BaseException:
        close(trees)
        raise
    return trees


def checked(stages: list[dict[str, Any]]) -> list[StagedTree]:
    """Return the user's own paths, open; what is Paddock's own is bound by its path."""
    wanted = [(n, stage) for n, stage in enumerate(stages) if stage["identity"] is not None]
    return [StagedTree(n, _open_source(stage), True) for n, stage in wanted]


def close(trees: list[StagedTree]) -> None:
    for tree in trees:
        os.close(tree.fd)


def _detached(number: int, stage: dict[str, Any], mapping: int | None) -> StagedTree:
    source = _open_source(stage)
    try:
        tree = mounts.clone_tree(source, is_recursive=stage["recursive"])
        try:
            mounts.set_attributes(tree, userns_fd=mapping, is_readonly=stage["readonly"])
        except OSError as error:
            os.close(tree)
            text = "its file system cannot map ids (network and FUSE file systems often cannot)"
            raise OSError(f"{stage['source']} cannot be mounted: {text}: {error}") from None
        return StagedTree(number, tree, os.path.isdir(f"/proc/self/fd/{source}"))
    finally:
        os.close(source)


def _open_source(stage: dict[str, Any]) -> int:
    if stage["identity"] is None:
        return os.open(stage["source"], os.O_PATH | os.O_CLOEXEC)
    return open_source(stage["source"], tuple(stage["identity"]))
