"""One page of a listing. APIs ask for it in one of two ways:

1. by number: `?page=3&per_page=20`. `numbered_page` cuts it out of the whole listing.
2. by cursor: an id that the client saw last, plain or in an opaque text. `cursor_page` works on a
   listing in memory, `store_page` reads no more of the store than it needs.

How a page is shown, and what its links are called, is the service's own affair.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from paddock.world.store import Store

T = TypeVar("T")
Document = dict[str, Any]
MAX_READ = 100_000  # documents that one listing looks at: other requests wait for it
_AT_ONCE = 200  # documents that a filtered listing reads from the store in one go


class InvalidCursor(Exception):
    """A cursor that no page of this listing gave out."""


class NumberedPage(msgspec.Struct, Generic[T], frozen=True):
    """A page with its number, from 1 on."""

    items: Sequence[T]
    number: int
    last: int  # number of the last page
    total: int  # items of all pages

    @property
    def neighbours(self) -> dict[str, int]:
        """Return the numbers of the pages that links lead to: `prev`, `next`, `last`, `first`."""
        pages = {}
        if self.number > 1:
            pages["prev"] = min(self.number - 1, self.last)
        if self.number < self.last:
            pages["next"] = self.number + 1
            pages["last"] = self.last
        if self.number > 1:
            pages["first"] = 1
        return pages


class CursorPage(msgspec.Struct, Generic[T], frozen=True):
    """A page, and whether there is something on either side of it."""

    items: Sequence[T]
    has_next: bool
    has_previous: bool


def numbered_page(items: Sequence[T], number: int, size: int) -> NumberedPage[T]:
    """Return the page with this number; one beyond the last is empty."""
    last = max(1, -(-len(items) // size))
    start = (number - 1) * size
    return NumberedPage(items[start : start + size], number, last, len(items))


def cursor_page(
    ids: Sequence[str], limit: int, *, after: str | None = None, before: str | None = None
) -> CursorPage[str]:
    """Return the ids that follow `after`, or those just before `before`. Raises InvalidCursor."""
    cursor = after if before is None else before
    if cursor is None:
        start = 0
    elif cursor not in ids:
        raise InvalidCursor(cursor)
    elif before is None:
        start = ids.index(cursor) + 1
    else:
        end = ids.index(cursor)
        start = max(0, end - limit)
        limit = end - start
    page = ids[start : start + limit]
    return CursorPage(page, start + limit < len(ids), start > 0)


def store_page(
    store: Store,
    kind: str,
    limit: int,
    *,
    where: Mapping[str, Any] | None = None,
    is_wanted: Callable[[Document], bool] | None = None,
    after: str | None = None,
    before: str | None = None,
    max_read: int = MAX_READ,
) -> CursorPage[Document]:
    """Return documents of a kind, newest first: the ones older than `after`, or those just newer
    than `before`. It gives up after `max_read` documents, as if there were no more. Raises
    InvalidCursor for an id that is not there."""
    cursor = after if before is None else before
    if cursor is not None and not store.has(kind, cursor):
        raise InvalidCursor(cursor)
    at_once = limit + 1 if is_wanted is None else _AT_ONCE
    documents: list[Document] = []
    walk = _walk(store, kind, where, cursor, at_once, newest_first=before is None)
    for document in islice(walk, max_read):
        if is_wanted is None or is_wanted(document):
            documents.append(document)
        if len(documents) > limit:
            break
    has_more = len(documents) > limit
    page = documents[:limit]
    if before is None:
        return CursorPage(page, has_more, cursor is not None)
    return CursorPage(page[::-1], True, has_more)


def _walk(
    store: Store,
    kind: str,
    where: Mapping[str, Any] | None,
    cursor: str | None,
    at_once: int,
    *,
    newest_first: bool,
) -> Iterator[Document]:
    while True:
        part = store.find(kind, where, limit=at_once, after=cursor, newest_first=newest_first)
        yield from part
        if len(part) < at_once:
            return
        cursor = part[-1]["id"]


def encode_cursor(id: str, listing: str = "") -> str:
    """Return an opaque cursor that leads on from an id in a listing of this name."""
    return base64.urlsafe_b64encode(f"{listing}:{id}".encode()).decode()


def decode_cursor(cursor: str, listing: str = "") -> str:
    """Return the id in a cursor. Raises InvalidCursor for one of another listing or of nobody."""
    try:
        name, _, id = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
    except (binascii.Error, ValueError):
        raise InvalidCursor(cursor) from None
    if name != listing or not id:
        raise InvalidCursor(cursor)
    return id
