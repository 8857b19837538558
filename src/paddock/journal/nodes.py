"""Values that records name by their digest: the nodes of a run, which lie in one pack.

Nothing here is signed. A node is as true as the record that names it: its digest is in there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from paddock.journal.blobs import Blobs, put_back, set_aside
from paddock.journal.canonical import canonical_text, encoded
from paddock.journal.plain_values import as_json
from paddock.journal.secrets.mask import Masker
from paddock.journal.secrets.value_hmac import ValueHmac, hmac_leaves
from paddock.journal.strict_json import parse_json
from paddock.model.errors import IntegrityError
from paddock.model.events import BlobRef
from paddock.objects.pack import PackReader

FILE_NAME = "nodes.jsonl"
_MAX_CACHED = 16 << 20  # bytes of values that were read and may be asked for again


def node_line(
    value: Mapping[str, Any], blobs: Blobs, masker: Masker | None, keyed: ValueHmac | None
) -> bytes:
    """Return a value as it is stored: masked, large texts set aside, in its canonical encoding.
    With `keyed`, what was masked can still be compared."""
    text = canonical_text(value)
    if masker is not None and not masker.is_clean(text):
        masked = masker.mask(value)
        if keyed is not None:
            masked["keyed"] = hmac_leaves(keyed, value, masked)
        value, text = masked, canonical_text(masked)
    text, refs = set_aside(value, text, blobs)
    if refs:
        slim = json.loads(text) | {"blobs": as_json(refs)}
        text = canonical_text(slim)
    return encoded(text)


class NodeReader:
    """The nodes of a run as they are read back, also while more are written."""

    def __init__(self, directory: Path) -> None:
        self._pack = PackReader(directory / FILE_NAME, "node")
        self._blobs = Blobs(directory)
        self._cache: dict[str, tuple[Mapping[str, Any], int]] = {}
        self._cached_bytes = 0

    def read(self, digest: str, limit: int) -> tuple[Mapping[str, Any], int]:
        """Return the value of that digest, whole and checked, and how many bytes it takes. Raises
        NotFound or IntegrityError where it is not, or is larger than `limit`. Others get the same
        value: each question of a conversation has all messages before it."""
        cached = self._cache.get(digest)
        if cached is not None and cached[1] <= limit:
            return cached
        line = self._pack.read(digest)
        node = _parsed(line, digest)
        refs = _refs(node.pop("blobs", []), digest)
        size = len(line) + sum(ref.size_bytes for ref in refs)
        if size > limit:
            raise IntegrityError(f"what is named {digest} is larger than it may be")
        value = put_back(node, refs, self._blobs), size
        self._cached_bytes += size
        if self._cached_bytes > _MAX_CACHED:
            self._cache, self._cached_bytes = {}, size
        self._cache[digest] = value
        return value


def _parsed(line: bytes, digest: str) -> dict[str, Any]:
    try:
        node = parse_json(line)
    except ValueError:
        node = None
    if not isinstance(node, dict):
        raise IntegrityError(f"what is named {digest} is no node")
    return node


def _refs(found: Any, digest: str) -> tuple[BlobRef, ...]:
    try:
        refs = msgspec.convert(found, tuple[BlobRef, ...])
        if any(ref.size_bytes < 0 for ref in refs):
            raise ValueError("a blob has no negative size")
        return refs
    except ValueError:
        raise IntegrityError(f"what is named {digest} is no node") from None
