"""The format of a stored tree: nodes, one line each, and the objects that hold them. No I/O.

A directory's object is the lines of its nodes, sorted by name. One with many nodes is cut into
pieces at names that are chosen by their own hash, so that a change rewrites one piece only. The
object of a whole tree names its roots.

The states of a run record what an agent sees: names, bytes, modes. A snapshot records more, so that
a restored file is the same file: times, extended attributes and hard links. The bytes of its small
files lie inline, in the line of their node. Owners are never recorded.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.model.errors import IntegrityError
from paddock.objects.store import DIGEST
from paddock.state.trees.stored_json import (
    canonical,
    from_base64,
    get_text,
    get_xattrs,
    number,
    put_text,
    put_xattrs,
    timestamp,
    to_base64,
    typed,
)

FORMAT = 1
# Directories with more nodes than this are cut into pieces, of about as many nodes as the mask
# says: small enough to rewrite at each step, large enough to be few.
WHOLE_NODES = 256
_PIECE_MASK = 0x3F
# An agent can choose names of which none is a place to cut.
_MAX_PIECE_BYTES = 64 << 20
# What reading a malformed object raises; base64's own error is a ValueError.
_MALFORMED = (ValueError, TypeError, KeyError, RecursionError)


class NodeKind(enum.StrEnum):
    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"
    FIFO = "fifo"
    WHITEOUT = "whiteout"


class Node(msgspec.Struct, frozen=True):
    """One name in a directory. `digest` is that of a file's bytes or of a directory's object, and
    empty for a version of a file that was not read. `is_split`: the file is stored in parts, and
    the digest is that of their list. `is_kept`: the bytes are in the store.

    Of snapshots only: `mtime_ns`; `xattrs`; `link`, the number in the order of a walk (the root is
    0) of the file that this is another name of; `inline`, the bytes of a small file."""

    name: str
    kind: NodeKind
    mode: int = 0
    size: int = 0
    digest: str = ""
    target: str = ""
    is_opaque: bool = False
    is_kept: bool = True
    is_split: bool = False
    mtime_ns: int | None = None
    xattrs: tuple[tuple[str, bytes], ...] = ()
    link: int | None = None
    inline: bytes | None = None

    def is_like(self, other: Node) -> bool:
        """Return whether both mean the same, wherever the bytes are."""
        return (
            self.kind is other.kind
            and self.digest == other.digest
            and self.mode == other.mode
            and self.size == other.size
            and self.target == other.target
            and self.is_opaque == other.is_opaque
        )


class StoredTree(msgspec.Struct, frozen=True):
    """A whole state: its roots by name. `is_cut`: there was more than is ever recorded."""

    roots: Mapping[str, Node]
    is_cut: bool = False


class DirectoryObjects:
    """The objects of one directory, made while its nodes come in the order of their names. A
    directory of few nodes is one object. The pieces of others are stored as soon as they are
    complete, so that no more than a piece is in memory."""

    def __init__(self, put: Callable[[bytes], str]) -> None:
        """`put` stores an object and returns its digest."""
        self._put = put
        self._pieces: list[list[bytes]] = [[]]  # those that are not stored yet
        self._digests: list[str] = []
        self._count = 0
        self._bytes = 0  # of the last piece

    def add(self, name: str, line: bytes) -> None:
        is_border = zlib.crc32(os.fsencode(name)) & _PIECE_MASK == 0
        if self._pieces[-1] and (is_border or self._bytes > _MAX_PIECE_BYTES):
            self._pieces.append([])
            self._bytes = 0
        self._pieces[-1].append(line)
        self._bytes += len(line)
        self._count += 1
        if self._count > WHOLE_NODES:
            self._store(self._pieces[:-1])
            del self._pieces[:-1]

    def finish(self) -> bytes:
        """Return the directory's own object, which the caller stores: its lines, or the list of its
        pieces."""
        if self._count <= WHOLE_NODES:
            return b"\n".join(line for piece in self._pieces for line in piece)
        self._store(self._pieces)
        if len(self._digests) == 1:
            return b"\n".join(self._pieces[0])
        return canonical({"pieces": self._digests})

    def _store(self, pieces: list[list[bytes]]) -> None:
        self._digests += [self._put(b"\n".join(piece)) for piece in pieces]


def line_of(node: Node) -> bytes:
    """Return the line of a node. Equal nodes have equal lines."""
    fields: dict[str, Any] = {"kind": node.kind.value}
    put_text(fields, "name", node.name)
    if node.kind in (NodeKind.FILE, NodeKind.DIR, NodeKind.FIFO):
        fields["mode"] = node.mode
    if node.kind in (NodeKind.FILE, NodeKind.DIR):
        fields["digest"] = node.digest
    if node.kind is NodeKind.FILE:
        fields["size"] = node.size
    if node.kind is NodeKind.SYMLINK:
        put_text(fields, "target", node.target)
    if node.is_opaque:
        fields["is_opaque"] = True
    if not node.is_kept:
        fields["is_kept"] = False
    if node.is_split:
        fields["is_split"] = True
    if node.mtime_ns is not None:
        fields["mtime_ns"] = node.mtime_ns
    if node.link is not None:
        fields["link"] = node.link
    if node.inline is not None:
        fields["inline"] = to_base64(node.inline)
    put_xattrs(fields, node.xattrs)
    return canonical(fields)


def read_directory(data: bytes) -> list[Node] | list[str]:
    """Return the nodes of a directory's object, or the digests of its pieces."""
    if not data:
        return []
    try:
        if data.startswith(b'{"pieces":'):
            return [_digest(item) for item in typed(json.loads(data)["pieces"], list)]
        return [_parse(json.loads(line)) for line in data.split(b"\n")]
    except _MALFORMED as error:
        raise IntegrityError(f"a stored directory is malformed: {error!s:.200}") from None


def bytes_of_tree(tree: StoredTree) -> bytes:
    roots = {name: line_of(node).decode() for name, node in tree.roots.items()}
    more = {"is_cut": True} if tree.is_cut else {}
    return canonical({"format": FORMAT, "roots": roots, **more})


def read_tree(data: bytes) -> StoredTree:
    try:
        fields = typed(json.loads(data), dict)
        if fields["format"] != FORMAT:
            raise ValueError(f"format {fields['format']!r:.20} is not known here")
        roots = {
            typed(name, str): _parse(json.loads(line), is_root=True)
            for name, line in typed(fields["roots"], dict).items()
        }
        return StoredTree(roots, bool(fields.get("is_cut", False)))
    except _MALFORMED as error:
        raise IntegrityError(f"a stored tree is malformed: {error!s:.200}") from None


def is_file_name(name: str) -> bool:
    """Return whether a directory can have this name, so that it leads nowhere else."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _parse(fields: Any, *, is_root: bool = False) -> Node:
    kind = NodeKind(typed(fields, dict)["kind"])
    node = Node(
        name=get_text(fields, "name"),
        kind=kind,
        mode=number(fields.get("mode", 0)),
        size=number(fields.get("size", 0)),
        digest=typed(fields.get("digest", ""), str),
        target=get_text(fields, "target") if kind is NodeKind.SYMLINK else "",
        is_opaque=typed(fields.get("is_opaque", False), bool),
        is_kept=typed(fields.get("is_kept", True), bool),
        is_split=typed(fields.get("is_split", False), bool),
        mtime_ns=timestamp(fields["mtime_ns"]) if "mtime_ns" in fields else None,
        xattrs=get_xattrs(fields),
        link=number(fields["link"]) if "link" in fields else None,
        inline=from_base64(fields["inline"]) if "inline" in fields else None,
    )
    is_named = node.name == "" and kind is NodeKind.DIR if is_root else is_file_name(node.name)
    if not is_named or len(os.fsencode(node.name)) > 255 or not _is_sane(node):
        raise ValueError(f"{str(fields)[:200]!r} cannot be")
    return node


def _is_sane(node: Node) -> bool:
    """Return whether a node is what a restore relies on: a damaged or forged tree must not reach
    the file system."""
    if node.mode > (0o1777 if node.kind is NodeKind.DIR else 0o777):
        return False
    if node.kind is not NodeKind.FILE and (node.link, node.inline) != (None, None):
        return False
    if node.kind is NodeKind.SYMLINK:
        return bool(node.target) and "\0" not in node.target
    if node.kind not in (NodeKind.FILE, NodeKind.DIR):
        return True
    if node.inline is not None:
        is_whole = len(node.inline) == node.size and not node.is_split
        return is_whole and hashlib.sha256(node.inline).hexdigest() == node.digest
    if node.digest == "":
        return node.kind is NodeKind.FILE and not node.is_kept
    return DIGEST.fullmatch(node.digest) is not None


def _digest(value: Any) -> str:
    if DIGEST.fullmatch(typed(value, str)) is None:
        raise ValueError(f"{value[:80]!r} is no digest")
    return str(value)
