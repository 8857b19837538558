"""Which files a run touched, by name: the first tree of its journal against the last. Quick, so
that it can be said at the end of every run; what is in them is for `changed`."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.model.errors import PaddockError
from paddock.run.files import home_of, store_of, tree_at, trees_of
from paddock.run.report import FilesChanged, Report, report_of
from paddock.run.surroundings.host import names_in
from paddock.state.trees.nodes import NodeKind

if TYPE_CHECKING:
    from paddock.state.trees.diffing import Change
    from paddock.state.trees.nodes import Node
    from paddock.state.trees.store import TreeStore

_MAX_COVERED = 10_000
_MAX_COMPARED = 64 << 20  # of a larger file it is not found out whether it is only a copy


def files_touched(directory: Path, mounts: Sequence[Mapping[str, Any]]) -> FilesChanged | None:
    """None where no files were recorded, or their trees are gone."""
    try:
        first, last = trees_of(directory)[0][1], tree_at(directory)
        store = store_of(home_of(directory))
        changes = store.diff(first, last)
        found = list(_touched(store, changes, mounts))
        unstored = sum(one.after is not None and not one.after.is_kept for one in changes)
        is_cut = store.tree(last).is_cut
    except (PaddockError, OSError, IndexError):
        return None
    names: dict[str, list[str]] = {"added": [], "modified": [], "deleted": []}
    for kind, path in found:
        names[kind].append(path)
    return FilesChanged(
        last,
        len(found),
        unstored,
        is_cut,
        added=tuple(names["added"]),
        modified=tuple(names["modified"]),
        deleted=tuple(names["deleted"]),
    )


def report_with_files(directory: Path) -> Report:
    """The report of a run with the names of its files, counted as at its end."""
    from paddock.run.changed import setting_in

    mounts = setting_in(directory).get("mounts")
    known = [one for one in mounts if isinstance(one, dict)] if isinstance(mounts, list) else []
    report = report_of(directory)
    return replace(report, files=files_touched(directory, known) or report.files)


def _touched(
    store: TreeStore, changes: Iterable[Change], mounts: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Directories are not counted, but for one that is gone, which is gone as one."""
    for change in changes:
        after, source = change.after, _source(change.path, mounts)
        if after is not None and after.kind is NodeKind.DIR:
            if after.is_opaque and not getattr(change.before, "is_opaque", False):
                gone = islice(_covered(store, after, source), _MAX_COVERED)
                yield from (("deleted", f"{change.path}/{one}") for one in gone)
        elif (kind := _kind(change, source)) is not None:
            yield kind, change.path


def _covered(store: TreeStore, node: Node, source: str) -> Iterator[str]:
    """What was in a directory of the source that another one has taken the place of."""
    pending = [("", node)]
    while pending:
        below, node = pending.pop()
        there = {one.name: one for one in store.nodes(node)}
        for name in names_in(os.path.join(source, below)):
            one, path = there.get(name), f"{below}{name}"
            if one is None or one.kind is NodeKind.WHITEOUT:
                yield path
            elif one.kind is NodeKind.DIR:
                pending.append((f"{path}/", one))


def _kind(change: Change, source: str) -> str | None:
    """What covers a file of the source modifies or deletes that; a copy of it changes nothing."""
    before, after = change.before, change.after
    if after is None or after.kind is NodeKind.WHITEOUT:
        is_directory = getattr(before, "kind", None) is NodeKind.DIR
        return None if is_directory and after is None else "deleted"
    if before is None and not os.path.lexists(source):
        return "added"
    return None if before is None and _is_copy(after, source) else "modified"


def _is_copy(node: Node, source: str) -> bool:
    """A file that was opened for writing, and nothing was written."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(fd, "rb") as file:
        st = os.fstat(fd)
        is_like = stat.S_ISREG(st.st_mode) and node.kind is NodeKind.FILE
        is_like = is_like and (st.st_size, st.st_mode & 0o777) == (node.size, node.mode & 0o777)
        if not is_like or st.st_size > _MAX_COMPARED:
            return False
        return hashlib.file_digest(file, "sha256").hexdigest() == node.digest


def _source(path: str, mounts: Sequence[Mapping[str, Any]]) -> str:
    for mount in mounts:
        target = str(mount.get("target"))
        if path == target or path.startswith(f"{target}/"):
            return f"{mount.get('source')}{path[len(target) :]}"
    return "/nowhere"
