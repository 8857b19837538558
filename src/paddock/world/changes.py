"""What is different between two states of a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Key = tuple[str, str]
Row = tuple[int, int | None, str, str, str | None]  # at, step, kind, id, what was there before


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """One document, as it was and as it is. None: it was not there."""

    kind: str
    id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    step: int | None = None  # the last one that changed it


def changes_of(
    rows: Iterable[Row], until: int, body_now: Callable[[str, str], str | None]
) -> Iterator[DocumentChange]:
    """From the log of changes, once a document, in the order in which they were first changed."""
    first: dict[Key, str | None] = {}
    last: dict[Key, int | None] = {}
    later: dict[Key, str | None] = {}
    for at, step, kind, id, body in rows:
        if at > until:
            later.setdefault((kind, id), body)
        else:
            first.setdefault((kind, id), body)
            last[kind, id] = step
    for key, body in first.items():
        now = later[key] if key in later else body_now(*key)
        if body != now:
            yield DocumentChange(*key, _loaded(body), _loaded(now), last[key])


def differences(here: Mapping[Key, str], there: Mapping[Key, str]) -> Iterator[DocumentChange]:
    """Between two states as a whole."""
    for key in {**here, **there}:
        mine, yours = here.get(key), there.get(key)
        if mine != yours:
            yield DocumentChange(*key, _loaded(mine), _loaded(yours))


def _loaded(body: str | None) -> dict[str, Any] | None:
    return None if body is None else json.loads(body)
