"""What a stored tree is made of: nodes, one line each, and the objects that hold them. No I/O.

A directory's object is the lines of its nodes, sorted by name. One with many nodes is cut into
pieces at names that are chosen by their own hash, so that a change rewrites one piece only. The
object of a whole tree names its roots. Times and owners are no part of it.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from paddock.model.errors import IntegrityError
from paddock.state.snapshots.entries import DIGEST, canonical, number

FORMAT = 1
# Directories with more nodes than this are cut into pieces, of about as many nodes as the mask
# says: small enough to rewrite at each step, large enough to be few.
WHOLE_NODES = 256
_PIECE_MASK = 0x3F


class NodeKind(enum.StrEnum):
    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"
    FIFO = "fifo"
    WHITEOUT = "whiteout"


class Node(msgspec.Struct, frozen=True):
    """One name in a directory. `digest` is that of a file's bytes or of a directory's object, and
    empty for a version of a file that was not read. `is_split`: the file is stored in parts, and
    the digest is that of their list. `is_kept`: the bytes are in the store."""

    name: str
    kind: NodeKind
    mode: int = 0
    size: int = 0
    digest: str = ""
    target: str = ""
    is_opaque: bool = False
    is_kept: bool = True
    is_split: bool = False

    def is_like(self, other: Node) -> bool:
        """Whether both mean the same, wherever the bytes are."""
        return (
            self.kind is other.kind
            and self.digest == other.digest
            and self.mode == other.mode
            and self.size == other.size
            and self.target == other.target
            and self.is_opaque == other.is_opaque
        )


class Tree(msgspec.Struct, frozen=True):
    """A whole state: its roots by name. `is_cut`: there was more than is ever recorded."""

    roots: Mapping[str, Node]
    is_cut: bool = False


def line_of(node: Node) -> bytes:
    """The line of a node; one spelling only."""
    fields: dict[str, Any] = {"kind": node.kind.value}
    _put_text(fields, "name", node.name)
    if node.kind in (NodeKind.FILE, NodeKind.DIR, NodeKind.FIFO):
        fields["mode"] = node.mode
    if node.kind in (NodeKind.FILE, NodeKind.DIR):
        fields["digest"] = node.digest
    if node.kind is NodeKind.FILE:
        fields["size"] = node.size
    if node.kind is NodeKind.SYMLINK:
        _put_text(fields, "target", node.target)
    if node.is_opaque:
        fields["is_opaque"] = True
    if not node.is_kept:
        fields["is_kept"] = False
    if node.is_split:
        fields["is_split"] = True
    return canonical(fields)


def pieces_of(named_lines: Iterable[tuple[str, bytes]], count: int) -> list[bytes]:
    """The objects of a directory: one, or several that `list_of_pieces` ties together."""
    if count <= WHOLE_NODES:
        return [b"\n".join(line for _, line in named_lines)]
    groups: list[list[bytes]] = [[]]
    for name, line in named_lines:
        if zlib.crc32(os.fsencode(name)) & _PIECE_MASK == 0 and groups[-1]:
            groups.append([])
        groups[-1].append(line)
    return [b"\n".join(group) for group in groups]


def list_of_pieces(digests: list[str]) -> bytes:
    return canonical({"pieces": digests})


def read_directory(data: bytes) -> list[Node] | list[str]:
    """The nodes of a directory's object, or the digests of its pieces."""
    if not data:
        return []
    try:
        if data.startswith(b'{"pieces":'):
            return [_digest(one) for one in _typed(json.loads(data)["pieces"], list)]
        return [_parse(json.loads(line)) for line in data.split(b"\n")]
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise IntegrityError(f"a stored directory is malformed: {error!s:.200}") from None


def bytes_of_tree(tree: Tree) -> bytes:
    roots = {name: line_of(node).decode() for name, node in tree.roots.items()}
    more = {"is_cut": True} if tree.is_cut else {}
    return canonical({"format": FORMAT, "roots": roots, **more})


def read_tree(data: bytes) -> Tree:
    try:
        fields = _typed(json.loads(data), dict)
        if fields["format"] != FORMAT:
            raise ValueError(f"format {fields['format']!r:.20} is not known here")
        roots = {
            _typed(name, str): _parse(json.loads(line), is_root=True)
            for name, line in _typed(fields["roots"], dict).items()
        }
        return Tree(roots, bool(fields.get("is_cut", False)))
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise IntegrityError(f"a stored tree is malformed: {error!s:.200}") from None


def _parse(fields: Any, *, is_root: bool = False) -> Node:
    kind = NodeKind(_typed(fields, dict)["kind"])
    node = Node(
        name=_get_text(fields, "name"),
        kind=kind,
        mode=number(fields.get("mode", 0)),
        size=number(fields.get("size", 0)),
        digest=_typed(fields.get("digest", ""), str),
        target=_get_text(fields, "target") if kind is NodeKind.SYMLINK else "",
        is_opaque=_typed(fields.get("is_opaque", False), bool),
        is_kept=_typed(fields.get("is_kept", True), bool),
        is_split=_typed(fields.get("is_split", False), bool),
    )
    if not _is_sane(node, is_root=is_root):
        raise ValueError(f"{str(fields)[:200]!r} cannot be")
    return node


def _is_sane(node: Node, *, is_root: bool) -> bool:
    """Whatever a restore relies on: a damaged or forged tree must not reach the file system."""
    name = node.name
    if is_root:
        return (
            name == "" and node.kind is NodeKind.DIR and node.mode <= 0o1777 and _has_digest(node)
        )
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > 255:
        return False
    if node.mode > (0o1777 if node.kind is NodeKind.DIR else 0o777):
        return False
    if node.kind is NodeKind.SYMLINK:
        return bool(node.target) and "\0" not in node.target
    return node.kind not in (NodeKind.FILE, NodeKind.DIR) or _has_digest(node)


def _has_digest(node: Node) -> bool:
    if node.digest == "":
        return node.kind is NodeKind.FILE and not node.is_kept
    return DIGEST.fullmatch(node.digest) is not None


def _digest(value: Any) -> str:
    if DIGEST.fullmatch(_typed(value, str)) is None:
        raise ValueError(f"{value[:80]!r} is no digest")
    return str(value)


def _put_text(fields: dict[str, Any], key: str, text: str) -> None:
    """Names are bytes to the kernel; those that are no UTF-8 are kept as base64."""
    raw = os.fsencode(text)
    try:
        fields[key] = raw.decode()
    except UnicodeDecodeError:
        fields[f"{key}_b64"] = base64.b64encode(raw).decode()


def _get_text(fields: dict[str, Any], key: str) -> str:
    if key in fields:
        return os.fsdecode(_typed(fields[key], str).encode())
    return os.fsdecode(base64.b64decode(_typed(fields[f"{key}_b64"], str), validate=True))


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{str(value)[:40]!r} is not a {kind.__name__}")
    return value
