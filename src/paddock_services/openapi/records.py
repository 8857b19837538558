"""The records of a service in its store, by key: the ids of the parents, then their own."""

from __future__ import annotations

from typing import Any

from paddock.world.context import Context
from paddock_services.openapi.api import Api
from paddock_services.openapi.envelope import plain, singular
from paddock_services.openapi.keeping import (
    ID,
    SCOPE,
    Record,
    Scope,
    linked,
    make_id,
    text_of,
)
from paddock_services.openapi.resources import Resource

_MAX_STEPS = 200_000


class Records:
    """Reads and writes records. Whoever calls has a transaction open."""

    def __init__(self, api: Api, context: Context) -> None:
        self.api = api
        self.context = context
        self.store = context.store

    def get(self, resource: Resource, scope: Scope, id: str) -> Record | None:
        found = self.store.get(resource.kind, self.key(resource, scope, {}, id))
        return found if found is not None and self.is_below(found, scope) else None

    def all(self, resource: Resource, scope: Scope) -> list[Record]:
        found = self.store.find(resource.kind)
        return [one for one in found if self.is_below(one, scope)]

    def put(self, resource: Resource, record: Record) -> None:
        id = self.id_of(resource, record)
        self.store.put(resource.kind, self.key(resource, record.get(SCOPE, {}), record, id), record)

    def delete(self, resource: Resource, record: Record) -> None:
        id = self.id_of(resource, record)
        key = self.key(resource, record.get(SCOPE, {}), record, id)
        self.store.delete(resource.kind, key)
        self._delete_children(resource, key)

    def _delete_children(self, resource: Resource, key: str) -> None:
        """Those whose key begins with the parent's: without it they could not be reached."""
        for child in self.api.resources.by_kind.values():
            if child.kind == resource.kind or len(child.parents) != len(resource.parents) + 1:
                continue
            if child.parents[-1] not in _links(resource):
                continue
            for one in [id for id in self.store.ids(child.kind) if id.startswith(f"{key}/")]:
                self.store.delete(child.kind, one)
                self._delete_children(child, one)

    def key(self, resource: Resource, scope: Scope, record: Record, id: str) -> str:
        parts = [str(linked(record, name, scope) or "") for name in resource.parents]
        return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (*parts, id))

    def id_of(self, resource: Resource, record: Record) -> str:
        if resource.id_name is not None and resource.id_name in record:
            return text_of(record[resource.id_name])
        return str(record.get(ID, "-"))

    def is_below(self, record: Record, scope: Scope) -> bool:
        """Whether a record belongs to all these parents."""
        for name, wanted in scope.items():
            found = linked(record, name, {})
            if found is None or text_of(found) != wanted:
                return False
        return True

    def new_id(self, resource: Resource, scope: Scope, record: Record) -> Any:
        """One that no record has."""
        seed = f"{self.context.seed}/{self.context.name}"
        for _ in range(_MAX_STEPS):
            number = self.store.next(self._counter(resource, scope, record))
            made = make_id(self.api, resource, number, seed)
            key = self.key(resource, scope, record, text_of(made))
            if not self.store.has(resource.kind, key):
                return made
        raise RuntimeError(f"no free id for {resource.kind}")

    def skip(self, resource: Resource, record: Record) -> None:
        """Numbers go on after one that was seeded."""
        id = self.id_of(resource, record)
        name = self._counter(resource, {}, record)
        if id.isdecimal() and int(id) < _MAX_STEPS:
            while self.store.get_counter(name) < int(id):
                self.store.next(name)

    def _counter(self, resource: Resource, scope: Scope, record: Record) -> str:
        return f"{resource.kind}:{self.key(resource, scope, record, '')}"


def _links(resource: Resource) -> set[str]:
    parameter, noun = plain(resource.id_parameter), plain(singular(resource.noun))
    return {parameter, noun + parameter, noun, f"{noun}id"}
