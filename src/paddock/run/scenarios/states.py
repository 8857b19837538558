"""The state of a run's stand-ins at its end: documents by kind, as conditions read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput, NotFound
from paddock.world.kept import KeptService, open_kept

MAX_DOCUMENTS = 20_000  # of one kind; no condition looks at more
# Their memory is not in the store.
_OF_THEIR_OWN = frozenset({"command", "postgres"})


def states_of(directory: Path) -> dict[str, Mapping[str, Any]]:
    """By place; nothing for a run without a world. Raises IntegrityError for a damaged one, and
    InvalidInput for one that is too large to be looked at."""
    directory = directory.absolute()
    try:
        with open_kept(directory.parent.parent, directory.name) as world:
            return {one.name: _state(one) for one in world.services}
    except NotFound:
        return {}


def _state(service: KeptService) -> Mapping[str, Any]:
    store = service.store
    found: dict[str, Any] = {}
    for kind in store.kinds():
        count = store.count(kind)
        if count > MAX_DOCUMENTS:
            raise InvalidInput(f"{service.name} has {count} {kind}, at most {MAX_DOCUMENTS}")
        found[kind] = store.find(kind)
    return {**service.show(), **found} if service.service in _OF_THEIR_OWN else found
