"""Answers of a draft: JSON with an ETag of its own, marked by a header as not real."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from paddock.world.asgi import Headers

SHADOW = b"x-paddock-shadow"
# These describe the real body or its transfer.
_STALE = frozenset({
    b"etag", b"content-length", b"last-modified", b"content-md5", b"digest", b"content-digest",
    b"repr-digest", b"content-encoding", b"transfer-encoding", b"accept-ranges", b"content-range",
    b"x-paddock-shadow",
})  # fmt: skip
_ERRORS = {404: "not found", 409: "conflict", 412: "precondition failed", 507: "no more room"}


class DraftAnswer(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class WriteRefused(Exception):
    """A write that the host would have refused; its changes are rolled back."""

    def __init__(self, answer: DraftAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def dump_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def etag_of(body: bytes) -> str:
    return f'"shadow-{hashlib.sha256(body).hexdigest()[:24]}"'


def json_answer(
    status: int, value: Any, mark: str, extra: Sequence[tuple[bytes, bytes]] = ()
) -> DraftAnswer:
    """Return an answer that the draft makes itself. None as the value means no body."""
    if value is None:
        return DraftAnswer(status, [(SHADOW, _header_text(mark)), *extra], b"")
    body = dump_json(value)
    headers = with_shadow_headers([(b"content-type", b"application/json")], body, mark)
    return DraftAnswer(status, [*headers, *extra], body)


def refusal(status: int, learned: Any, reason: str = "") -> DraftAnswer:
    """Return a refusal, with the host's own body for that status if it was seen before."""
    if learned is None:
        learned = {"error": reason or _ERRORS.get(status, "refused")}
    return json_answer(status, learned, "refused")


def with_shadow_headers(headers: Headers, body: bytes | None, mark: str) -> Headers:
    """Return the real headers, adjusted to another body. None means that the body is unknown."""
    result = [(name, value) for name, value in headers if name.lower() not in _STALE]
    if body is not None:
        result.append((b"content-length", str(len(body)).encode()))
        result.append((b"etag", etag_of(body).encode()))
    return [*result, (SHADOW, _header_text(mark))]


def not_modified(answer: DraftAnswer) -> DraftAnswer:
    headers = [(name, value) for name, value in answer.headers if name != b"content-length"]
    return DraftAnswer(304, headers, b"")


def etag_matches(condition: str, etag: str) -> bool:
    """Evaluate If-Match or If-None-Match. Weak tags count as equal."""
    tags = {tag.strip().removeprefix("W/") for tag in condition.split(",")}
    return "*" in tags or (bool(etag) and etag.removeprefix("W/") in tags)


def _header_text(text: str) -> bytes:
    return "".join(letter for letter in text if 32 <= ord(letter) < 127)[:500].encode()
