"""A request to the help desk as its handlers see it, and lists in pages.

Zendesk pages in two ways: by number (`page`, `per_page`), as it always did, and by cursor
(`page[size]`, `page[after]`), as it recommends now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode

from paddock.world.kit import (
    Call,
    InvalidCursor,
    Reply,
    cursor_page,
    decode_cursor,
    encode_cursor,
    numbered_page,
    whole_number,
)
from paddock_services.tickets.desk import Desk, Document, ZendeskError

_MAX_PAGE = 100


class ZendeskCall:
    """One request, and the help desk that it is for."""

    def __init__(self, desk: Desk, call: Call) -> None:
        self.desk = desk
        self.author = desk.user(call.user)  # the agent who calls
        self.params = call.params
        self.query = call.query
        self.body = call.json_object()
        self._path = call.path.removeprefix("/api/v2/").removesuffix(".json")

    def part(self, name: str) -> Document:
        """Return the object of the body that has this name."""
        part = self.body.get(name)
        if not isinstance(part, dict):
            raise ZendeskError(400, "RequiredParameterMissing", f"Parameter {name} is required")
        return part

    def page(self, name: str, ids: Sequence[str], show: Callable[[str], Document]) -> Document:
        """Return one page of a list. Only the documents of the page are read."""
        if any(parameter.startswith("page[") for parameter in self.query):
            return self._cursor_page(name, ids, show)
        number = self._number("page", 1)
        page = numbered_page(ids, number, self._size("per_page"))
        return {
            name: [show(id) for id in page.items],
            "next_page": self._url(page=number + 1) if number < page.last else None,
            "previous_page": self._url(page=number - 1) if number > 1 else None,
            "count": page.total,
        }

    def _cursor_page(
        self, name: str, ids: Sequence[str], show: Callable[[str], Document]
    ) -> Document:
        cursor = self.query.get("page[after]")
        try:
            after = decode_cursor(cursor) if cursor else None
            page = cursor_page(ids, self._size("page[size]"), after=after)
        except InvalidCursor:
            raise ZendeskError(400, "InvalidPaginationParameter", "Invalid cursor") from None
        last = encode_cursor(page.items[-1]) if page.items else None
        following = {"page[after]": last}
        return {
            name: [show(id) for id in page.items],
            "meta": {"has_more": page.has_next, "after_cursor": last, "before_cursor": None},
            "links": {"next": self._url(**following) if page.has_next else None, "prev": None},
        }

    def _size(self, name: str) -> int:
        return min(self._number(name, _MAX_PAGE), _MAX_PAGE)

    def _number(self, name: str, default: int) -> int:
        text = self.query.get(name)
        number = whole_number(text) if text else default
        if number is None:
            raise ZendeskError(400, "InvalidPaginationParameter", "Invalid page parameter")
        return max(1, number)

    def _url(self, **changes: object) -> str:
        return f"{self.desk.url(self._path)}?{urlencode({**self.query, **changes})}"


Handler = Callable[[ZendeskCall], Reply]
Routes = Mapping[str, Handler]  # by method and path below /api/v2/
