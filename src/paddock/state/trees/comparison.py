"""The differences between two stored states. Only the directories that differ are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from paddock.model.errors import SandboxError
from paddock.state.changes.change import walk_order
from paddock.state.trees.nodes import Node, NodeKind

if TYPE_CHECKING:
    from paddock.state.trees.reader import TreeReader

Kind = Literal["added", "modified", "deleted"]
# A list that nobody could look at, made by an agent with very many files.
MAX_CHANGES = 1_000_000


class TreeChange(msgspec.Struct, frozen=True):
    """One path that differs. It begins with the name of its root. A whiteout counts as nothing: the
    agent saw nothing there."""

    path: str
    kind: Kind
    before: Node | None
    after: Node | None


def changes_between(store: TreeReader, before: str, after: str) -> list[TreeChange]:
    """Return all changes, a directory before what is in it. Below one that is gone nothing is
    listed."""
    if before == after:
        return []
    old, new = store.tree(before).roots, store.tree(after).roots
    changes: list[TreeChange] = []
    for name in sorted(old.keys() | new.keys()):
        for change in changes_below(store, name, old.get(name), new.get(name)):
            changes.append(change)
            if len(changes) > MAX_CHANGES:
                raise SandboxError(f"the states differ in more than {MAX_CHANGES} paths")
    return sorted(changes, key=lambda change: walk_order(change.path))


def changes_below(
    store: TreeReader, path: str, before: Node | None, after: Node | None
) -> Iterator[TreeChange]:
    """Yield the changes of one root, or of what lies at one path, in no order."""
    pending = [(path, before, after)]
    while pending:
        here, old, new = pending.pop()
        if old is not None and new is not None and old.is_like(new):
            continue
        kind = _kind(old, new)
        if kind is not None:
            yield TreeChange(here, kind, old, new)
        old_dir, new_dir = _directory(old), _directory(new)
        if new_dir is None or (old_dir is not None and old_dir.digest == new_dir.digest):
            continue
        then = {} if old_dir is None else {node.name: node for node in store.nodes(old_dir)}
        for node in store.nodes(new_dir):
            pending.append((f"{here}/{node.name}", then.pop(node.name, None), node))
        pending.extend((f"{here}/{name}", node, None) for name, node in then.items())


def _directory(node: Node | None) -> Node | None:
    return node if node is not None and node.kind is NodeKind.DIR else None


def _kind(old: Node | None, new: Node | None) -> Kind | None:
    if new is None and old is not None and old.kind is NodeKind.WHITEOUT:
        return "added"  # what lies under it shows again
    if new is None or new.kind is NodeKind.WHITEOUT:
        return "deleted"
    if old is None or old.kind is NodeKind.WHITEOUT:
        return "added"
    if old.kind is new.kind is NodeKind.DIR and (old.mode, old.is_opaque) == (
        new.mode,
        new.is_opaque,
    ):
        return None  # only what is in it is other
    return "modified"
