"""Trees of snapshots as versions before 2 stored them. They are read here and written no more.

Such a tree is one object: lines in the order of a walk, parents first. An entry has its depth, not
its path: the parent is the last directory one level up. A file has its bytes inline, or in an
object of its own, or is one more name of the entry with the number `link`. With `extents` the
stored bytes are only those ranges, one after the other, and the rest of the file are holes. Lines
may come from elsewhere, so each is checked in full.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from msgspec.structs import asdict, replace

from paddock.model.errors import IntegrityError
from paddock.objects.file_bytes import MAX_EXTENTS, Extents, digest_of
from paddock.objects.store import DIGEST, ObjectStore
from paddock.state.trees.nodes import Node, NodeKind, is_file_name
from paddock.state.trees.stored_json import (
    from_base64,
    get_text,
    get_xattrs,
    number,
    timestamp,
    typed,
)

# One line holds at most an inlined file or one file's extents; more is damage or an attack.
_MAX_LINE_BYTES = 64 << 20


class SparseNode(Node, frozen=True):
    """A file of which only some ranges are stored."""

    extents: Extents = ()


class Format1Reader:
    """Reads such trees from the objects of a store of snapshots."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def walk(self, tree: str) -> Iterator[tuple[int, Node]]:
        """Yield the nodes of a tree with their depths, once the whole tree has been checked."""
        fd = self._objects.open(tree)
        with os.fdopen(fd, "rb") as lines:
            if digest_of(fd, os.fstat(fd).st_size) != tree:
                raise IntegrityError(f"the tree {tree} was changed or damaged")
            while line := lines.readline(_MAX_LINE_BYTES):
                yield decode(line)

    def pieces(self, node: Node) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file by offset."""
        if node.inline is not None:
            yield 0, node.inline
            return
        extents = node.extents if isinstance(node, SparseNode) else ((0, node.size),)
        if not self._objects.has(node.digest, sum(length for _, length in extents)):
            raise IntegrityError(f"blob {node.digest} does not have its bytes any more")
        ranges = iter(extents)
        offset = room = 0
        for chunk in self._objects.chunks(node.digest):
            at = 0
            while at < len(chunk):
                if room == 0:
                    offset, room = next(ranges)
                data = chunk[at : at + room]
                yield offset, data
                at += len(data)
                offset, room = offset + len(data), room - len(data)

    def needed(self, tree: str) -> set[str]:
        """Return the digests of all objects that a tree consists of."""
        nodes = (node for _, node in self.walk(tree))
        return {tree, *(node.digest for node in nodes if node.digest and node.inline is None)}


def decode(line: bytes) -> tuple[int, Node]:
    """Return depth and node of a line. Raises IntegrityError for what cannot be one."""
    try:
        fields = typed(json.loads(line), dict)
        depth = number(fields["depth"])
        node = _node(fields)
        if not _is_sane(depth, node):
            raise ValueError(f"{str(fields)[:200]!r} cannot be")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise IntegrityError(f"a stored tree has a malformed entry: {error!s:.300}") from None
    return depth, node


def _node(fields: dict[str, Any]) -> Node:
    kind = NodeKind(fields["type"])
    node = Node(
        get_text(fields, "name"),
        kind,
        mode=number(fields.get("mode", 0)),
        mtime_ns=timestamp(fields.get("mtime_ns", 0)),
        xattrs=get_xattrs(fields),
    )
    has_content = any(fields.get(key) is not None for key in ("blob", "link", "extents"))
    if kind is not NodeKind.FILE and (has_content or fields.get("size")):
        raise ValueError("only a file has content")
    if kind is NodeKind.SYMLINK:
        return replace(node, target=get_text(fields, "target"))
    if fields.get("target") is not None or "target_b64" in fields:
        raise ValueError("only a link has a target")
    return _file(fields, node) if kind is NodeKind.FILE else node


def _file(fields: dict[str, Any], node: Node) -> Node:
    size = number(fields.get("size", 0))
    blob, extents, link = (fields.get(key) for key in ("blob", "extents", "link"))
    if link is not None:
        if blob is not None or extents is not None:
            raise ValueError("a second name has no content of its own")
        return replace(node, link=number(link))
    if extents is not None:
        extents = _extents(extents, size)
    if blob is None:
        data = from_base64(fields.get("inline", ""))
        # A file that is one hole has an empty list of extents; others have them with a blob only.
        if extents or len(data) != (size if extents is None else 0):
            raise ValueError("the inlined bytes are not those of the file")
        return replace(node, size=size, digest=sha256(data).hexdigest(), inline=data)
    if DIGEST.fullmatch(typed(blob, str)) is None:
        raise ValueError("the name of a blob is no digest")
    node = replace(node, size=size, digest=blob)
    return node if extents is None else SparseNode(**asdict(node), extents=extents)


def _extents(value: Any, size: int) -> Extents:
    if len(typed(value, list)) > MAX_EXTENTS:
        raise ValueError("too many extents")
    extents = tuple((number(offset), number(length, low=1)) for offset, length in value)
    end = 0
    for offset, length in extents:
        if offset < end:
            raise ValueError("the extents overlap")
        end = offset + length
    if end > size:
        raise ValueError("the extents are longer than the file")
    return extents


def _is_sane(depth: int, node: Node) -> bool:
    """Return whether a node is what a restore relies on: a damaged or forged tree must not reach
    the file system."""
    if depth == 0:
        is_named = node.name == "" and node.kind is NodeKind.DIR
    else:
        is_named = is_file_name(node.name)
    if node.kind is NodeKind.SYMLINK and (not node.target or "\0" in node.target):
        return False
    return is_named and node.mode <= (0o1777 if node.kind is NodeKind.DIR else 0o777)
