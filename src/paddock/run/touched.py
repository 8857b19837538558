"""Which files a run touched, by name: the first tree of its journal against the last. Quick, so
that it can be said at the end of every run; what is in them is for `changed`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.model.errors import PaddockError
from paddock.run.files import home_of, store_of, trees_of
from paddock.run.report import FilesChanged
from paddock.state.trees.nodes import NodeKind

if TYPE_CHECKING:
    from paddock.state.trees.diffing import Change


def files_touched(directory: Path, mounts: Sequence[Mapping[str, Any]]) -> FilesChanged | None:
    """None where no files were recorded, or their trees are gone."""
    try:
        trees = [tree for _, tree in trees_of(directory)]
        if not trees:
            return None
        found = store_of(home_of(directory)).diff(trees[0], trees[-1])
    except (PaddockError, OSError):
        return None
    names: dict[str, list[str]] = {"added": [], "modified": [], "deleted": []}
    for change in found:
        if (kind := _kind(change, mounts)) is not None:
            names[kind].append(change.path)
    count = sum(map(len, names.values()))
    return FilesChanged(trees[-1], count, *(tuple(names[k]) for k in names))


def _kind(change: Change, mounts: Sequence[Mapping[str, Any]]) -> str | None:
    """A directory is not counted; what covers a file of the source modifies or deletes that."""
    before, after = change.before, change.after
    if NodeKind.DIR in (getattr(before, "kind", None), getattr(after, "kind", None)):
        return None
    if after is None or after.kind is NodeKind.WHITEOUT:
        return "deleted"
    is_there = before is not None or os.path.lexists(_source(change.path, mounts))
    return "modified" if is_there else "added"


def _source(path: str, mounts: Sequence[Mapping[str, Any]]) -> str:
    for mount in mounts:
        target = str(mount.get("target"))
        if path == target or path.startswith(f"{target}/"):
            return f"{mount.get('source')}{path[len(target) :]}"
    return "/nowhere"
