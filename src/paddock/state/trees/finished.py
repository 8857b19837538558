"""What of a recorded state can be put back while others are at work on the same files.

Some of them may be further than they were when the state was recorded, and some not so far: what
they have made they will not make again, and what is still to come they will make themselves. So
only that is put back which nobody has under way: it stayed as it was from then on, and what is
there now was never there in the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from paddock.model.values import dataclass
from paddock.state.trees.nodes import Node, NodeKind

if TYPE_CHECKING:
    from paddock.state.trees.store import TreeStore

_MAX_LISTINGS = 4096  # directories that are held while it is looked up what was in them


@dataclass(frozen=True, slots=True)
class Around:
    """The states of a record, by digest: those before the one that is put back, and those after."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class Finished:
    """Tells which paths of a state are to be put back."""

    def __init__(self, store: TreeStore, now: str, wanted: str, around: Around) -> None:
        self._store = store
        self._now, self._wanted = now, wanted
        self._before = tuple(dict.fromkeys(around.before))
        self._after = tuple(dict.fromkeys(around.after))
        self._roots = lru_cache(maxsize=None)(lambda tree: store.tree(tree).roots)
        self._listing = lru_cache(maxsize=_MAX_LISTINGS)(self._listed)

    def __call__(self, root: str, parts: Sequence[str]) -> bool:
        wanted = self._at(self._wanted, root, parts)
        if wanted is None:
            return False  # nothing is removed: it may be somebody's who is ahead
        if not all(_is_like(self._at(tree, root, parts), wanted) for tree in self._after):
            return False
        now = self._at(self._now, root, parts)
        known = (self._at(tree, root, parts) for tree in self._before)
        return not any(_is_like(one, now) for one in known)

    def _at(self, tree: str, root: str, parts: Sequence[str]) -> Node | None:
        node = self._roots(tree).get(root)
        for part in parts:
            if node is None or node.kind is not NodeKind.DIR:
                return None
            node = self._listing(node).get(part)
        return node

    def _listed(self, directory: Node) -> dict[str, Node]:
        return {one.name: one for one in self._store.nodes(directory)}


def _is_like(one: Node | None, other: Node | None) -> bool:
    """Of directories only that they are there: what is in them is looked at by itself."""
    if one is None or other is None:
        return one is other
    if one.kind is other.kind is NodeKind.DIR:
        return True
    return one.is_like(other)
