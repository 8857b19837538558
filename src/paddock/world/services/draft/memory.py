"""What a draft remembers, as documents of its store: the writes, what they did to records, and a
bounded part of what was read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from paddock.model.errors import InvalidInput
from paddock.world.overlay.ids import RecordIndex, is_marked, key_field, number_of
from paddock.world.overlay.paths import ancestors, last, parent, template
from paddock.world.overlay.shapes import Keys
from paddock.world.store import STEP, Store

MAX_WRITES = 50_000
MAX_KEPT = 64 << 10  # of one record or page, in letters of JSON
_MAX_PAGES, _MAX_SEEN, _MAX_LEARNED = 200, 1000, 4000  # documents, and changes of them
_SIBLINGS = _LOOKED_AT = 20
Record = dict[str, Any]


class Shadow(msgspec.Struct, frozen=True):
    """A record as writes left it. `created` has the whole record; `changed` what is done to the
    real one at each read; `deleted` and `emptied` (a whole collection) have nothing."""

    path: str
    state: str
    order: int  # of the write that made it
    seconds: float  # of the last write
    record: Record | None = None
    changes: tuple[Record, ...] = ()
    field: str | None = None  # that has the key, if it is known
    is_unreal: bool = False  # the real host never had it
    wrapper: Keys = ()

    @property
    def collection(self) -> str:
        return self.path if self.state == "emptied" else parent(self.path)

    @property
    def key(self) -> str:
        return last(self.path)

    @property
    def is_gone(self) -> bool:
        return self.state == "deleted"


class SeenRecord(msgspec.Struct, frozen=True):
    """A record as the real host gave it by its own URL. None: it said that there is none."""

    record: Record | None
    wrapper: Keys = ()
    etag: str = ""


class SeenPage(msgspec.Struct, frozen=True):
    """A list as the real host gave it."""

    collection: str
    keys: Keys = ()
    items: tuple[Record, ...] = ()
    envelope: Any = None  # without the items
    order: tuple[str, bool] | None = None  # a field, and whether the newest is the first


class DraftMemory:
    """One draft's documents."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._is_indexed = False

    # Writes

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
        found = self.store.get("shadow", path)
        return None if found is None else _shadow(found)

    def put(self, shadow: Shadow) -> None:
        self._index()
        document = {**asdict(shadow), "id": shadow.path, "name": last(shadow.collection)}
        self.store.put("shadow", shadow.path, document)

    def shadows(self, *names: str) -> list[Shadow]:
        """Those of collections that are called so, in the order of their first writes."""
        found = [
            one
            for name in dict.fromkeys(names)
            for one in self.store.find("shadow", {"name": name})
        ]
        return sorted(map(_shadow, found), key=lambda one: one.order)

    def latest(self, collection: str) -> float:
        """When the last record was made in it."""
        made = (one.seconds for one in self.shadows(last(collection))
                if one.collection == collection and one.state == "created")  # fmt: skip
        return max(made, default=0.0)

    def empty(self, path: str, order: int, seconds: float) -> None:
        """A whole collection is gone, with what was made in it."""
        for one in self.shadows(last(path)):
            if one.collection == path:
                self.put(replace(one, state="deleted", changes=(), record=None, order=order))
        self.put(Shadow(path, "emptied", order, seconds))

    def gone_above(self, path: str) -> bool:
        return any((one := self.shadow(above)) and one.is_gone for above in ancestors(path))

    def is_issued(self, value: object) -> bool:
        """Whether it is the id of a shadow, and not one that a real host may have."""
        if not is_marked(value):
            return False
        number = number_of(value)
        return number is None or 0 < number <= self.store.get_counter("shadow")

    # What was read

    def learn_record(self, path: str, seen: SeenRecord) -> None:
        if _size(seen.record) <= MAX_KEPT:
            self._learn(
                "seen",
                path,
                {
                    "id": path,
                    "pattern": "" if seen.record is None else template(path),
                    **asdict(seen),
                },
                _MAX_SEEN,
            )

    def learn_page(self, url: str, page: SeenPage) -> None:
        kept = list(page.items)
        while kept and _size(kept) > MAX_KEPT:
            del kept[len(kept) // 2 :]
        envelope = page.envelope if _size(page.envelope) <= MAX_KEPT else None
        body = asdict(replace(page, items=tuple(kept), envelope=envelope))
        body |= {"id": url, "pattern": template(page.collection)}
        self._learn("page", url, body, _MAX_PAGES)

    def seen(self, path: str) -> SeenRecord | None:
        """By its own URL, else from a list."""
        found = self.store.get("seen", path)
        if found is not None:
            return SeenRecord(found["record"], tuple(found["wrapper"]), found["etag"])
        field = self.field(path)
        for page in self.pages(parent(path)):
            at = RecordIndex(page.items).find(path, last(path), field)
            if at is not None:
                return SeenRecord(page.items[at], self.wrapper(path))
        return None

    def field(self, path: str) -> str | None:
        """That the paths of such records have their last part from, by what was read."""
        one = self._example(path)
        if one is not None:
            return key_field([one["record"]], last(one["id"]))
        items = [item for page in self.pages(parent(path)) for item in page.items]
        return key_field(items, last(path))

    def is_record(self, path: str) -> bool:
        seen = self.seen(path)
        return self.shadow(path) is not None or (seen is not None and seen.record is not None)

    def pages(self, collection: str) -> list[SeenPage]:
        """Of the collection itself, the latest first."""
        return self._pages({"collection": collection})

    def alike(self, collection: str) -> list[SeenPage]:
        """Of the collection, else of those with another parent."""
        return self.pages(collection) or self._pages({"pattern": template(collection)})

    def _pages(self, where: Record) -> list[SeenPage]:
        found = self.store.find("page", where, newest_first=True, limit=_LOOKED_AT)
        return [_page(one) for one in found]

    def siblings(self, collection: str) -> list[Record]:
        """Some records of the same kind, the newest first."""
        for page in self.alike(collection):
            if page.items:
                items = page.items if page.order and page.order[1] else tuple(reversed(page.items))
                return list(items[:_SIBLINGS])
        where = {"pattern": template(collection + "/0")}
        found = self.store.find("seen", where, newest_first=True, limit=_SIBLINGS)
        return [one["record"] for one in found]

    def wrapper(self, path: str) -> Keys:
        """How the host wraps a record of this kind, by what was seen of one."""
        one = self._example(path)
        return () if one is None else tuple(one["wrapper"])

    def learn_refusal(self, status: int, body: Any) -> None:
        if _size(body) <= MAX_KEPT and not self.store.has("refusal", str(status)):
            self._learn("refusal", str(status), {"id": str(status), "body": body}, 20)

    def refusal(self, status: int) -> Any:
        found = self.store.get("refusal", str(status))
        return None if found is None else found["body"]

    def _example(self, path: str) -> Record | None:
        where = {"pattern": template(path)}
        found = self.store.find("seen", where, newest_first=True, limit=1)
        return found[0] if found else None

    def _index(self) -> None:
        if not self._is_indexed:  # not before something is written: a reader's store is read-only
            self.store.index("shadow", "name")
            self.store.index("page", "collection", "pattern")
            self.store.index("seen", "pattern")
            self._is_indexed = True

    def _learn(self, kind: str, id: str, document: Record, most: int) -> None:
        """Each change is kept for ever: the number of them has a limit."""
        self._index()
        old = self.store.get(kind, id)
        if old == json.loads(json.dumps(document)):
            return
        if self.store.get_counter("learned") >= _MAX_LEARNED:
            return
        # What the store does not take, nested too deep, is not needed to pass an answer on.
        with contextlib.suppress(InvalidInput), self.store.transaction():
            self.store.next("learned")
            if old is None and self.store.count(kind) >= most:
                self.store.delete(kind, self.store.ids(kind)[0])
            self.store.put(kind, id, document)


def _shadow(found: Mapping[str, Any]) -> Shadow:
    words = {name: found[name] for name in Shadow.__struct_fields__}
    return Shadow(
        **{**words, "changes": tuple(words["changes"]), "wrapper": tuple(words["wrapper"])}
    )


def _page(found: Mapping[str, Any]) -> SeenPage:
    words = {name: found[name] for name in SeenPage.__struct_fields__}
    words |= {"keys": tuple(words["keys"]), "items": tuple(words["items"])}
    return SeenPage(**{**words, "order": tuple(words["order"]) if words["order"] else None})


def _size(value: Any) -> int:
    return len(json.dumps(value))
