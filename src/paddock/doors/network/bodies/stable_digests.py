"""Digests of request bodies without the separators that a client makes up for each of them.

The parts of a multipart body are separated by a boundary that the client draws anew; the chunks of
a body that AWS's SDKs sign while they send it carry a signature each. Two bodies that differ in
nothing else are the same body. The digest is over the digests of the stretches between separators,
so that nothing in a stretch can be taken for a separator, or the other way round.
"""

from __future__ import annotations

import hashlib
import re
import sys
from typing import Any

from paddock.doors.network.exchange import Headers, values_of

STABLE = "body_stable"  # among the arguments of a request; `stable` in the record of an upload
_MAX_BOUNDARY = 200  # RFC 2046 allows 70
# In one body of parts. A boundary of one letter could be there 200,000 times in a megabyte, each
# of which takes a microsecond. A body with more is compared as it is.
_MAX_BOUNDARIES = 2000
_BOUNDARY = re.compile(rb';\s*boundary=(?:"([^"]+)"|([^;,\s"]+))', re.IGNORECASE)
_SIGNED_CHUNKS = re.compile(rb"(?:;chunk-signature=|x-amz-trailer-signature:)[0-9a-f]{64}")
_MAX_SIGNED = len(b"x-amz-trailer-signature:") + 64


class StableDigest:
    """Fed with the parts of a body as they pass; holds back no more than one separator."""

    def __init__(
        self, what: str, separator: re.Pattern[bytes], longest: int, most: int = sys.maxsize
    ) -> None:
        self._what = what
        self._separator = separator
        self._longest = longest
        self._most = most  # separators
        self._rest = b""
        self._bytes = self._separators = 0
        self._whole, self._stretch = hashlib.sha256(), hashlib.sha256()

    def feed(self, data: bytes) -> None:
        if self._separators > self._most:
            return
        data = self._rest + data
        at = 0
        for match in self._separator.finditer(data):
            self._take(data[at : match.start()])
            self._whole.update(self._stretch.digest())
            self._stretch = hashlib.sha256()
            self._separators += 1
            if self._separators > self._most:
                return
            at = match.end()
        # What may be the beginning of a separator waits for its end.
        end = max(at, len(data) - self._longest + 1)
        self._take(data[at:end])
        self._rest = data[end:]

    def record(self) -> dict[str, Any] | None:
        """The digest of what was fed, and what it leaves out; None if there was nothing to leave
        out, or too much."""
        if not 0 < self._separators <= self._most:
            return None
        stretch, whole = self._stretch.copy(), self._whole.copy()
        stretch.update(self._rest)
        whole.update(stretch.digest())
        size = self._bytes + len(self._rest)
        return {"without": self._what, "bytes": size, "sha256": whole.hexdigest()}

    def _take(self, stretch: bytes) -> None:
        self._stretch.update(stretch)
        self._bytes += len(stretch)


def stable_digest(headers: Headers) -> StableDigest | None:
    """Return what makes the digest of a body with these headers, if it has such separators."""
    types = values_of(headers, b"content-type")
    if len(types) == 1 and types[0].lower().startswith(b"multipart/"):
        match = _BOUNDARY.search(types[0])
        boundary = b"" if match is None else match[1] or match[2]
        if not 0 < len(boundary) <= _MAX_BOUNDARY:
            return None
        # By RFC 2046 it begins a line and nothing but blanks follows: elsewhere it is content. The
        # body's beginning is the beginning of a line as well.
        separator = re.compile(rb"\n--" + re.escape(boundary) + rb"(?=--|[ \t\r\n])")
        made = StableDigest("multipart boundary", separator, len(boundary) + 5, _MAX_BOUNDARIES)
        made.feed(b"\n")
        return made
    hashes = values_of(headers, b"x-amz-content-sha256")
    if len(hashes) == 1 and hashes[0].startswith(b"STREAMING-AWS4-"):
        return StableDigest("chunk signatures", _SIGNED_CHUNKS, _MAX_SIGNED)
    return None
