"""A real list with the shadows in it: changed and deleted records, and new ones in their places.

A list is one page of many. For each shadow that concerns it there are these cases:
1. The real page has the record: it is replaced by the changed one, or removed if it was deleted or
   does not pass the filters any more.
2. The record is on another page: only the total changes.
3. The real list does not have the record and should: it was created, or a change made it pass the
   filters. It is inserted if its place in the sort order is on this page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.overlay.ids import RecordIndex
from paddock.world.overlay.list_query import ListQuery, query_texts
from paddock.world.overlay.pages import (
    as_only_page,
    insert_position,
    is_last_page,
    sort_field,
    sort_order,
    with_counts,
)
from paddock.world.overlay.patches import apply_leniently
from paddock.world.overlay.paths import has_id, is_id, last_part, parent, singular
from paddock.world.overlay.shapes import Keys, get_at, put_at
from paddock.world.services.draft.memory import DraftMemory, Record, Shadow

SortOrder = tuple[str | None, bool]  # a field, or None for the order of creation; descending
_MAX_MARKED = 20  # ids in the header that names what is not real


class _PageState(msgspec.Struct):
    """The changes that have been made to one page so far."""

    real: list[Any]
    index: RecordIndex
    changed: dict[int, Any] = {}  # by index in the real list
    removed: set[int] = set()
    created: list[str] = []
    total_change: int = 0  # of the number of records on all pages

    def find(self, shadow: Shadow) -> int | None:
        return self.index.find(shadow.path, shadow.key, shadow.field)

    def remaining(self) -> list[Any]:
        return [
            self.changed.get(index, item)
            for index, item in enumerate(self.real)
            if index not in self.removed
        ]

    @property
    def mark(self) -> str:
        marks = self.created[:_MAX_MARKED]
        if self.changed:
            marks.append("changed")
        if self.removed:
            marks.append("deleted")
        if not marks and self.total_change:
            marks.append("counted")
        return ",".join(marks)


class ListOverlay:
    """Lays the shadows over one list."""

    def __init__(self, memory: DraftMemory, path: str, query: str, keys: Keys, link: str) -> None:
        self._memory = memory
        self._path = path
        self._query = ListQuery.parse(query)
        self._keys = keys  # that lead to the list in the answer
        self._link = link
        self._sibling_fields: dict[str, list[str]] = {}

    def apply(self, answer: Any) -> tuple[Any, str, int]:
        """Return the answer with the shadows, a mark that names them (empty if there are none), and
        by how much the number of all records changes."""
        real = get_at(answer, self._keys)
        shadows = self._related_shadows()
        page = _PageState(real, RecordIndex(real))
        if any(shadow.state == "emptied" and shadow.path == self._path for shadow in shadows):
            page.removed, page.total_change = set(range(len(real))), -len(real)
        for shadow in shadows:
            self._change_or_remove(shadow, page)
        items = page.remaining()
        is_last = is_last_page(self._query, answer, len(real), self._link)
        order = self._sort_order(real)
        for shadow in sorted(shadows, key=lambda shadow: shadow.state == "created"):
            self._insert(shadow, page, items, order, is_last)
        if not page.mark:
            return answer, "", 0
        new = put_at(answer, self._keys, items)
        new = with_counts(new, len(real), len(items), page.total_change, self._keys)
        return new, page.mark, page.total_change

    def change_single(self, record: Record) -> tuple[Any, str]:
        """Apply changes to a record that was read by another URL than its own."""
        page = _PageState([record], RecordIndex([record]))
        for shadow in self._related_shadows():
            if shadow.state == "changed" and shadow.collection != self._path:
                self._change_or_remove(shadow, page)
        return page.changed.get(0, record), page.mark

    def _related_shadows(self) -> list[Shadow]:
        names = {last_part(self._path), last_part(parent(self._path)), *self._keys[-1:]}
        return [s for s in self._memory.shadows(*sorted(names)) if self._is_related(s)]

    def _is_related(self, shadow: Shadow) -> bool:
        """Return whether the list may have the record: it is the record's collection, a view below
        it (`/tickets/recent`), or such records below another parent (`/users/3/tickets`)."""
        if shadow.collection == self._path:
            return True
        below = self._path.removeprefix(shadow.collection + "/")
        if below != self._path:
            return not has_id("/" + below)
        if has_id(shadow.collection):
            return False
        name = last_part(shadow.collection)
        return name in self._keys[-1:] or (has_id(self._path) and name == last_part(self._path))

    def _change_or_remove(self, shadow: Shadow, page: _PageState) -> None:
        index = page.find(shadow)
        if index in page.removed or shadow.state not in ("changed", "deleted"):
            return
        real = self._seen_on_other_page(shadow) if index is None else page.real[index]
        is_leaving = shadow.is_gone or (real is not None and self._fails_filters(shadow, real))
        is_counted = real is not None or self._is_in_whole_list(shadow)
        if is_leaving and is_counted and not shadow.is_unreal:
            page.total_change -= 1
        if index is None:
            return
        if is_leaving:
            page.removed.add(index)
        else:
            page.changed[index] = apply_leniently(real, shadow.changes)

    def _fails_filters(self, shadow: Shadow, real: Record) -> bool:
        """Return whether the real record passes the filters and the changed one does not."""
        new = apply_leniently(real, shadow.changes)
        return self._query.passes_filters(real) and not self._query.passes_filters(new, list(real))

    def _seen_on_other_page(self, shadow: Shadow) -> Record | None:
        if shadow.collection != self._path:
            return None
        seen = self._memory.seen(shadow.path)
        if seen is None or seen.record is None or not self._query.includes(seen.record):
            return None
        return seen.record

    def _is_in_whole_list(self, shadow: Shadow) -> bool:
        """Return whether a record that was deleted without being read counts for this list."""
        is_whole = not self._query.filters and not self._query.search_terms
        is_here = shadow.collection == self._path
        return is_whole and is_here and not self._memory.seen(shadow.path)

    def _insert(
        self, shadow: Shadow, page: _PageState, items: list[Any], order: SortOrder, is_last: bool
    ) -> None:
        record = self._missing_record(shadow)
        if record is None or page.find(shadow) is not None:
            return
        page.total_change += 1
        if shadow.state == "created" and not self._query.sort:
            order = (None, order[1])  # it is the newest, whatever time it was given
        position = self._position(items, record, order, is_last)
        if position is not None:
            items.insert(position, record)
            page.created.append(shadow.key)

    def _missing_record(self, shadow: Shadow) -> Record | None:
        """Return the record of a shadow if the real list lacks it and should have it."""
        if shadow.state == "created" and isinstance(shadow.record, dict):
            is_here = shadow.collection == self._path
            if not (is_here or self._is_searched(shadow) or self._is_linked(shadow)):
                return None
            fields = self._fields_of(shadow.collection)
            return shadow.record if self._query.includes(shadow.record, fields) else None
        if shadow.state != "changed" or shadow.collection != self._path or not self._query.filters:
            return None
        seen = self._memory.seen(shadow.path)
        if seen is None or seen.record is None or self._query.includes(seen.record):
            return None
        new = apply_leniently(seen.record, shadow.changes)
        if isinstance(new, dict) and self._query.includes(new, list(seen.record)):
            return new
        return None

    def _fields_of(self, collection: str) -> list[str]:
        """Return the fields of the real records of a collection, if filters need them."""
        if collection not in self._sibling_fields:
            siblings = self._memory.siblings(collection) if self._query.filters else []
            self._sibling_fields[collection] = list(siblings[0]) if siblings else []
        return self._sibling_fields[collection]

    def _is_searched(self, shadow: Shadow) -> bool:
        """Return whether this is a search below the collection, or in a list of its name."""
        is_below = self._path.startswith(shadow.collection + "/")
        has_name = last_part(shadow.collection) in self._keys[-1:]
        return bool(self._query.search_terms) and (is_below or has_name)

    def _is_linked(self, shadow: Shadow) -> bool:
        """Return whether the record links to the parent: `/users/3/tickets` has the tickets whose
        `user_id` is 3."""
        above = parent(self._path)
        parent_id, record = last_part(above), shadow.record
        if last_part(self._path) != last_part(shadow.collection) or not is_id(parent_id):
            return False
        noun = singular(last_part(parent(above)))
        return record is not None and any(
            parent_id.lower() in query_texts(record[name])
            for name in (f"{noun}_id", f"{noun}Id", noun)
            if name in record
        )

    def _sort_order(self, real: list[Any]) -> SortOrder:
        query = self._query
        field = sort_field(query, real)
        if field is not None:
            return field, bool(query.is_descending)
        if query.is_descending is not None:
            return None, query.is_descending
        order = sort_order(real)
        if order is not None:
            return order
        for page in self._memory.similar_pages(self._path):
            if page.order is not None:
                return page.order
        return None, False

    def _position(
        self, items: list[Any], record: Mapping[str, Any], order: SortOrder, is_last: bool
    ) -> int | None:
        """Return the index at which the record belongs, or None if that is on another page."""
        is_first = self._query.is_first
        field, is_descending = order
        if not items:
            is_here = is_first if is_descending else is_last
            return 0 if is_here else None
        position = insert_position(items, record, field, is_descending) if field else None
        if position is None:
            position = 0 if is_descending else len(items)
        is_here = (position > 0 or is_first) and (position < len(items) or is_last)
        return position if is_here else None


def empty_list(envelope: Any, keys: Keys) -> Any:
    """Return the envelope of a list without items and without further pages."""
    return as_only_page(put_at(envelope, keys, []))
