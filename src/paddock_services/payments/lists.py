"""Lists: pages, newest first, with filters by field and by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from paddock_services.payments.books import NOUNS, Books
from paddock_services.payments.errors import Refusal, missing
from paddock_services.payments.params import Params
from paddock_services.payments.routes import Asked, Handler

PAGING = frozenset({"limit", "starting_after", "ending_before"})
MOST = 100
_USUAL = 10
_AT_ONCE = 200  # documents that are looked at together, where a filter needs a look
_BOUNDS = ("gt", "gte", "lt", "lte")
Where = Mapping[str, Any]
Keeps = Callable[[Mapping[str, Any]], bool]


class Page(msgspec.Struct, frozen=True):
    """What part of a list is wanted."""

    limit: int = _USUAL
    after: str | None = None
    before: str | None = None


def page_of(params: Params) -> Page:
    limit = params.whole("limit")
    if limit is not None and not 1 <= limit <= MOST:
        message = f"This value must be between 1 and {MOST}."
        raise Refusal(message, code="parameter_invalid_integer", param="limit")
    after, before = params.filled("starting_after"), params.filled("ending_before")
    if after and before:
        message = "starting_after and ending_before cannot be given together."
        raise Refusal(message, param="ending_before")
    return Page(limit or _USUAL, after, before)


def listing(
    kind: str, *fields: str, keeps: Callable[[Params], Keeps | None] | None = None
) -> Handler:
    """A handler that lists a kind. `fields` are parameters that filter by the field of that name;
    `keeps` makes a filter of other parameters."""

    def handler(books: Books, asked: Asked) -> dict[str, Any]:
        params = asked.params
        where = {name: params.filled(name) for name in fields if name in params}
        for name, value in where.items():
            _check_named(books, name, value)
        extra = keeps(params) if keeps is not None else None
        return answer(books, asked, kind, where, extra)

    return handler


def answer(
    books: Books, asked: Asked, kind: str, where: Where, keeps: Keeps | None = None
) -> dict[str, Any]:
    """The list object for a request."""
    between = _between(asked.params)
    tests = [one for one in (keeps, between) if one is not None]
    page = page_of(asked.params)
    found, has_more = _found(books, kind, {**where, "deleted": None}, page, tests)
    return list_object(asked.path, found, has_more)


def list_object(path: str, data: list[Any], has_more: bool = False) -> dict[str, Any]:
    return {"object": "list", "data": data, "has_more": has_more, "url": path}


def _found(
    books: Books, kind: str, where: Where, page: Page, tests: list[Keeps]
) -> tuple[list[Any], bool]:
    for cursor, name in ((page.after, "starting_after"), (page.before, "ending_before")):
        if cursor is not None and not books.store.has(kind, cursor):
            raise missing(NOUNS[kind], cursor[:200], name)
    wanted = page.limit + 1
    documents = _walk(books, kind, where, page, wanted if not tests else _AT_ONCE)
    found: list[Any] = []
    for document in documents:
        if all(test(document) for test in tests):
            found.append(document)
            if len(found) == wanted:
                break
    data = found[: page.limit]
    return (data[::-1] if page.before else data), len(found) > page.limit


def _walk(
    books: Books, kind: str, where: Where, page: Page, at_once: int
) -> Iterator[dict[str, Any]]:
    cursor, newest_first = page.before or page.after, page.before is None
    while True:
        part = books.store.find(kind, where, limit=at_once, after=cursor, newest_first=newest_first)
        yield from part
        if len(part) < at_once:
            return
        cursor = part[-1]["id"]


def _between(params: Params) -> Keeps | None:
    """`created=123` and `created[gte]=123`."""
    if "created" not in params:
        return None
    if not isinstance(params.given["created"], dict):
        exact = params.whole("created")
        return lambda document: exact is None or document.get("created") == exact
    table = params.table("created")
    table.refuse_unknown(_BOUNDS)
    above, least, below, most = (table.whole(name) for name in _BOUNDS)

    def keeps(document: Mapping[str, Any]) -> bool:
        created = document.get("created") or 0
        return (
            (above is None or created > above)
            and (least is None or created >= least)
            and (below is None or created < below)
            and (most is None or created <= most)
        )

    return keeps


def _check_named(books: Books, name: str, value: str | None) -> None:
    """A filter that names something that is not there is an error, not an empty list."""
    kind = {"customer": "customers", "payment_intent": "payment_intents", "charge": "charges"}
    if name in kind and value is not None:
        books.named(kind[name], value, name)
