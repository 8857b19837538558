"""The query of a list, parsed: filters, search terms, sort order, page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from paddock.world.overlay.ids import ID_FIELDS

_PAGES = frozenset({"page", "page[number]", "pagenumber", "page_number", "p"})
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
_SEARCHES = frozenset({"q", "query", "search", "text", "term", "keyword"})
_ALL = frozenset({"", "all", "any", "*"})
_ASC, _DESC = frozenset({"asc", "ascending"}), frozenset({"desc", "descending"})


class ListQuery(msgspec.Struct, frozen=True):
    """The query of a list."""

    filters: Mapping[str, frozenset[str]] = {}
    search_terms: tuple[str, ...] = ()
    sort: str | None = None
    is_descending: bool | None = None
    is_first: bool = True  # it asks for the first page
    page: int | None = None
    offset: int | None = None
    limit: int | None = None

    @classmethod
    def parse(cls, query: str) -> ListQuery:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
        except ValueError:
            pairs = []
        values = {name.lower(): value.strip() for name, value in pairs}
        sort, is_descending = _sort_order(values)
        page = _number(values, _PAGES)
        offset = _number(values, _OFFSETS)
        has_cursor = any(values.get(name) for name in _CURSORS)
        return cls(
            filters=_filters(pairs),
            search_terms=tuple(
                term for name in _SEARCHES for term in values.get(name, "").lower().split()
            ),
            sort=sort,
            is_descending=is_descending,
            is_first=not has_cursor and (page or 0) <= 1 and not offset,
            page=page,
            offset=offset,
            limit=_number(values, _LIMITS),
        )

    def includes(self, record: Mapping[str, Any], known_fields: Sequence[str] = ()) -> bool:
        """Return whether the record belongs in the list."""
        text = _all_text(record) if self.search_terms else ""
        return self.passes_filters(record, known_fields) and all(
            term in text for term in self.search_terms
        )

    def passes_filters(self, record: Mapping[str, Any], known_fields: Sequence[str] = ()) -> bool:
        """Return whether the filters accept the record. A filter on something that is neither a
        field of the record nor a known field of its siblings is ignored."""
        for name, wanted in self.filters.items():
            if name not in record and name not in known_fields:
                continue
            if name not in record or not wanted & query_texts(record[name]):
                return False
        return True


def _filters(pairs: Sequence[tuple[str, str]]) -> dict[str, frozenset[str]]:
    not_filters = _PAGES | _OFFSETS | _CURSORS | _LIMITS | _SORTS | _DIRECTIONS | _SEARCHES
    filters: dict[str, frozenset[str]] = {}
    for name, value in pairs:
        if name.lower() in not_filters:
            continue
        name = name.removesuffix("[]")
        if name.startswith("filter[") and name.endswith("]"):
            name = name[7:-1]
        wanted = {part.strip().lower() for part in value.split(",")}
        if not wanted & _ALL:
            filters[name] = filters.get(name, frozenset()) | wanted
    return filters


def query_texts(value: Any) -> set[str]:
    """Return the texts by which a query may name a value: an object by its id or name, a list by
    each member."""
    if isinstance(value, bool):
        return {"true", "1"} if value else {"false", "0"}
    if value is None:
        return {"null", "none"}
    if isinstance(value, list):
        inner = [item for item in value[:1000] if not isinstance(item, list)]
    elif isinstance(value, Mapping):
        names = (*ID_FIELDS, "name", "login", "slug")
        inner = [value[name] for name in names if isinstance(value.get(name), str | int)]
    else:
        return {str(value).lower()}
    return {text for item in inner for text in query_texts(item)}


def _all_text(value: Any, depth: int = 0) -> str:
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list):
        return str(value).lower()
    if depth > 5:
        return ""
    return " ".join(_all_text(item, depth + 1) for item in value[:1000])


def _sort_order(values: Mapping[str, str]) -> tuple[str | None, bool | None]:
    """Return the field to sort by, and whether descending; None for what the query leaves open.

    APIs write it as `sort=-created`, `sort=created:desc`, `sort=created&order=desc`,
    `order=created` or `sort=desc`.
    """
    direction = next((values[name].lower() for name in _DIRECTIONS if name in values), "")
    sort = next((values[name] for name in _SORTS if values.get(name)), "").split(",")[0]
    if not sort and direction and direction not in _ASC | _DESC:
        sort, direction = direction, ""
    field, _, suffix = sort.replace(":", " ").strip().partition(" ")
    if sort.lower() in _ASC | _DESC:
        field, suffix = "", sort
    direction = suffix.strip().lower() or direction
    if field.startswith("-"):
        return field[1:] or None, True
    if field.startswith("+"):
        return field[1:] or None, False
    if direction in _DESC:
        return field or None, True
    if field or direction in _ASC:
        return field or None, False
    return None, None


def _number(values: Mapping[str, str], names: frozenset[str]) -> int | None:
    for name in names:
        value = values.get(name, "")
        if value.isascii() and value.isdecimal() and len(value) < 10:
            return int(value)
    return None
