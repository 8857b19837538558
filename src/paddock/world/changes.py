"""Changes of documents between two states of a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DocumentKey = tuple[str, str]  # kind, id
LogRow = tuple[int, int | None, str, str, str | None]  # position, step, kind, id, body before


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """One document before and after. None means that it did not exist."""

    kind: str
    id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    step: int | None = None  # the last step that changed it


def changes_of(
    rows: Iterable[LogRow], until: int, current_body: Callable[[str, str], str | None]
) -> Iterator[DocumentChange]:
    """Fold the change log into one change per document, in the order of the first changes.

    A log row holds the body *before* its change. So the state at `until` is the body of the first
    row after it, or the current body if there is no such row.
    """
    first: dict[DocumentKey, str | None] = {}
    last_step: dict[DocumentKey, int | None] = {}
    at_until: dict[DocumentKey, str | None] = {}
    for position, step, kind, id, body in rows:
        if position > until:
            at_until.setdefault((kind, id), body)
        else:
            first.setdefault((kind, id), body)
            last_step[kind, id] = step
    for key, before in first.items():
        after = at_until[key] if key in at_until else current_body(*key)
        if before != after:
            yield DocumentChange(*key, _parse(before), _parse(after), last_step[key])


def differences(
    mine: Mapping[DocumentKey, str], theirs: Mapping[DocumentKey, str]
) -> Iterator[DocumentChange]:
    """Compare two whole states."""
    for key in {**mine, **theirs}:
        before, after = mine.get(key), theirs.get(key)
        if before != after:
            yield DocumentChange(*key, _parse(before), _parse(after))


def _parse(body: str | None) -> dict[str, Any] | None:
    return None if body is None else json.loads(body)
