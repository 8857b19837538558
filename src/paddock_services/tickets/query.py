"""The words of a search: `type:ticket status<solved requester:ada@example.com refund`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from paddock_services.tickets.desk import PRIORITIES, STATUSES, Document

MAX_QUERY = 2000
_TERM = re.compile(r'(-?)(?:([a-z_]+)(:|<=|>=|<|>))?("[^"]*"|\S+)', re.IGNORECASE)
_AGO = re.compile(r"(\d{1,6})(minute|hour|day|week|month|year)s?")
_UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000,
          "year": 31_536_000}  # fmt: skip
_DATES = {"created": "created_at", "updated": "updated_at", "solved": "updated_at",
          "due_date": "due_at"}  # fmt: skip
_ORDERED = {"status": STATUSES, "priority": PRIORITIES}
_PEOPLE = {"requester": "requester_id", "assignee": "assignee_id", "submitter": "submitter_id"}


class Term(msgspec.Struct, frozen=True):
    """One word, or one condition on a field."""

    field: str
    relation: str
    value: str
    is_negated: bool


class Query(msgspec.Struct, frozen=True):
    """What is asked for."""

    types: frozenset[str]
    terms: tuple[Term, ...]
    order_by: str = ""
    is_ascending: bool = False
    people: dict[str, set[int]] = {}  # ids for the names in the terms

    @classmethod
    def parse(cls, text: str, find_people: Callable[[str], set[int]]) -> Query:
        types, terms, order, direction = set(), [], "", ""
        people: dict[str, set[int]] = {}
        for minus, name, relation, value in _TERM.findall(text[:MAX_QUERY]):
            name, value = name.lower(), value.strip('"').lower()
            if name == "type":
                types.add(value)
            elif name == "order_by":
                order = value
            elif name == "sort":
                direction = value
            else:
                terms.append(Term(name, relation, value, bool(minus)))
                if name in _PEOPLE:
                    people[value] = find_people(value)
        return cls(frozenset(types), tuple(terms), order, direction == "asc", people)

    def fits_ticket(self, ticket: Document, said: Callable[[int], str], now: str) -> bool:
        """`said` gives all comments of a ticket as one text."""
        return self._fits(lambda term: self._about_ticket(term, ticket, said, now))

    def fits_user(self, user: Document, now: str) -> bool:
        return self._fits(lambda term: _about_user(term, user, now))

    def _fits(self, holds: Callable[[Term], bool]) -> bool:
        # Several values for one field are alternatives; everything else must hold together.
        alternatives: dict[str, bool] = {}
        for term in self.terms:
            if term.field and term.relation == ":" and not term.is_negated:
                alternatives[term.field] = alternatives.get(term.field, False) or holds(term)
            elif holds(term) == term.is_negated:
                return False
        return all(alternatives.values())

    def _about_ticket(
        self, term: Term, ticket: Document, said: Callable[[int], str], now: str
    ) -> bool:
        match term.field:
            case "":
                return self._has_word(term.value, ticket, said)
            case "subject" | "description":
                return term.value.strip("*") in ticket[term.field].lower()
            case "comment":
                return term.value.strip("*") in said(ticket["id"])
            case "tags":
                return term.value in ticket["tags"] or (term.value == "none" and not ticket["tags"])
            case "status" | "priority":
                return _ranked(term, ticket[term.field])
            case "ticket_type":
                return (ticket["type"] or "none") == term.value
            case "requester" | "assignee" | "submitter":
                return self._is_person(term, ticket[_PEOPLE[term.field]])
            case "created" | "updated" | "solved" | "due_date":
                return _dated(term, ticket[_DATES[term.field]], now)
            case "external_id" | "group_id" | "organization_id":
                return str(ticket[term.field]).lower() == term.value
            case _:
                return False

    def _is_person(self, term: Term, id: int | None) -> bool:
        return id is None if term.value == "none" else id in self.people[term.value]

    def _has_word(self, word: str, ticket: Document, said: Callable[[int], str]) -> bool:
        word = word.strip("*")
        text = f"{ticket['subject']}\n{ticket['description']}\n{' '.join(ticket['tags'])}".lower()
        return word in text or word == str(ticket["id"]) or word in said(ticket["id"])


def _about_user(term: Term, user: Document, now: str) -> bool:
    match term.field:
        case "":
            texts = (user["name"], user["email"] or "", user["phone"] or "", user["notes"] or "")
            return any(term.value.strip("*") in text.lower() for text in texts)
        case "name" | "email" | "phone" | "notes" | "details" | "external_id":
            return term.value.strip("*") in str(user[term.field] or "").lower()
        case "role":
            return bool(user["role"] == term.value)
        case "created" | "updated":
            return _dated(term, user[_DATES[term.field]], now)
        case _:
            return False


def _ranked(term: Term, value: str | None) -> bool:
    order = _ORDERED[term.field]
    if term.value not in order:
        return term.value == "none" and value is None
    return value is not None and _compare(
        order.index(value), term.relation, order.index(term.value)
    )


def _dated(term: Term, value: str | None, now: str) -> bool:
    if not value:
        return term.value == "none"
    wanted = _moment(term.value, now)
    return _compare(value[: len(wanted)], term.relation, wanted)


def _moment(text: str, now: str) -> str:
    ago = _AGO.fullmatch(text)
    if ago is None:
        return text.upper()
    seconds = min(int(ago[1]) * _UNITS[ago[2]], 50 * _UNITS["year"])
    then = datetime.fromisoformat(now) - timedelta(seconds=seconds)
    return then.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _compare(left: Any, relation: str, right: Any) -> bool:
    match relation:
        case "<":
            return bool(left < right)
        case ">":
            return bool(left > right)
        case "<=":
            return bool(left <= right)
        case ">=":
            return bool(left >= right)
        case _:
            return bool(left == right)
