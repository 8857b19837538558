"""Files in a state that a record never had, while several threads or processes are at work on them.

Some threads or processes may be further than they were when a state was recorded, and some not so
far. What one has done ahead it will not do again, and what is still to come it will do itself; a
file that is half written looks like one that came out otherwise. So nothing is put back then. A
file that is as it was at any other step belongs to one who is ahead or behind; every other one is
told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from paddock.state.trees.comparison import changes_below
from paddock.state.trees.nodes import Node, NodeKind

if TYPE_CHECKING:
    from paddock.state.trees.reader import TreeReader

_MAX_LISTINGS = 4096  # directories that are held while it is looked up what was in them
MAX_TOLD = 1000  # of an agent that makes any number


def unlike_any(store: TreeReader, now: str, wanted: str, states: Iterable[str]) -> list[str]:
    """Return the paths that are different now from the wanted state and from all of the others; the
    first `MAX_TOLD` of them."""
    lookup = _Lookup(store)
    others = list(dict.fromkeys(states))
    old, new = store.tree(wanted).roots, store.tree(now).roots
    paths: list[str] = []
    for root, node in old.items():
        for change in changes_below(store, root, node, new.get(root)):
            if change.path == root:
                continue
            parts = change.path.removeprefix(f"{root}/").split("/")
            if not any(_is_like(lookup.at(state, root, parts), change.after) for state in others):
                paths.append(change.path)
            if len(paths) >= MAX_TOLD:
                return paths
    return sorted(paths)


def node_at(store: TreeReader, tree: str, root: str, parts: Sequence[str]) -> Node | None:
    """Return what a state has at a path; None if nothing."""
    return _Lookup(store).at(tree, root, parts)


class _Lookup:
    def __init__(self, store: TreeReader) -> None:
        self._store = store
        self._roots = lru_cache(maxsize=None)(lambda tree: store.tree(tree).roots)
        self._listing = lru_cache(maxsize=_MAX_LISTINGS)(self._listed)

    def at(self, tree: str, root: str, parts: Sequence[str]) -> Node | None:
        node = self._roots(tree).get(root)
        for part in parts:
            if node is None or node.kind is not NodeKind.DIR:
                return None
            node = self._listing(node).get(part)
        return node

    def _listed(self, directory: Node) -> dict[str, Node]:
        return {node.name: node for node in self._store.nodes(directory)}


def _is_like(one: Node | None, other: Node | None) -> bool:
    """Return whether two nodes mean the same. Of directories it counts only that they are there:
    what is in them is looked at by itself."""
    if one is None or other is None:
        return one is other
    if one.kind is other.kind is NodeKind.DIR:
        return True
    return one.is_like(other)
