"""What the query of a list asks for: filters, an order, a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from paddock.world.overlay.ids import ID_FIELDS

_NUMBERED = frozenset({"page", "page[number]", "pagenumber", "page_number", "p"})
_OFFSETS = frozenset({"offset", "skip", "start", "startat", "from", "_start", "page[offset]"})
_CURSORS = frozenset({
    "cursor", "after", "before", "page_token", "pagetoken", "starting_after", "ending_before",
    "next", "continuation", "continuation_token", "page[after]", "page[before]", "page[cursor]",
    "next_token", "since_id", "max_id", "marker",
})  # fmt: skip
_LIMITS = frozenset({"limit", "per_page", "perpage", "page_size", "pagesize", "size", "count",
                     "page[size]", "page[limit]", "maxresults", "max_results", "_limit", "top",
                     "$top", "first"})  # fmt: skip
_SORTS = frozenset({"sort", "order_by", "orderby", "ordering", "sort_by", "sortby", "_sort",
                    "$orderby"})  # fmt: skip
_DIRECTIONS = frozenset({"order", "direction", "dir", "sort_order", "sortorder", "_order"})
_TEXTS = frozenset({"q", "query", "search", "text", "term", "keyword"})
_ALL = frozenset({"", "all", "any", "*"})
_ASC, _DESC = frozenset({"asc", "ascending"}), frozenset({"desc", "descending"})


class ListQuery(msgspec.Struct, frozen=True):
    """The query of a list, read."""

    filters: Mapping[str, frozenset[str]] = {}
    words: tuple[str, ...] = ()
    sort: str | None = None
    is_descending: bool | None = None
    is_first: bool = True
    page: int | None = None  # the number, when pages are numbered
    offset: int | None = None
    limit: int | None = None

    @classmethod
    def read(cls, query: str) -> ListQuery:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
        except ValueError:
            pairs = []
        said = {name.lower(): value.strip() for name, value in pairs}
        sort, is_descending = _order(said)
        page = _number(said, _NUMBERED)
        offset = _number(said, _OFFSETS)
        has_cursor = any(said.get(name) for name in _CURSORS)
        return cls(
            filters=_filters(pairs),
            words=tuple(w for name in _TEXTS for w in said.get(name, "").lower().split()),
            sort=sort,
            is_descending=is_descending,
            is_first=not has_cursor and (page or 0) <= 1 and not offset,
            page=page,
            offset=offset,
            limit=_number(said, _LIMITS),
        )

    def takes(self, record: Mapping[str, Any], known: Sequence[str] = ()) -> bool:
        """Whether the record would be in the list."""
        text = _all_text(record) if self.words else ""
        return self.agrees(record, known) and all(word in text for word in self.words)

    def agrees(self, record: Mapping[str, Any], known: Sequence[str] = ()) -> bool:
        """Whether the filters take it. One on what is no field of it (nor one of the known ones)
        is not judged."""
        for name, wanted in self.filters.items():
            if name in record:
                if not wanted & texts(record[name]):
                    return False
            elif name in known:
                return False
        return True


def _filters(pairs: Sequence[tuple[str, str]]) -> dict[str, frozenset[str]]:
    others = _NUMBERED | _OFFSETS | _CURSORS | _LIMITS | _SORTS | _DIRECTIONS | _TEXTS
    found: dict[str, frozenset[str]] = {}
    for name, value in pairs:
        if name.lower() in others:
            continue
        name = name.removesuffix("[]")
        if name.startswith("filter[") and name.endswith("]"):
            name = name[7:-1]
        wanted = {part.strip().lower() for part in value.split(",")}
        if not wanted & _ALL:
            found[name] = found.get(name, frozenset()) | wanted
    return found


def texts(value: Any) -> set[str]:
    """As a query would spell it. An object is called by its id, a list by each member."""
    if isinstance(value, list):
        return {text for one in value[:1000] if not isinstance(one, list) for text in texts(one)}
    if isinstance(value, Mapping):
        return {
            text
            for name in (*ID_FIELDS, "name", "login", "slug")
            if isinstance(value.get(name), str | int)
            for text in texts(value[name])
        }
    if isinstance(value, bool):
        return {"true", "1"} if value else {"false", "0"}
    return {"null", "none"} if value is None else {str(value).lower()}


def _all_text(value: Any, depth: int = 0) -> str:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return "" if depth > 5 else " ".join(_all_text(one, depth + 1) for one in value[:1000])
    return str(value).lower()


def _order(said: Mapping[str, str]) -> tuple[str | None, bool | None]:
    way = next((said[name].lower() for name in _DIRECTIONS if name in said), "")
    text = next((said[name] for name in _SORTS if said.get(name)), "").split(",")[0]
    if not text and way and way not in _ASC | _DESC:
        text, way = way, ""  # order=created_at
    name, _, end = text.replace(":", " ").strip().partition(" ")
    if text.lower() in _ASC | _DESC:
        name, end = "", text
    way = end.strip().lower() or way
    if name.startswith(("-", "+")):
        way, name = "desc" if name[0] == "-" else "asc", name[1:]
    direction = True if way in _DESC else False if way in _ASC else None
    if name and direction is None:
        direction = False
    return name or None, direction


def _number(said: Mapping[str, str], names: frozenset[str]) -> int | None:
    for name in names:
        value = said.get(name, "")
        if value.isascii() and value.isdecimal() and len(value) < 10:
            return int(value)
    return None
