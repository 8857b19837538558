"""Idempotency keys: the same request with the same key is answered, not done, a second time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock_services.payments.books import Books
from paddock_services.payments.errors import Refusal

KIND = ".idempotency_keys"
MAX_KEY = 255
_KEPT_S = 86_400


class Replay(msgspec.Struct, frozen=True):
    """What was answered the first time."""

    status: int
    body: bytes
    request_id: str


class KeyedRequest(msgspec.Struct, frozen=True):
    """A request that carries a key."""

    key: str
    path: str
    params: Mapping[str, Any]

    @property
    def digest(self) -> str:
        text = json.dumps(self.params, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def check(self) -> None:
        if len(self.key) > MAX_KEY:
            message = f"Idempotency keys have at most {MAX_KEY} characters."
            raise Refusal(message, type="idempotency_error")

    def earlier(self, books: Books) -> Replay | None:
        """The answer that the key has had. Raises Refusal when that was to something else."""
        kept = books.get(KIND, self.key)
        if kept is None or books.now() - kept["created"] > _KEPT_S:
            return None
        if kept["path"] != self.path:
            raise Refusal(
                "Keys for idempotent requests can only be used for the same endpoint they were "
                f"first used for ('{kept['path']}' and not '{self.path[:200]}').",
                type="idempotency_error",
            )
        if kept["params"] != self.digest:
            raise Refusal(
                "Keys for idempotent requests can only be used with the same parameters they were "
                f"first used with. Use another key than '{self.key}' for another request.",
                type="idempotency_error",
            )
        return Replay(kept["status"], kept["body"].encode(), kept["request"])

    def remember(self, books: Books, replay: Replay) -> None:
        books.store.put(KIND, self.key, {
            "id": self.key, "path": self.path, "params": self.digest, "created": books.now(),
            "status": replay.status, "body": replay.body.decode(), "request": replay.request_id,
        })  # fmt: skip
