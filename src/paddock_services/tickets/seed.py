"""The first state of a help desk: from a file, from generated data, or the default one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.world.service import Seed
from paddock_services.tickets.desk import (
    PRIORITIES,
    ROLES,
    STATUSES,
    TICKETS,
    TYPES,
    USERS,
    Desk,
    Document,
    ZendeskError,
)
from paddock_services.tickets.tickets import new_comment, new_ticket
from paddock_services.tickets.users import new_user

CUSTOMERS = "customers"  # generated people: the ones who ask
KINDS = (USERS, CUSTOMERS, TICKETS)
_DELETED = "gone_"  # how generated data names what has been deleted
_MAX_TEXT = 255
DEFAULT_SEED: Seed = {
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


class Seeder:
    """Fills an empty desk. Names, addresses and ids in the data become the ids of users."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._users: dict[str, Document] = {}

    def fill(self, data: Seed) -> None:
        # Where there are customers, the users are the staff.
        default_role = "agent" if data.get(CUSTOMERS) else "end-user"
        for user in data.get(USERS, ()):
            self._add_user(user, default_role)
        for customer in data.get(CUSTOMERS, ()):
            self._add_user(customer, "end-user")
        if all(user["role"] == "end-user" for user in self._users.values()):
            self._add_user({"name": "Agent", "email": "agent@example.com"}, "admin")
        for ticket in data.get(TICKETS, ()):
            self._add_ticket(ticket)

    def _add_user(self, data: Mapping[str, Any], role: str) -> None:
        email = str(data.get("email") or "").strip()
        fields: Document = {
            "role": data["role"] if data.get("role") in ROLES else role,
            "name": str(data.get("name") or email or "Unknown")[:_MAX_TEXT],
        }
        for name in ("phone", "notes"):
            if isinstance(data.get(name), str):
                fields[name] = data[name][:_MAX_TEXT]
        if data.get("id") is not None:
            fields["external_id"] = str(data["id"])[:_MAX_TEXT]
        try:
            user = new_user(self._desk, {**fields, "email": email or None})
        except ZendeskError:  # not an address, or a second user with it: messy data has both
            user = new_user(self._desk, fields)
        for key in (data.get("id"), email.lower(), user["id"], fields["name"].lower()):
            self._users.setdefault(str(key), user)

    def _add_ticket(self, data: Mapping[str, Any]) -> None:
        text = str(data.get("description") or data.get("body") or data.get("subject") or "-")
        requester = self._find_user(data.get("requester")) or self._any_user("end-user")
        id, now = self._ticket_id(data), self._desk.tick()
        created = str(data.get("created_at") or now)
        ticket = new_ticket(id, created, requester["id"], requester["id"], text)
        assignee = None
        if not str(data.get("assignee")).startswith(_DELETED):
            assignee = self._find_user(data.get("assignee"))
        external_id = data.get("external_id")
        if not external_id and isinstance(data.get("id"), str):
            external_id = data["id"]
        subject = str(data.get("subject") or text[:100])[:_MAX_TEXT]
        ticket |= {
            "subject": subject,
            "raw_subject": subject,
            "status": _choose(data.get("status"), STATUSES) or "new",
            "priority": _choose(data.get("priority"), PRIORITIES),
            "type": _choose(data.get("type"), TYPES),
            "tags": sorted({str(tag) for tag in data.get("tags") or ()}),
            "assignee_id": assignee["id"] if assignee else None,
            "updated_at": str(data.get("updated_at") or created),
            "external_id": str(external_id)[:_MAX_TEXT] if external_id else None,
        }
        new_comment(self._desk, ticket, requester, {"body": text}, created)
        for comment in data.get("comments") or ():
            author = self._find_user(comment.get("author")) or self._any_user("admin")
            new_comment(self._desk, ticket, author, dict(comment), self._desk.tick())
        self._desk.put_ticket(ticket)

    def _ticket_id(self, data: Mapping[str, Any]) -> int:
        for name in ("number", "id"):
            id = data.get(name)
            is_number = isinstance(id, int) and not isinstance(id, bool) and id > 0
            if is_number and not self._desk.store.has(TICKETS, str(id)):
                return int(id)  # type: ignore[arg-type]
        return self._desk.new_ticket_id()

    def _find_user(self, name: Any) -> Document | None:
        if name is None or name == "":
            return None
        key = str(name)
        if key.startswith(_DELETED) and key not in self._users:
            self._add_user({"id": key, "name": "Deleted user"}, "end-user")
        user = self._users.get(key) or self._users.get(key.lower())
        if user is None:
            raise InvalidInput(f"tickets: the seed has no user {name!r}")
        return user

    def _any_user(self, role: str) -> Document:
        users = list(self._users.values())
        return next((user for user in users if user["role"] == role), users[0])


def _choose(value: Any, choices: tuple[str, ...]) -> str | None:
    if value in (None, ""):
        return None
    if value not in choices:
        raise InvalidInput(f"tickets: {value!r} is none of {', '.join(choices)}")
    return str(value)
