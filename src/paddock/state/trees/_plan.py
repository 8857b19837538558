"""The operations that make directories a stored state: a list, made before anything is touched. It
is made from the store and from what a scan has seen; nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from paddock.state.trees.nodes import Node, NodeKind

if TYPE_CHECKING:
    from paddock.state.trees.reader import TreeReader
    from paddock.state.trees.scan import SeenDir

Path = tuple[str, ...]


class _Operation(msgspec.Struct, frozen=True):
    """A change of one path below a root."""

    root: str
    path: Path

    @property
    def full_path(self) -> str:
        return full_path(self.root, self.path)


class Removal(_Operation, frozen=True):
    """A name that goes, with all below it."""


class Creation(_Operation, frozen=True):
    """A name that comes. What else has it now goes first."""

    node: Node
    has_other: bool


class Rewrite(_Operation, frozen=True):
    """A file whose bytes or mode differ."""

    node: Node
    has_same_bytes: bool


class DirectoryMode(_Operation, frozen=True):
    """A directory that gets its mode and its mark once all in it is done. `is_other`: it had
    others, or was not there."""

    node: Node
    is_other: bool


Operation = Removal | Creation | Rewrite | DirectoryMode


def full_path(root: str, parts: Path) -> str:
    """Return a path as processes see it; the root over a template's own files has an empty name."""
    return "/".join((root, *parts)) or "/"


def plan(
    store: TreeReader, root: str, wanted: Node, seen: SeenDir | None, keep: frozenset[Path]
) -> list[Operation]:
    """Return the operations that make a root from what was seen there, in an order in which they
    work. What is in `keep` is never removed."""
    kept = frozenset(path[:length] for path in keep for length in range(1, len(path) + 1))
    return list(_Planner(store, root, kept).directory((), wanted, seen))


class _Planner:
    def __init__(self, store: TreeReader, root: str, keep: frozenset[Path]) -> None:
        self._store = store
        self._root = root
        self._keep = keep

    def directory(self, path: Path, wanted: Node, seen: SeenDir | None) -> Iterator[Operation]:
        has = None if seen is None else seen.node
        is_other = has is None or (has.mode, has.is_opaque) != (wanted.mode, wanted.is_opaque)
        has_changes = False
        if has is None or has.digest != wanted.digest:
            for operation in self._inside(path, wanted, seen):
                has_changes = True
                yield operation
        # We may have had to give ourselves the right to write in it.
        if is_other or (has_changes and wanted.mode & 0o700 != 0o700):
            yield DirectoryMode(self._root, path, wanted, is_other)

    def _inside(self, path: Path, wanted: Node, seen: SeenDir | None) -> Iterator[Operation]:
        nodes = self._store.nodes(wanted)
        names = {node.name for node in nodes}
        files = {} if seen is None else seen.nodes
        below = {} if seen is None else seen.below
        for name in (*files, *below):
            if name not in names and (*path, name) not in self._keep:
                yield Removal(self._root, (*path, name))
        for node in nodes:
            inner_path = (*path, node.name)
            file, inner = files.get(node.name), below.get(node.name)
            if node.kind is NodeKind.DIR:
                if inner is None:
                    yield Creation(self._root, inner_path, node, file is not None)
                yield from self.directory(inner_path, node, inner)
            elif file is None:
                yield Creation(self._root, inner_path, node, inner is not None)
            elif not file.node.is_like(node):
                yield self._instead(inner_path, node, file.node)

    def _instead(self, path: Path, node: Node, now: Node) -> Operation:
        if node.kind is now.kind is NodeKind.FILE:
            has_same_bytes = (node.digest, node.size) == (now.digest, now.size)
            return Rewrite(self._root, path, node, has_same_bytes)
        return Creation(self._root, path, node, True)
