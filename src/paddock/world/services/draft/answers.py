"""Answers of a draft: JSON with an ETag of its own, marked as a shadow's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from paddock.world.asgi import Headers, HttpAnswer

SHADOW = b"x-paddock-shadow"
_JSON = "application/json"
# They speak of the real body, or of how it came.
_STALE = frozenset({
    b"etag", b"content-length", b"last-modified", b"content-md5", b"digest", b"content-digest",
    b"repr-digest", b"content-encoding", b"transfer-encoding", b"accept-ranges", b"content-range",
    b"x-paddock-shadow",
})  # fmt: skip
_ERRORS = {404: "not found", 409: "conflict", 412: "precondition failed", 507: "no more room"}


class WriteRefused(Exception):
    """A write that the host would not have done; what it had begun is undone."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def etag_of(body: bytes) -> str:
    return f'"shadow-{hashlib.sha256(body).hexdigest()[:24]}"'


def answer(
    status: int, value: Any, mark: str, extra: Sequence[tuple[bytes, bytes]] = ()
) -> HttpAnswer:
    """What the shadow says on its own. A value of None is no body."""
    if value is None:
        return HttpAnswer(status, [(SHADOW, _clean(mark)), *extra], b"")
    body = dumped(value)
    headers: Headers = [
        (b"content-type", _JSON.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"etag", etag_of(body).encode()),
        (SHADOW, _clean(mark)),
        *extra,
    ]
    return HttpAnswer(status, headers, body)


def refusal(status: int, learned: Any, why: str = "") -> HttpAnswer:
    """In the host's own words for that status, if it was ever heard to say it."""
    value = learned if learned is not None else {"error": why or _ERRORS.get(status, "refused")}
    return answer(status, value, "refused")


def shadowed(headers: Headers, body: bytes | None, mark: str) -> Headers:
    """The real headers for another body than the real one. None: the body is not known here."""
    kept = [(name, value) for name, value in headers if name.lower() not in _STALE]
    if body is not None:
        kept.append((b"content-length", str(len(body)).encode()))
        kept.append((b"etag", etag_of(body).encode()))
    return [*kept, (SHADOW, _clean(mark))]


def matches(condition: str, etag: str) -> bool:
    """If-Match and If-None-Match; weak tags are as good as others here."""
    wanted = {one.strip().removeprefix("W/") for one in condition.split(",")}
    return "*" in wanted or (bool(etag) and etag.removeprefix("W/") in wanted)


def _clean(text: str) -> bytes:
    return "".join(c for c in text if 32 <= ord(c) < 127)[:500].encode()
