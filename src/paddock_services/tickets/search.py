"""Search: `type:ticket status<solved requester:ada@example.com refund`.

Several values for one field are alternatives (`status:open status:pending`); everything else must
hold together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from paddock.world.kit import Reply, Term, compare, iso_timestamp, parse_terms
from paddock_services.tickets.call import Routes, ZendeskCall
from paddock_services.tickets.desk import (
    COMMENTS,
    PRIORITIES,
    STATUSES,
    TICKETS,
    USERS,
    Desk,
    Document,
    ZendeskError,
)

MAX_QUERY = 2000
_MAX_RESULTS = 1000
_ORDERS = ("created_at", "updated_at", "priority", "status", "ticket_type")
_RANKS = {"status": STATUSES, "priority": PRIORITIES}
_DATES = {"created": "created_at", "updated": "updated_at", "due_date": "due_at"}
_PEOPLE = {"requester": "requester_id", "assignee": "assignee_id", "submitter": "submitter_id"}
_TICKET_TEXTS = ("subject", "description")
_USER_TEXTS = ("name", "email", "phone", "notes", "details", "external_id")
_AGE = re.compile(r"(\d{1,6})(minute|hour|day|week|month|year)s?")
_UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000,
          "year": 31_536_000}  # fmt: skip
Matcher = Callable[[Term, Document], bool]


def search(call: ZendeskCall) -> Reply:
    text = call.query.get("query", "")
    if not text.strip():
        raise ZendeskError(422, "invalid", "Query parameter is missing")
    if len(text) > MAX_QUERY:
        raise ZendeskError(422, "invalid", "The query is too long")
    desk, terms = call.desk, parse_terms(text.lower())
    types = {term.value for term in terms if term.field == "type"} or {"ticket", "user"}
    options = {term.field: term.value for term in terms if term.field in ("order_by", "sort")}
    terms = [term for term in terms if term.field not in ("type", "order_by", "sort")]
    results: dict[str, Document] = {}
    if "ticket" in types:
        matcher = _TicketMatcher(call)
        for ticket in desk.recent(TICKETS):
            if _holds(terms, ticket, matcher.matches):
                results[f"ticket/{ticket['id']}"] = ticket
    if "user" in types:
        for user in _search_users(desk, terms):
            results[f"user/{user['id']}"] = user
    ids = _sort(call, results, options)

    def show(id: str) -> Document:
        kind = id.partition("/")[0]
        is_ticket = kind == "ticket"
        shown = desk.show_ticket(results[id]) if is_ticket else desk.show_user(results[id])
        return {**shown, "result_type": kind}

    page = call.page("results", ids[:_MAX_RESULTS], show)
    if "count" in page:
        page["count"] = len(ids)
    return Reply(page)


def search_users(call: ZendeskCall) -> Reply:
    external_id = call.query.get("external_id")
    if external_id:
        users = call.desk.store.find(USERS, {"external_id": external_id})
    else:
        users = _search_users(call.desk, parse_terms(call.query.get("query", "").lower()))
    by_id = {str(user["id"]): user for user in users}
    return Reply(call.page("users", list(by_id), lambda id: call.desk.show_user(by_id[id])))


ROUTES: Routes = {
    "GET search": search,
    "GET users/search": search_users,
}


def _holds(terms: list[Term], document: Document, matches: Matcher) -> bool:
    alternatives: dict[str, bool] = {}
    for term in terms:
        is_match = matches(term, document)
        if term.relation == ":" and not term.is_negated:
            alternatives[term.field] = alternatives.get(term.field, False) or is_match
        elif is_match == term.is_negated:
            return False
    return all(alternatives.values())


class _TicketMatcher:
    """Says whether a term holds for a ticket."""

    def __init__(self, call: ZendeskCall) -> None:
        self._desk = call.desk
        self._me = call.author["id"]
        self._comments: dict[int, str] | None = None  # all comments of a ticket as one text
        self._people: dict[str, set[int]] = {}  # ids by the name in a term

    def matches(self, term: Term, ticket: Document) -> bool:
        field, value = term.field, term.value.strip("*")
        if field in _PEOPLE:
            id = ticket[_PEOPLE[field]]
            return id is None if value == "none" else id in self._find_people(value)
        if field in _RANKS:
            return _compare_rank(term, ticket[field])
        if field in _DATES:
            return _compare_date(term, ticket[_DATES[field]], self._desk)
        match field:
            case "":
                texts = [ticket["subject"], ticket["description"], *ticket["tags"]]
                is_in_ticket = value in "\n".join(texts).lower() or value == str(ticket["id"])
                return is_in_ticket or value in self._comment_text(ticket)
            case "subject" | "description":
                return value in ticket[field].lower()
            case "comment":
                return value in self._comment_text(ticket)
            case "tags":
                return value in (ticket["tags"] or ["none"])
            case "ticket_type":
                return value == (ticket["type"] or "none")
            case "external_id" | "group_id" | "organization_id":
                return value == str(ticket[field]).lower()
        return False

    def _comment_text(self, ticket: Document) -> str:
        if self._comments is None:  # read once for the whole search, and only if it is needed
            self._comments = {}
            for comment in self._desk.recent(COMMENTS):
                id = comment["ticket_id"]
                self._comments[id] = f"{self._comments.get(id, '')}\n{comment['body'].lower()}"
        return self._comments.get(ticket["id"], "")

    def _find_people(self, name: str) -> set[int]:
        """Return the ids of the users that a term means: by id, address or part of the name."""
        if name == "me":
            return {self._me}
        if name not in self._people:
            self._people[name] = {
                user["id"]
                for user in self._desk.recent(USERS)
                if name in (str(user["id"]), user["email"])
                or ("@" not in name and name in user["name"].lower())
            }
        return self._people[name]


def _search_users(desk: Desk, terms: list[Term]) -> list[Document]:
    def matches(term: Term, user: Document) -> bool:
        value = term.value.strip("*")
        if term.field == "role":
            return bool(user["role"] == value)
        if term.field in ("created", "updated"):
            return _compare_date(term, user[_DATES[term.field]], desk)
        if term.field and term.field not in _USER_TEXTS:
            return False
        fields = (term.field,) if term.field else _USER_TEXTS
        return any(value in str(user[field] or "").lower() for field in fields)

    return [user for user in desk.recent(USERS) if _holds(terms, user, matches)]


def _compare_rank(term: Term, value: str | None) -> bool:
    ranks = _RANKS[term.field]
    if value is None or term.value not in ranks:
        return value is None and term.value == "none"
    return compare(ranks.index(value), term.relation, ranks.index(term.value))


def _compare_date(term: Term, value: str | None, desk: Desk) -> bool:
    """Compare a date with one that is written in part (`2026-01`) or as an age (`4hours`)."""
    if not value:
        return term.value == "none"
    date = term.value.upper()
    age = _AGE.fullmatch(term.value)
    if age:
        seconds = min(int(age[1]) * _UNITS[age[2]], 50 * _UNITS["year"])
        date = iso_timestamp(desk.context.now() - seconds)
    return compare(value[: len(date)], term.relation, date)


def _sort(call: ZendeskCall, results: dict[str, Document], options: dict[str, str]) -> list[str]:
    order = call.query.get("sort_by") or options.get("order_by")
    if order not in _ORDERS:
        return list(results)
    field = "type" if order == "ticket_type" else order
    direction = call.query.get("sort_order") or options.get("sort")

    def key(id: str) -> Any:
        return str(results[id].get(field) or "")

    return sorted(results, key=key, reverse=direction != "asc")
