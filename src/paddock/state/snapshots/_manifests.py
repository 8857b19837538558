"""The small file that makes a stored tree a snapshot. Its digest is the snapshot's id.

Only the files in `manifests/` are handled here; objects, trees and the lock are not. Version 1
named a tree in the format that `_format_1` reads.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.objects.file_bytes import write_whole
from paddock.objects.store import DIGEST
from paddock.state.trees.stored_json import canonical, number

FORMAT_VERSION = 2
MAX_META_BYTES = 1 << 20
_MAX_MANIFEST_BYTES = MAX_META_BYTES + (1 << 16)
_SNAPSHOT_ID = re.compile(r"snap-[0-9a-f]{32}")
_COUNTS = ("version", "entries", "files", "links", "size_bytes")


class Header(msgspec.Struct, frozen=True):
    """The content of a manifest: the digest of the tree, what is in it, and the caller's meta."""

    tree: str
    entries: int
    files: int
    links: int
    size_bytes: int
    meta: Mapping[str, Any]
    version: int = FORMAT_VERSION


class ManifestFiles:
    """All manifests of one store."""

    def __init__(self, root: Path) -> None:
        self._directory = root / "manifests"
        self._directory.mkdir(mode=0o700, exist_ok=True)

    def ids(self) -> list[str]:
        names = (path.stem for path in self._directory.glob("snap-*.json"))
        return sorted(name for name in names if _SNAPSHOT_ID.fullmatch(name))

    def publish(self, header: Header) -> str:
        """Write the manifest whole or not at all; return the id. One that is there stays."""
        content = canonical(asdict(header))
        snapshot_id = _id_of(content)
        path = self._path(snapshot_id)
        if not path.exists():
            write_whole(path, content)
        return snapshot_id

    def read(self, snapshot_id: str) -> Header:
        """Return the manifest, checked against its id."""
        content = self._content(snapshot_id)
        if _id_of(content) != snapshot_id:
            raise IntegrityError(f"the manifest of {snapshot_id} was changed or damaged")
        try:
            header = _parse(json.loads(content))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise IntegrityError(f"the manifest of {snapshot_id} cannot be understood") from None
        if not 1 <= header.version <= FORMAT_VERSION:
            raise IntegrityError(
                f"{snapshot_id} has format {header.version}, this version reads {FORMAT_VERSION}"
            )
        return header

    def created_at(self, snapshot_id: str) -> float:
        try:
            return self._path(snapshot_id).stat().st_mtime
        except FileNotFoundError:
            raise _not_found(snapshot_id) from None

    def delete(self, snapshot_id: str) -> None:
        try:
            os.unlink(self._path(snapshot_id))
        except FileNotFoundError:
            raise _not_found(snapshot_id) from None

    def sweep(self) -> None:
        """Remove what crashed writers left. Only under the exclusive lock."""
        for path in self._directory.glob(".*"):
            path.unlink(missing_ok=True)

    def _content(self, snapshot_id: str) -> bytes:
        try:
            with open(self._path(snapshot_id), "rb") as file:
                content = file.read(_MAX_MANIFEST_BYTES + 1)
        except FileNotFoundError:
            raise _not_found(snapshot_id) from None
        if len(content) > _MAX_MANIFEST_BYTES:
            raise IntegrityError(f"the manifest of {snapshot_id} is too large to be one")
        return content

    def _path(self, snapshot_id: str) -> Path:
        if not is_snapshot_id(snapshot_id):
            raise _not_found(snapshot_id)
        return self._directory / f"{snapshot_id}.json"


def is_snapshot_id(text: str) -> bool:
    """Return whether it has the form of an id; a name never has."""
    return _SNAPSHOT_ID.fullmatch(text) is not None


def check_meta(meta: Mapping[str, Any]) -> None:
    """Raise InvalidInput unless `meta` can be kept in a manifest."""
    for key in ("skipped", "name"):
        if key in meta:
            raise InvalidInput(f"meta: the key {key!r} is for the store's own use")
    try:
        size = len(canonical(dict(meta)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"meta: cannot be written as JSON: {error}") from None
    if size > MAX_META_BYTES:
        raise InvalidInput(f"meta: {size} bytes are more than the {MAX_META_BYTES} allowed")


def _id_of(content: bytes) -> str:
    return f"snap-{hashlib.sha256(content).hexdigest()[:32]}"


def _parse(fields: Any) -> Header:
    """Return the header. A manifest can come from elsewhere, so it is checked like other input."""
    tree, meta = fields["tree"], fields["meta"]
    if not isinstance(meta, dict) or not DIGEST.fullmatch(tree):
        raise ValueError("no tree or no meta")
    return Header(tree=tree, meta=meta, **{key: number(fields[key]) for key in _COUNTS})


def _not_found(snapshot_id: str) -> NotFound:
    return NotFound(f"no snapshot {ascii(snapshot_id)[:80]}", hint="list the snapshots there are")
