"""What has to be done to directories so that they are a stored state: a list, made before anything
is touched. Reads the store and what a scan has seen; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_never

import msgspec

from paddock.state.trees.nodes import Node, NodeKind

if TYPE_CHECKING:
    from paddock.state.trees.scan import SeenDir
    from paddock.state.trees.store import TreeStore


class Removal(msgspec.Struct, frozen=True):
    """A name that goes, with all below it."""

    parents: tuple[str, ...]
    name: str


class Making(msgspec.Struct, frozen=True):
    """A name that comes. What else has it now goes first."""

    parents: tuple[str, ...]
    node: Node
    has_other: bool


class Writing(msgspec.Struct, frozen=True):
    """A file whose bytes or mode are other."""

    parents: tuple[str, ...]
    node: Node
    has_same_bytes: bool


class Sealing(msgspec.Struct, frozen=True):
    """A directory that gets its mode and its mark once all in it is done. `is_other`: it had
    others, or was not there."""

    path: tuple[str, ...]
    node: Node
    is_other: bool


Deed = Removal | Making | Writing | Sealing


def deed_parts(deed: Deed) -> tuple[str, ...]:
    """The path that a deed changes, below its root."""
    match deed:
        case Removal():
            return (*deed.parents, deed.name)
        case Sealing():
            return deed.path
        case Making() | Writing():
            return (*deed.parents, deed.node.name)
        case _:
            assert_never(deed)


def plan(
    store: TreeStore, wanted: Node, seen: SeenDir | None, keep: frozenset[tuple[str, ...]]
) -> list[Deed]:
    """The deeds that make a root from what was seen there, in an order in which they work. What
    is in `keep` is never removed."""
    return list(_directory(store, (), wanted, seen, _with_parents(keep)))


def _with_parents(keep: frozenset[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    return frozenset(path[:length] for path in keep for length in range(1, len(path) + 1))


def _directory(
    store: TreeStore,
    path: tuple[str, ...],
    wanted: Node,
    seen: SeenDir | None,
    keep: frozenset[tuple[str, ...]],
) -> Iterator[Deed]:
    has = None if seen is None else seen.node
    is_other = has is None or (has.mode, has.is_opaque) != (wanted.mode, wanted.is_opaque)
    count = 0
    if has is None or has.digest != wanted.digest:
        for deed in _inside(store, path, wanted, seen, keep):
            count += 1
            yield deed
    # We may have had to give ourselves the right to write in it.
    if is_other or (count and wanted.mode & 0o700 != 0o700):
        yield Sealing(path, wanted, is_other)


def _inside(
    store: TreeStore,
    path: tuple[str, ...],
    wanted: Node,
    seen: SeenDir | None,
    keep: frozenset[tuple[str, ...]],
) -> Iterator[Deed]:
    nodes = store.nodes(wanted)
    names = {one.name for one in nodes}
    files = {} if seen is None else seen.nodes
    below = {} if seen is None else seen.below
    for name in (*files, *below):
        if name not in names and (*path, name) not in keep:
            yield Removal(path, name)
    for node in nodes:
        there, inner = files.get(node.name), below.get(node.name)
        if node.kind is NodeKind.DIR:
            if inner is None:
                yield Making(path, node, there is not None)
            yield from _directory(store, (*path, node.name), node, inner, keep)
        elif there is None:
            yield Making(path, node, inner is not None)
        elif not there.node.is_like(node):
            yield from _instead(path, node, there.node)


def _instead(path: tuple[str, ...], node: Node, there: Node) -> Iterator[Deed]:
    if node.kind is NodeKind.FILE and there.kind is NodeKind.FILE:
        has_same_bytes = (node.digest, node.size) == (there.digest, there.size)
        yield Writing(path, node, has_same_bytes)
    else:
        yield Making(path, node, True)
