"""`GET /v1/models`, in the shape of whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any


def all_models(provider: str, names: Sequence[str], created: float) -> dict[str, Any]:
    data = [one_model(provider, name, created) for name in names]
    if provider == "openai":
        return {"object": "list", "data": data}
    return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def one_model(provider: str, name: str, created: float) -> dict[str, Any]:
    if provider == "openai":
        return {"id": name, "object": "model", "created": int(created), "owned_by": "paddock"}
    moment = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": moment,
        "lifecycle": "active",
    }
