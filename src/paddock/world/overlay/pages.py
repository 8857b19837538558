"""One page of a list: whether it is the first or the last, in which order it is, where a new
record belongs, and which numbers of the envelope count records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.world.overlay.list_query import ListQuery
from paddock.world.overlay.times import is_created, moment

_MORE = frozenset({"has_more", "hasmore", "has_next", "hasnextpage", "hasnext", "more"})
_NEXT = frozenset({"next", "next_page", "nextpage", "next_cursor", "nextcursor", "next_page_token",
                   "nextpagetoken", "next_url", "next_token", "nexttoken"})  # fmt: skip
_LAST = frozenset({"last", "islast", "is_last", "islastpage"})
_TOTALS = frozenset({"total", "total_count", "totalcount", "count", "total_results", "totalresults",
                     "totalitems", "total_items", "totalelements", "total_entries", "totalhits",
                     "total_records", "recordcount", "size", "numberofelements"})  # fmt: skip
_OF_PAGE = frozenset({"count", "size", "numberofelements"})
_AROUND = frozenset({"meta", "pagination", "paging", "page", "page_info", "pageinfo", "_meta",
                     "links", "_links", "response_metadata", "cursor"})  # fmt: skip
TOTAL_HEADERS = frozenset({b"x-total-count", b"x-total", b"total-count"})


def is_last(asked: ListQuery, body: Any, count: int, link: str) -> bool:
    """By what the answer says of a next page, else by its length. An empty page after the first
    is never the last, unless the answer says so: who reads until a page is empty must find one."""
    said = _more(body)
    if said is None and link:
        said = 'rel="next"' in link or "rel=next" in link
    if said is not None:
        return not said
    total = total_of(body, count)
    if total is not None and total >= count:
        return _before(asked, count) + count >= total and (count > 0 or asked.is_first)
    if asked.limit is not None:
        return count < asked.limit and (count > 0 or asked.is_first)
    return asked.is_first or count > 0


def order_of(items: Sequence[Any]) -> tuple[str, bool] | None:
    """The field that the list is sorted by and whether the newest is the first: by the times of
    creation, else by ids that are numbers. None: it cannot be seen."""
    records = [item for item in items if isinstance(item, Mapping)]
    if len(records) < 2:
        return None
    for name in (*(name for name in records[0] if is_created(name)), "id", "number"):
        values = [_rank(record.get(name)) for record in records]
        numbers = [value for value in values if isinstance(value, float)]
        if len(numbers) < len(records) or numbers[0] == numbers[-1]:
            continue
        if numbers == sorted(numbers):
            return name, False
        if numbers == sorted(numbers, reverse=True):
            return name, True
    return None


def place(
    items: Sequence[Any], record: Mapping[str, Any], field: str, is_descending: bool
) -> int | None:
    """Where it belongs in a list that is sorted by a field; None when that cannot be said."""
    mine = _rank(record.get(field))
    for at, item in enumerate(items):
        other = _rank(item.get(field)) if isinstance(item, Mapping) else None
        if mine is None or other is None or type(mine) is not type(other):
            return None
        if (mine > other) if is_descending else (mine < other):  # type: ignore[operator]
            return at
    return len(items)


def sort_field(asked: ListQuery, items: Sequence[Any]) -> str | None:
    """The field that is meant by `sort=created` or `sort=created_at`."""
    first: Mapping[str, Any] | None = next((one for one in items if isinstance(one, Mapping)), None)
    if asked.sort is None or first is None:
        return None
    wanted = asked.sort.lower().replace("_", "")
    for name in first:
        plain = name.lower().replace("_", "")
        if plain in (wanted, wanted + "at", wanted + "on", wanted + "date"):
            return name
    return None


def total_of(body: Any, count: int) -> int | None:
    """How many records there are on all pages, if the answer says."""
    found = [value for name, value in _numbers(body) if name not in _OF_PAGE or value > count]
    return max(found, default=None)


def counted(body: Any, before: int, after: int, change: int, keys: Sequence[str] = ()) -> Any:
    """The envelope with its numbers put right: those of this page and those of all pages."""
    if not isinstance(body, Mapping):
        return body
    result = dict(body)
    for name, value in body.items():
        plain = name.lower()
        if plain in _TOTALS and isinstance(value, int) and not isinstance(value, bool):
            is_page = plain in _OF_PAGE and value == before
            result[name] = after if is_page else max(0, value + change)
        elif (plain in _AROUND or (keys and name == keys[0])) and isinstance(value, Mapping):
            result[name] = counted(value, before, after, change, keys[1:])
    return result


def _more(body: Any, depth: int = 0) -> bool | None:
    if not isinstance(body, Mapping) or depth > 2:
        return None
    for name, value in body.items():
        plain = name.lower()
        if plain in _MORE and isinstance(value, bool):
            return value
        if plain in _LAST and isinstance(value, bool):
            return not value
        if plain in _NEXT and (value is None or isinstance(value, str | int | Mapping)):
            return bool(value)
    inner = [value for name, value in body.items() if name.lower() in _AROUND]
    return next((said for value in inner if (said := _more(value, depth + 1)) is not None), None)


def _numbers(body: Any, depth: int = 0) -> list[tuple[str, int]]:
    if not isinstance(body, Mapping) or depth > 2:
        return []
    found = [
        (name.lower(), value)
        for name, value in body.items()
        if name.lower() in _TOTALS and isinstance(value, int) and not isinstance(value, bool)
    ]
    for name, value in body.items():
        if name.lower() in _AROUND:
            found += _numbers(value, depth + 1)
    return found


def _before(asked: ListQuery, count: int) -> int:
    if asked.offset is not None:
        return asked.offset
    return ((asked.page or 1) - 1) * (asked.limit or count)


def _rank(value: Any) -> float | str | None:
    at = moment(value)
    if at is not None:
        return at
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return value.lower() if isinstance(value, str) else float(value)


def without_more(body: Any, depth: int = 0) -> Any:
    """The envelope of the only page, with nothing counted."""
    if not isinstance(body, Mapping) or depth > 2:
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
        elif plain in _TOTALS and isinstance(value, int) and not isinstance(value, bool):
            result[name] = 0
        elif plain in _AROUND:
            result[name] = without_more(value, depth + 1)
    return result
