"""Fills a help desk: from a file, from generated tickets and customers, or as usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.world.service import Seed
from paddock_services.tickets.changes import MAX_TEXT, add_comment, new_ticket
from paddock_services.tickets.desk import (
    PRIORITIES,
    ROLES,
    STATUSES,
    TICKETS,
    TYPES,
    USERS,
    Desk,
    DeskError,
    Document,
)
from paddock_services.tickets.people import new_user

CUSTOMERS = "customers"  # generated people: the ones who ask
_GONE = "gone_"  # how generated data refers to what has been deleted
KINDS = (USERS, CUSTOMERS, TICKETS)
USUAL: Seed = {
    USERS: [
        {"name": "Ada Okafor", "email": "ada@example.com", "role": "admin"},
        {"name": "Ben Lindqvist", "email": "ben@example.com", "role": "agent"},
        {"name": "Mia Fernandez", "email": "mia@customer.example"},
        {"name": "Tom Baker", "email": "tom@customer.example"},
    ],
    TICKETS: [
        {"subject": "Charged twice", "requester": "mia@customer.example", "priority": "high",
         "description": "My card shows the same amount two times. Please refund one of them."},
        {"subject": "Where is my order?", "requester": "tom@customer.example", "status": "open",
         "assignee": "ben@example.com", "description": "Order 1042 has not arrived.",
         "comments": [{"author": "ben@example.com", "body": "I am looking into it."}]},
        {"subject": "Wrong size", "requester": "mia@customer.example", "status": "pending",
         "assignee": "ada@example.com", "description": "I would like to change it."},
        {"subject": "Invoice for May", "requester": "tom@customer.example", "status": "closed",
         "assignee": "ada@example.com", "description": "Please send it again."},
    ],
}  # fmt: skip


class Seeding:
    """Names and addresses of the file become numbers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._people: dict[str, Document] = {}

    def fill(self, data: Seed) -> None:
        users = data.get(USERS, ())
        for given in users:
            # Beside customers, the users are the staff.
            self._person(given, "agent" if data.get(CUSTOMERS) else "end-user")
        for given in data.get(CUSTOMERS, ()):
            self._person(given, "end-user")
        if not any(user["role"] != "end-user" for user in self._people.values()):
            self._person({"name": "Agent", "email": "agent@example.com"}, "admin")
        for given in data.get(TICKETS, ()):
            self._ticket(given)

    def _person(self, given: Mapping[str, Any], role: str) -> None:
        wanted: Document = {"role": given["role"] if given.get("role") in ROLES else role}
        email = str(given.get("email") or "").strip()
        known = self._desk.user_by_email(email)
        wanted["name"] = str(given.get("name") or email or "Unknown")[:255]
        for name in ("phone", "notes"):
            if isinstance(given.get(name), str):
                wanted[name] = given[name][:255]
        if given.get("id") is not None:
            wanted["external_id"] = str(given["id"])[:255]
        if email and known is None:
            wanted["email"] = email
        try:
            user = new_user(self._desk, wanted)
        except DeskError:  # an address that is none; messy data has those on purpose
            user = new_user(self._desk, {**wanted, "email": None})
        names = (str(given.get("id")), email.lower(), str(user["id"]), wanted["name"].lower())
        for name in names:
            self._people.setdefault(name, user)

    def _ticket(self, given: Mapping[str, Any]) -> None:
        text = str(given.get("description") or given.get("body") or given.get("subject") or "-")
        requester = self._known(given.get("requester"), "requester") or self._anybody("end-user")
        number, now = self._number(given), self._desk.tick()
        created = str(given.get("created_at") or now)
        ticket = new_ticket(number, created, requester["id"], requester["id"], text)
        is_gone = str(given.get("assignee")).startswith(_GONE)
        assignee = None if is_gone else self._known(given.get("assignee"), "assignee")
        ticket |= {
            "subject": str(given.get("subject") or text[:100])[:255],
            "status": _one_of(given.get("status"), STATUSES) or "new",
            "priority": _one_of(given.get("priority"), PRIORITIES),
            "type": _one_of(given.get("type"), TYPES),
            "tags": sorted({str(tag) for tag in given.get("tags") or ()}),
            "assignee_id": assignee["id"] if assignee else None,
            "updated_at": str(given.get("updated_at") or created),
            "external_id": _outside(given),
        }
        ticket["raw_subject"] = ticket["subject"]
        self._desk.store.put(TICKETS, str(number), ticket)
        add_comment(self._desk, ticket, requester, {"body": text[:MAX_TEXT]}, created)
        for comment in given.get("comments") or ():
            author = self._known(comment.get("author"), "author") or self._anybody("admin")
            add_comment(self._desk, ticket, author, dict(comment), self._desk.tick())
        if ticket["status"] == "closed":
            self._desk.close(ticket)

    def _number(self, given: Mapping[str, Any]) -> int:
        for name in ("number", "id"):
            value = given.get(name)
            is_number = isinstance(value, int) and not isinstance(value, bool) and value > 0
            if is_number and not self._desk.store.has(TICKETS, str(value)):
                return int(value)  # type: ignore[arg-type]
        return self._desk.new_ticket_number()

    def _known(self, name: Any, what: str) -> Document | None:
        if name is None or name == "":
            return None
        if str(name).startswith(_GONE) and str(name) not in self._people:
            self._person({"id": name, "name": "Deleted user"}, "end-user")
        found = self._people.get(str(name)) or self._people.get(str(name).lower())
        if found is None:
            raise InvalidInput(f"tickets: the seed has no {what} {name!r}")
        return found

    def _anybody(self, role: str) -> Document:
        people = self._people.values()
        fallback = next(iter(people))
        return next((user for user in people if user["role"] == role), fallback)


def _one_of(value: Any, known: tuple[str, ...]) -> str | None:
    if value in (None, ""):
        return None
    if value not in known:
        raise InvalidInput(f"tickets: {value!r} is none of {', '.join(known)}")
    return str(value)


def _outside(given: Mapping[str, Any]) -> str | None:
    id = given.get("external_id") or (given.get("id") if isinstance(given.get("id"), str) else None)
    return None if id is None else str(id)[:255]
