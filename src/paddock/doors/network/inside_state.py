"""What a run gives its programs to begin with, and how it is read back from a journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from paddock.model.values import dataclass


@dataclass(frozen=True, slots=True)
class InsideState:
    """What a run begins with. `run` is what its programs are told; else its own name."""

    memory: Mapping[str, Any] = field(default_factory=dict)
    run: str | None = None


def memory_of(notes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What memory was after these notes, whole bodies in order; others among them do not count."""
    kept: dict[str, Any] = {}
    for body in notes:
        if body.get("what") != "memory":
            continue
        if body.get("is_removed"):
            kept.pop(body["name"], None)
        else:
            kept[body["name"]] = body["value"]
    return kept
