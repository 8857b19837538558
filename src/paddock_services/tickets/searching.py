"""search and users/search."""

from __future__ import annotations

from paddock_services.tickets.asked import Answer, Asked
from paddock_services.tickets.desk import COMMENTS, TICKETS, USERS, Desk, DeskError, Document
from paddock_services.tickets.pages import Listing, page_of
from paddock_services.tickets.query import MAX_QUERY, Query
from paddock_services.tickets.shown import shown_ticket, shown_user

_MAX_RESULTS = 1000
_ORDERS = ("created_at", "updated_at", "priority", "status", "ticket_type")


def search(asked: Asked) -> Answer:
    desk, found = asked.desk, _found(asked)
    by_id = {f"{kind}/{one['id']}": (kind, one) for kind, one in found[:_MAX_RESULTS]}

    def show(id: str) -> Document:
        kind, one = by_id[id]
        shown = shown_ticket(desk, one) if kind == "ticket" else shown_user(desk, one)
        return {**shown, "result_type": kind}

    answer = page_of(Listing("results", list(by_id), show, desk.link("search")), asked.params)
    if "count" in answer:
        answer |= {"count": len(found), "facets": None}
    return 200, answer


def search_count(asked: Asked) -> Answer:
    return 200, {"count": len(_found(asked))}


def search_users(asked: Asked) -> Answer:
    desk, text = asked.desk, asked.params.get("query", "")
    query = Query.parse(text, lambda _: set())
    outside = asked.params.get("external_id")
    found = {
        str(user["id"]): user
        for user in desk.recent(USERS)
        if (user["external_id"] == outside if outside else query.fits_user(user, desk.now()))
    }
    listing = Listing("users", list(found), lambda id: shown_user(desk, found[id]),
                      desk.link("users/search"))  # fmt: skip
    return 200, page_of(listing, asked.params)


def _found(asked: Asked) -> list[tuple[str, Document]]:
    text = asked.params.get("query", "")
    if not text.strip():
        raise DeskError(422, "invalid", "Query parameter is missing")
    if len(text) > MAX_QUERY:
        raise DeskError(422, "invalid", "The query is too long")
    desk, me = asked.desk, asked.author["id"]
    query = Query.parse(text, lambda name: {me} if name == "me" else _people(desk, name))
    found: list[tuple[str, Document]] = []
    if not query.types or "ticket" in query.types:
        found += [("ticket", one) for one in _tickets(desk, query)]
    if not query.types or "user" in query.types:
        people = desk.recent(USERS)
        found += [("user", one) for one in people if query.fits_user(one, desk.now())]
    return _ordered(asked, query, found)


def _tickets(desk: Desk, query: Query) -> list[Document]:
    comments: dict[int, str] = {}

    def said(ticket: int) -> str:
        if not comments:  # once for the whole search, and only where a word is looked for
            for comment in desk.recent(COMMENTS):
                id = comment["ticket_id"]
                comments[id] = f"{comments.get(id, '')}\n{comment['body'].lower()}"
        return comments.get(ticket, "")

    now = desk.now()
    return [one for one in desk.recent(TICKETS) if query.fits_ticket(one, said, now)]


def _people(desk: Desk, name: str) -> set[int]:
    if name.isdecimal():
        return {int(name)}
    found = [desk.user_by_email(name)] if "@" in name else desk.recent(USERS)
    return {one["id"] for one in found if one and ("@" in name or name in one["name"].lower())}


def _ordered(
    asked: Asked, query: Query, found: list[tuple[str, Document]]
) -> list[tuple[str, Document]]:
    by = asked.params.get("sort_by") or query.order_by
    if by not in _ORDERS:
        return found
    name = "type" if by == "ticket_type" else by
    is_up = asked.params.get("sort_order") == "asc" or query.is_ascending
    return sorted(found, key=lambda one: str(one[1].get(name) or ""), reverse=not is_up)
