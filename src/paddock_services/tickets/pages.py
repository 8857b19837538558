"""Lists in pages: by number, as Zendesk always did, and by cursor, as it does now."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import msgspec

from paddock_services.tickets.desk import DeskError, Document

MAX_PAGE = 100


class Listing(msgspec.Struct, frozen=True):
    """Ids in order, and how to get what they stand for: only a page of it is read."""

    name: str
    ids: list[str]
    show: Callable[[str], Document]
    link: str


def page_of(listing: Listing, params: Mapping[str, str]) -> Document:
    """The page that the parameters ask for."""
    if any(name.startswith("page[") for name in params):
        return _by_cursor(listing, params)
    size, number = _size(params.get("per_page", "")), max(1, _whole(params.get("page", "1")))
    start, pages = (number - 1) * size, math.ceil(len(listing.ids) / size)
    shown = listing.ids[start : start + size]
    following = number + 1 if number < pages else 0
    return {
        listing.name: [listing.show(id) for id in shown],
        "next_page": _numbered(listing, params, following),
        "previous_page": _numbered(listing, params, number - 1),
        "count": len(listing.ids),
    }


def _by_cursor(listing: Listing, params: Mapping[str, str]) -> Document:
    size, start = _size(params.get("page[size]", "")), 0
    if after := params.get("page[after]"):
        start = _position(listing, after) + 1
    elif before := params.get("page[before]"):
        start = max(0, _position(listing, before) - size)
    shown = listing.ids[start : start + size]
    has_more = start + size < len(listing.ids)
    last, first = (_cursor(shown[-1]), _cursor(shown[0])) if shown else (None, None)
    return {
        listing.name: [listing.show(id) for id in shown],
        "meta": {"has_more": has_more, "after_cursor": last, "before_cursor": first},
        "links": {
            "next": _pointed(listing, params, "page[after]", last) if has_more else None,
            "prev": _pointed(listing, params, "page[before]", first) if start else None,
        },
    }


def _size(text: str) -> int:
    return min(max(1, _whole(text or str(MAX_PAGE))), MAX_PAGE)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise DeskError(400, "InvalidPaginationParameter", "Invalid page parameter")
    return int(text)


def _numbered(listing: Listing, params: Mapping[str, str], number: int) -> str | None:
    if number < 1:
        return None
    return f"{listing.link}?{urlencode({**params, 'page': str(number)})}"


def _pointed(listing: Listing, params: Mapping[str, str], name: str, at: str | None) -> str:
    kept = {n: v for n, v in params.items() if n not in ("page[after]", "page[before]")}
    return f"{listing.link}?{urlencode({**kept, name: at or ''})}"


def _cursor(id: str) -> str:
    return base64.urlsafe_b64encode(id.encode()).decode()


def _position(listing: Listing, cursor: str) -> int:
    try:
        return listing.ids.index(base64.urlsafe_b64decode(cursor).decode())
    except (binascii.Error, ValueError):
        raise DeskError(400, "InvalidPaginationParameter", "Invalid cursor") from None
