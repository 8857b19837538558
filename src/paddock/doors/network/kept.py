"""What the journal keeps of a body that streams by: its size, its digest and its beginning."""

from __future__ import annotations

import base64
import hashlib
import sys
from typing import Any

MAX_KEPT = 256 << 10  # of one body; what is longer is known by its digest
# Of one answer. To hash takes longer than all else that is done with the bytes of a long download.
MAX_HASHED = 64 << 20


class Kept:
    """Fed with the parts of a body as they pass."""

    __slots__ = ("_digest", "_hashed", "_parts", "_room", "size")

    def __init__(self, most: int = MAX_KEPT, *, hashed: int = sys.maxsize) -> None:
        self._digest = hashlib.sha256()
        self._parts: list[bytes] = []
        self._room = most
        self._hashed = hashed
        self.size = 0

    def feed(self, data: bytes) -> None:
        if self.size < self._hashed:
            self._digest.update(data[: self._hashed - self.size])
        self.size += len(data)
        if self._room > 0:
            part = data[: self._room]
            self._parts.append(part)
            self._room -= len(part)

    def record(self) -> dict[str, Any]:
        """For a settled record: `body` is text, or base64 where it is none."""
        record: dict[str, Any] = {"bytes": self.size}
        if not self.size:
            return record
        raw = b"".join(self._parts)
        record["sha256"] = self._digest.hexdigest()
        if self.size > self._hashed:
            record["hashed_bytes"] = self._hashed
        if len(raw) < self.size:
            record["is_cut"] = True
        try:
            record["body"] = raw.decode("utf-8")
        except UnicodeDecodeError:
            record["base64"] = base64.b64encode(raw).decode()
        return record
