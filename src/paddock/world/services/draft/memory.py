"""The state of a draft, as documents of its store: captured writes, the shadows that they left, and
a bounded part of what was read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from paddock.model.errors import InvalidInput
from paddock.world.overlay.ids import RecordIndex, is_marked, key_field, shadow_number
from paddock.world.overlay.paths import ancestors, last_part, parent, template
from paddock.world.overlay.shapes import Keys
from paddock.world.store import STEP, Store

MAX_WRITES = 50_000
MAX_SEEN = 64 << 10  # of one record or page, in characters of JSON
_MAX_PAGES, _MAX_RECORDS, _MAX_LEARNED = 200, 1000, 4000  # documents, and changes of them
_SIBLINGS = _PAGES_SEARCHED = 20
Record = dict[str, Any]


class Shadow(msgspec.Struct, frozen=True):
    """A record as writes left it. `created` has the whole record; `changed` has changes that are
    applied to the real record at each read; `deleted` and `emptied` (a collection) have neither."""

    path: str
    state: str
    order: int  # number of the write that made it
    seconds: float  # time of the last write
    record: Record | None = None
    changes: tuple[Record, ...] = ()
    field: str | None = None  # that holds the key, if it is known
    is_unreal: bool = False  # the real host never had the record
    wrapper: Keys = ()

    @property
    def collection(self) -> str:
        return self.path if self.state == "emptied" else parent(self.path)

    @property
    def key(self) -> str:
        return last_part(self.path)

    @property
    def is_gone(self) -> bool:
        return self.state == "deleted"


class SeenRecord(msgspec.Struct, frozen=True):
    """A record as the real host returned it by its own URL. None means that it does not exist."""

    record: Record | None
    wrapper: Keys = ()
    etag: str = ""


class SeenPage(msgspec.Struct, frozen=True):
    """A list as the real host returned it."""

    collection: str
    keys: Keys = ()
    items: tuple[Record, ...] = ()
    envelope: Any = None  # without the items
    order: tuple[str, bool] | None = None  # a field, and whether descending


class DraftMemory:
    """Reads and writes the documents of one draft."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._is_indexed = False

    # Captured writes

    def capture(self, write: Mapping[str, Any]) -> int:
        order = self.store.count("write") + 1
        id = f"{order:08d}"
        self.store.put("write", id, {"id": id, "order": order, "step": STEP.get(), **write})
        return order

    def settle(self, order: int, answer: Mapping[str, Any]) -> None:
        id = f"{order:08d}"
        self.store.put("write", id, {**(self.store.get("write", id) or {}), "answer": answer})

    def writes(self) -> list[Record]:
        return self.store.find("write")

    @property
    def is_full(self) -> bool:
        return self.store.count("write") >= MAX_WRITES

    # Shadows

    def shadow(self, path: str) -> Shadow | None:
        document = self.store.get("shadow", path)
        return None if document is None else msgspec.convert(document, Shadow)

    def put(self, shadow: Shadow) -> None:
        self._index()
        document = {**asdict(shadow), "id": shadow.path, "name": last_part(shadow.collection)}
        self.store.put("shadow", shadow.path, document)

    def shadows(self, *names: str) -> list[Shadow]:
        """Return the shadows in collections of these names, in the order of their first writes."""
        documents = [
            document
            for name in dict.fromkeys(names)
            for document in self.store.find("shadow", {"name": name})
        ]
        shadows = msgspec.convert(documents, list[Shadow])
        return sorted(shadows, key=lambda shadow: shadow.order)

    def shadows_in(self, collection: str) -> list[Shadow]:
        shadows = self.shadows(last_part(collection))
        return [shadow for shadow in shadows if shadow.collection == collection]

    def latest(self, collection: str) -> float:
        """Return the time of the last creation in a collection."""
        created = (s.seconds for s in self.shadows_in(collection) if s.state == "created")
        return max(created, default=0.0)

    def empty(self, path: str, order: int, seconds: float) -> None:
        """Delete a whole collection, with the shadows in it."""
        for shadow in self.shadows_in(path):
            self.put(replace(shadow, state="deleted", changes=(), record=None, order=order))
        self.put(Shadow(path, "emptied", order, seconds))

    def is_below_deleted(self, path: str) -> bool:
        shadows = (self.shadow(ancestor) for ancestor in ancestors(path))
        return any(shadow is not None and shadow.is_gone for shadow in shadows)

    def is_issued(self, value: object) -> bool:
        """Return whether a value is the id of a shadow, and not an id that a real host may have."""
        if not is_marked(value):
            return False
        number = shadow_number(value)
        return number is None or 0 < number <= self.store.get_counter("shadow")

    # Records and pages that were read

    def learn_record(self, path: str, seen: SeenRecord) -> None:
        if _json_size(seen.record) <= MAX_SEEN:
            pattern = "" if seen.record is None else template(path)
            document = {"id": path, "pattern": pattern, **asdict(seen)}
            self._learn("seen", path, document, _MAX_RECORDS)

    def learn_page(self, url: str, page: SeenPage) -> None:
        items = list(page.items)
        while items and _json_size(items) > MAX_SEEN:
            del items[len(items) // 2 :]
        envelope = page.envelope if _json_size(page.envelope) <= MAX_SEEN else None
        document = asdict(replace(page, items=tuple(items), envelope=envelope))
        document |= {"id": url, "pattern": template(page.collection)}
        self._learn("page", url, document, _MAX_PAGES)

    def seen(self, path: str) -> SeenRecord | None:
        """Return a record that was read by its own URL, or else in a list."""
        document = self.store.get("seen", path)
        if document is not None:
            return msgspec.convert(document, SeenRecord)
        field = self.key_field(path)
        for page in self.pages(parent(path)):
            index = RecordIndex(page.items).find(path, last_part(path), field)
            if index is not None:
                return SeenRecord(page.items[index], self.wrapper(path))
        return None

    def key_field(self, path: str) -> str | None:
        """Return the field that the last part of such paths comes from, by what was read."""
        example = self._example(path)
        if example is not None:
            return key_field([example["record"]], last_part(example["id"]))
        items = [item for page in self.pages(parent(path)) for item in page.items]
        return key_field(items, last_part(path))

    def is_record(self, path: str) -> bool:
        seen = self.seen(path)
        return self.shadow(path) is not None or (seen is not None and seen.record is not None)

    def pages(self, collection: str) -> list[SeenPage]:
        """Return the pages of a collection, the latest first."""
        return self._pages({"collection": collection})

    def similar_pages(self, collection: str) -> list[SeenPage]:
        """Return pages of the collection, or else of such collections below other parents."""
        return self.pages(collection) or self._pages({"pattern": template(collection)})

    def _pages(self, where: Record) -> list[SeenPage]:
        documents = self.store.find("page", where, newest_first=True, limit=_PAGES_SEARCHED)
        return msgspec.convert(documents, list[SeenPage])

    def siblings(self, collection: str) -> list[Record]:
        """Return some records of the same kind, the newest first."""
        for page in self.similar_pages(collection):
            if page.items:
                is_newest_first = page.order is not None and page.order[1]
                items = page.items if is_newest_first else page.items[::-1]
                return list(items[:_SIBLINGS])
        where = {"pattern": template(collection + "/0")}
        documents = self.store.find("seen", where, newest_first=True, limit=_SIBLINGS)
        return [document["record"] for document in documents]

    def wrapper(self, path: str) -> Keys:
        """Return how the host wraps a record of this kind, by what was read."""
        example = self._example(path)
        return () if example is None else tuple(example["wrapper"])

    def learn_refusal(self, status: int, body: Any) -> None:
        if _json_size(body) <= MAX_SEEN and not self.store.has("refusal", str(status)):
            self._learn("refusal", str(status), {"id": str(status), "body": body}, 20)

    def refusal(self, status: int) -> Any:
        document = self.store.get("refusal", str(status))
        return None if document is None else document["body"]

    def _example(self, path: str) -> Record | None:
        where = {"pattern": template(path)}
        documents = self.store.find("seen", where, newest_first=True, limit=1)
        return documents[0] if documents else None

    def _index(self) -> None:
        if not self._is_indexed:  # only when something is written: a store may be read-only
            self.store.index("shadow", "name")
            self.store.index("page", "collection", "pattern")
            self.store.index("seen", "pattern")
            self._is_indexed = True

    def _learn(self, kind: str, id: str, document: Record, max_documents: int) -> None:
        """Store what was read. The change log keeps every change, so their number is bounded."""
        self._index()
        old = self.store.get(kind, id)
        if old == json.loads(json.dumps(document)):
            return
        if self.store.get_counter("learned") >= _MAX_LEARNED:
            return
        # A document that the store refuses, because it is nested too deep, is not learned.
        with contextlib.suppress(InvalidInput), self.store.transaction():
            self.store.next("learned")
            if old is None and self.store.count(kind) >= max_documents:
                self.store.delete(kind, self.store.ids(kind)[0])
            self.store.put(kind, id, document)


def _json_size(value: Any) -> int:
    return len(json.dumps(value))
