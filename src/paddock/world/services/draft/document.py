"""The OpenAPI document that writes are answered by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.world.services.openapi.api import Api

Guess = tuple[int, Any]  # a status and a body


def load_document(path: Path) -> Api:
    """JSON or YAML. Raises InvalidInput."""
    from paddock.world.services.openapi.api import Api
    from paddock.world.services.openapi.document import load

    return Api(load(path))


def guess(document: Api | None, method: str, path: str, body: Any, moment: float) -> Guess | None:
    """What the document says that a write is answered; None when it says nothing."""
    if document is None:
        return None
    from paddock.world.services.openapi.plausible import plausible

    return plausible(document, method, path, body, moment=moment)
