"""One page of a list: whether it is the last one, how it is sorted, where a new record belongs on
it, and which numbers of its envelope count records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.world.overlay.list_query import ListQuery
from paddock.world.overlay.times import is_creation_time, parse_time

_MORE = frozenset({"has_more", "hasmore", "has_next", "hasnextpage", "hasnext", "more"})
_NEXT = frozenset({"next", "next_page", "nextpage", "next_cursor", "nextcursor", "next_page_token",
                   "nextpagetoken", "next_url", "next_token", "nexttoken"})  # fmt: skip
_LAST = frozenset({"last", "islast", "is_last", "islastpage"})
_TOTALS = frozenset({"total", "total_count", "totalcount", "count", "total_results", "totalresults",
                     "totalitems", "total_items", "totalelements", "total_entries", "totalhits",
                     "total_records", "recordcount", "size", "numberofelements"})  # fmt: skip
_PAGE_COUNTS = frozenset({"count", "size", "numberofelements"})
_METADATA = frozenset({"meta", "pagination", "paging", "page", "page_info", "pageinfo", "_meta",
                       "links", "_links", "response_metadata", "cursor"})  # fmt: skip
_MAX_DEPTH = 2  # of metadata within metadata
TOTAL_HEADERS = frozenset({b"x-total-count", b"x-total", b"total-count"})


def is_last_page(query: ListQuery, body: Any, count: int, link: str) -> bool:
    """Return whether a page is the last one: by what the answer states, else by its length.

    An empty page after the first is the last one only if the answer states so: a client that reads
    until a page is empty must find one.
    """
    has_more = _has_more(body)
    if has_more is None and link:
        has_more = 'rel="next"' in link or "rel=next" in link
    if has_more is not None:
        return not has_more
    is_plausible = count > 0 or query.is_first
    total = _total(body, count)
    if total is not None and total >= count:
        return _records_before(query, count) + count >= total and is_plausible
    if query.limit is not None:
        return count < query.limit and is_plausible
    return is_plausible


def sort_order(items: Sequence[Any]) -> tuple[str, bool] | None:
    """Return the field that a list is sorted by, and whether descending: a time of creation, else
    ids that are numbers. None if it cannot be seen."""
    records = [item for item in items if isinstance(item, Mapping)]
    if len(records) < 2:
        return None
    for name in (*(name for name in records[0] if is_creation_time(name)), "id", "number"):
        ranks = [_rank(record.get(name)) for record in records]
        numbers = [rank for rank in ranks if isinstance(rank, float)]
        if len(numbers) < len(records) or numbers[0] == numbers[-1]:
            continue
        if numbers == sorted(numbers):
            return name, False
        if numbers == sorted(numbers, reverse=True):
            return name, True
    return None


def insert_position(
    items: Sequence[Any], record: Mapping[str, Any], field: str, is_descending: bool
) -> int | None:
    """Return the index of a record in a sorted list, or None if the values are not comparable."""
    rank = _rank(record.get(field))
    for index, item in enumerate(items):
        other = _rank(item.get(field)) if isinstance(item, Mapping) else None
        if rank is None or other is None or type(rank) is not type(other):
            return None
        is_before = rank > other if is_descending else rank < other  # type: ignore[operator]
        if is_before:
            return index
    return len(items)


def sort_field(query: ListQuery, items: Sequence[Any]) -> str | None:
    """Return the field of the records that `sort=created` means, such as `created_at`."""
    first: Any = next((item for item in items if isinstance(item, Mapping)), None)
    if query.sort is None or first is None:
        return None
    wanted = query.sort.lower().replace("_", "")
    for name in first:
        plain = name.lower().replace("_", "")
        if plain in (wanted, wanted + "at", wanted + "on", wanted + "date"):
            return str(name)
    return None


def with_counts(body: Any, before: int, after: int, change: int, keys: Sequence[str] = ()) -> Any:
    """Return the envelope with corrected numbers: `before` and `after` count the records of this
    page, `change` is the difference on all pages, `keys` lead to the list."""
    if not isinstance(body, Mapping):
        return body
    result = dict(body)
    for name, value in body.items():
        plain = name.lower()
        if plain in _TOTALS and _is_integer(value):
            is_page_count = plain in _PAGE_COUNTS and value == before
            result[name] = after if is_page_count else max(0, value + change)
        elif isinstance(value, Mapping) and (plain in _METADATA or name in keys[:1]):
            result[name] = with_counts(value, before, after, change, keys[1:])
    return result


def as_only_page(body: Any, depth: int = 0) -> Any:
    """Return the envelope of an empty list that has a single page."""
    if not isinstance(body, Mapping) or depth > _MAX_DEPTH:
        return body
    result = dict(body)
    for name, value in body.items():
        plain = name.lower()
        if plain in _MORE and isinstance(value, bool):
            result[name] = False
        elif plain in _LAST and isinstance(value, bool):
            result[name] = True
        elif plain in _NEXT:
            result[name] = None
        elif plain in _TOTALS and _is_integer(value):
            result[name] = 0
        elif plain in _METADATA:
            result[name] = as_only_page(value, depth + 1)
    return result


def _has_more(body: Any, depth: int = 0) -> bool | None:
    if not isinstance(body, Mapping) or depth > _MAX_DEPTH:
        return None
    for name, value in body.items():
        plain = name.lower()
        if plain in _MORE and isinstance(value, bool):
            return value
        if plain in _LAST and isinstance(value, bool):
            return not value
        if plain in _NEXT and (value is None or isinstance(value, str | int | Mapping)):
            return bool(value)
    for name, value in body.items():
        if name.lower() in _METADATA:
            has_more = _has_more(value, depth + 1)
            if has_more is not None:
                return has_more
    return None


def _total(body: Any, count: int) -> int | None:
    """Return the number of records on all pages, if the answer states it."""
    totals = [n for name, n in _counts(body) if name not in _PAGE_COUNTS or n > count]
    return max(totals, default=None)


def _counts(body: Any, depth: int = 0) -> list[tuple[str, int]]:
    if not isinstance(body, Mapping) or depth > _MAX_DEPTH:
        return []
    counts: list[tuple[str, int]] = []
    for name, value in body.items():
        if name.lower() in _TOTALS and _is_integer(value):
            counts.append((name.lower(), value))
        elif name.lower() in _METADATA:
            counts += _counts(value, depth + 1)
    return counts


def _records_before(query: ListQuery, count: int) -> int:
    if query.offset is not None:
        return query.offset
    return ((query.page or 1) - 1) * (query.limit or count)


def _rank(value: Any) -> float | str | None:
    """Return a value by which records can be sorted."""
    time = parse_time(value)
    if time is not None:
        return time
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return value.lower() if isinstance(value, str) else float(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
