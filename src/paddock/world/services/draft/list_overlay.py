"""A real list with the shadow's records in it: changed, gone, and new in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.overlay.ids import RecordIndex
from paddock.world.overlay.list_query import ListQuery, texts
from paddock.world.overlay.pages import (
    counted,
    is_last,
    order_of,
    place,
    sort_field,
    without_more,
)
from paddock.world.overlay.paths import has_id, is_id, last, parent, singular
from paddock.world.overlay.shapes import Keys, get, put
from paddock.world.services.draft.changes import applied_leniently
from paddock.world.services.draft.memory import DraftMemory, Record, Shadow

Order = tuple[str | None, bool]  # a field, and whether the greatest or newest is the first
_MARKED = 20  # ids in the header that says what is not real


class _Tally(msgspec.Struct):
    """What has been done to one page."""

    real: list[Any]
    places: RecordIndex
    new: dict[int, Any] = {}  # by the place in the real list
    gone: set[int] = set()
    created: list[str] = []
    total: int = 0  # more, or fewer, on all pages

    def find(self, one: Shadow) -> int | None:
        return self.places.find(one.path, one.key, one.field)

    def left(self) -> list[Any]:
        return [self.new.get(at, item) for at, item in enumerate(self.real) if at not in self.gone]

    @property
    def mark(self) -> str:
        words = [*self.created[:_MARKED]]
        words += ["changed"] if self.new else []
        words += ["deleted"] if self.gone else []
        return ",".join(words) or ("counted" if self.total else "")


class Listing:
    """One list that was asked for."""

    def __init__(self, memory: DraftMemory, path: str, query: str, keys: Keys, link: str) -> None:
        self._memory = memory
        self._path = path
        self._asked = ListQuery.read(query)
        self._keys = keys
        self._link = link
        self._known: dict[str, list[str]] = {}

    def overlaid(self, value: Any) -> tuple[Any, str, int]:
        """The answer with the shadow in it, a mark that says so, empty when nothing is, and how
        many records there are more."""
        real = get(value, self._keys)
        related = self._related()
        tally = _Tally(real, RecordIndex(real))
        if any(one.state == "emptied" and one.path == self._path for one in related):
            tally.gone, tally.total = set(range(len(real))), -len(real)
        for one in related:
            self._settle(one, tally)
        items = tally.left()
        ends = self._ends(value, len(real))
        order = self._order(real)
        for one in sorted(related, key=lambda one: one.state == "created"):
            self._add(one, tally, items, ends, order)
        if not tally.mark:
            return value, "", 0
        new = put(value, self._keys, items)
        return counted(new, len(real), len(items), tally.total, self._keys), tally.mark, tally.total

    def changed_only(self, record: Record) -> tuple[Any, str]:
        """A record that is in no list, with what was changed in it."""
        tally = _Tally([record], RecordIndex([record]))
        for one in self._related():
            if one.state == "changed" and one.collection != self._path:
                self._settle(one, tally)
        return tally.new.get(0, record), tally.mark

    def _related(self) -> list[Shadow]:
        names = {last(self._path), last(parent(self._path)), *self._keys[-1:]}
        return [one for one in self._memory.shadows(*sorted(names)) if self._is_related(one)]

    def _is_related(self, one: Shadow) -> bool:
        """Its own collection, a view below it (`/tickets/recent`), or the same things below
        something else (`/users/3/tickets`)."""
        if one.collection == self._path:
            return True
        below = self._path.removeprefix(one.collection + "/")
        if below != self._path:
            return not has_id("/" + below) and not is_id(below)
        name = last(one.collection)
        if has_id(one.collection):
            return False
        return name in self._keys[-1:] or (has_id(self._path) and name == last(self._path))

    def _settle(self, one: Shadow, tally: _Tally) -> None:
        at = tally.find(one)
        if at in tally.gone or one.state not in ("changed", "deleted"):
            return
        old = tally.real[at] if at is not None else self._elsewhere(one)
        is_leaving = one.is_gone or (old is not None and self._leaves(one, old))
        if is_leaving and not one.is_unreal and (old is not None or self._is_counted(one)):
            tally.total -= 1
        if at is not None and is_leaving:
            tally.gone.add(at)
        elif at is not None:
            tally.new[at] = applied_leniently(old, one.changes)

    def _leaves(self, one: Shadow, old: Record) -> bool:
        """Whether the filters took it and do not any more."""
        new = applied_leniently(old, one.changes)
        return self._asked.agrees(old) and not self._asked.agrees(new, known=list(old))

    def _elsewhere(self, one: Shadow) -> Record | None:
        """The real record, if it is known to be on another page of this list."""
        seen = self._memory.seen(one.path) if one.collection == self._path else None
        if seen is None or seen.record is None:
            return None
        return seen.record if self._asked.takes(seen.record) else None

    def _is_counted(self, one: Shadow) -> bool:
        """A record that was deleted without a look: the whole list had it."""
        is_whole = not self._asked.filters and not self._asked.words
        return is_whole and one.collection == self._path and not self._memory.seen(one.path)

    def _add(
        self, one: Shadow, tally: _Tally, items: list[Any], ends: tuple[bool, bool], order: Order
    ) -> None:
        record = self._new_here(one)
        if record is None or tally.find(one) is not None:
            return
        tally.total += 1
        if one.state == "created" and not self._asked.sort:
            order = (None, order[1])  # the newest, whatever time it was given
        at = self._place(items, record, ends, order)
        if at is not None:
            items.insert(at, record)
            tally.created.append(one.key)

    def _new_here(self, one: Shadow) -> Record | None:
        """The record of a shadow that the real list has not, and should have."""
        if one.state == "created" and isinstance(one.record, dict):
            is_here = one.collection == self._path or self._is_found(one) or self._is_linked(one)
            is_here = is_here and self._asked.takes(one.record, self._fields(one.collection))
            return one.record if is_here else None
        if one.state != "changed" or one.collection != self._path or not self._asked.filters:
            return None
        seen = self._memory.seen(one.path)
        if seen is None or seen.record is None or self._asked.takes(seen.record):
            return None
        new = applied_leniently(seen.record, one.changes)
        is_here = isinstance(new, dict) and self._asked.takes(new, known=list(seen.record))
        return new if is_here else None

    def _fields(self, collection: str) -> list[str]:
        """That the real records of a collection have."""
        if collection not in self._known:
            siblings = self._memory.siblings(collection) if self._asked.filters else []
            self._known[collection] = [name for one in siblings[:1] for name in one]
        return self._known[collection]

    def _is_found(self, one: Shadow) -> bool:
        """By the words of a search, below its collection or in a list of that name."""
        is_below = self._path.startswith(one.collection + "/")
        return bool(self._asked.words) and (is_below or last(one.collection) in self._keys[-1:])

    def _is_linked(self, one: Shadow) -> bool:
        """`/users/3/tickets` has the tickets whose `user_id` is 3."""
        above = parent(self._path)
        if last(self._path) != last(one.collection) or not is_id(last(above)) or not one.record:
            return False
        word = singular(last(parent(above)))
        names = (f"{word}_id", f"{word}Id", word)
        return any(last(above).lower() in texts(one.record[name]) for name in names
                   if name in one.record)  # fmt: skip

    def _ends(self, value: Any, count: int) -> tuple[bool, bool]:
        return self._asked.is_first, is_last(self._asked, value, count, self._link)

    def _order(self, real: list[Any]) -> Order:
        """A field and a direction, or no field and whether the newest is the first."""
        asked = self._asked
        name = sort_field(asked, real)
        if name is not None:
            return name, bool(asked.is_descending)
        if asked.is_descending is not None:
            return None, asked.is_descending
        seen = order_of(real)
        if seen is not None:
            return seen
        known = (page.order for page in self._memory.alike(self._path))
        return next((one for one in known if one is not None), (None, False))

    def _place(
        self, items: list[Any], record: Mapping[str, Any], ends: tuple[bool, bool], order: Order
    ) -> int | None:
        is_first, is_last = ends
        name, is_descending = order
        at = place(items, record, name, is_descending) if name else None
        if at is None:
            at = 0 if is_descending else len(items)
        if not items:
            is_here = is_first if is_descending else is_last
        else:
            is_here = (at > 0 or is_first) and (at < len(items) or is_last)
        return at if is_here else None


def lone(envelope: Any, keys: Keys) -> Any:
    """The envelope of a list that has nothing in it, and no further pages."""
    return without_more(put(envelope, keys, []))
