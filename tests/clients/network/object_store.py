"""As much of S3 as an SDK's everyday calls need. Signatures are not checked."""

from __future__ import annotations

import hashlib
import threading
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from clients.network.site import Answer, Asked

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_XML = {"Content-Type": "application/xml"}


class ObjectStore:
    """One bucket, named in the host."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Answer:
        key = unquote(asked.path.removeprefix("/"))
        query = {k: v[0] for k, v in parse_qs(asked.query, keep_blank_values=True).items()}
        with self._lock:
            if not key:
                return self._listed(query)
            if "uploads" in query or "uploadId" in query:
                return self._upload(asked, key, query)
            return self._object(asked, key)

    def _object(self, asked: Asked, key: str) -> Answer:
        if asked.method == "PUT":
            self.objects[key] = _content(asked)
            return Answer(200, headers={"ETag": _tag(self.objects[key])})
        if asked.method == "DELETE":
            self.objects.pop(key, None)
            return Answer(204)
        if key not in self.objects:
            return _xml("<Error><Code>NoSuchKey</Code><Message>none</Message></Error>", 404)
        return _ranged(self.objects[key], asked.headers.get("range"))

    def _upload(self, asked: Asked, key: str, query: dict[str, str]) -> Answer:
        if "uploads" in query:
            self._parts[key] = {}
            made = f"<Key>{escape(key)}</Key><UploadId>one</UploadId>"
            tag = "InitiateMultipartUploadResult"
            return _xml(f"<{tag}>{made}</{tag}>")
        if asked.method == "PUT":
            part = self._parts[key][int(query["partNumber"])] = _content(asked)
            return Answer(200, headers={"ETag": _tag(part)})
        parts = self._parts.pop(key)
        self.objects[key] = b"".join(parts[number] for number in sorted(parts))
        tag = "CompleteMultipartUploadResult"
        return _xml(f"<{tag}><Key>{escape(key)}</Key><ETag>&quot;x-2&quot;</ETag></{tag}>")

    def _listed(self, query: dict[str, str]) -> Answer:
        found = sorted(key for key in self.objects if key.startswith(query.get("prefix", "")))
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key])}</Size></Contents>"
            for key in found
        )
        tag = "ListBucketResult"
        return _xml(f"<{tag}><KeyCount>{len(found)}</KeyCount>{entries}</{tag}>")


def _content(asked: Asked) -> bytes:
    """SDKs send a body in signed chunks with a checksum behind it, inside the chunks of HTTP."""
    if "aws-chunked" not in asked.headers.get("content-encoding", ""):
        return asked.body
    rest, content = asked.body, b""
    while True:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            return content
        content, rest = content + rest[:size], rest[size + 2 :]


def _ranged(content: bytes, wanted: str | None) -> Answer:
    if wanted is None:
        return Answer(200, content, {"ETag": _tag(content)})
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last or len(content)), len(content) - 1)
    where = f"bytes {start}-{end}/{len(content)}"
    return Answer(206, content[start : end + 1], {"ETag": _tag(content), "Content-Range": where})


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


def _xml(text: str, status: int = 200) -> Answer:
    return Answer(status, (_HEAD + text).encode(), _XML)
