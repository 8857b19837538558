"""The OpenAPI document that writes are answered by.

The service `openapi` knows how to read one. It is a plugin that the core does not import, so it is
asked for by name; `WriteGuesser` is what the draft expects of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast

Guess = tuple[int, Any]  # a status and a body


class WriteGuesser(Protocol):
    """Something that knows how a real host would answer a write."""

    def guess(self, method: str, path: str, body: Any, timestamp: float) -> Guess | None:
        """Return the answer to a write, or None for a request that is not described."""
        ...


def load_document(path: Path) -> WriteGuesser:
    """Return a guesser by a document in JSON or YAML. Raises InvalidInput."""
    from paddock.world.registry import load_service

    openapi = cast("Any", load_service("openapi"))
    return cast("WriteGuesser", openapi.write_guesser(path))
