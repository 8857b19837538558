"""The help desk in the store: people, tickets, comments, and what became of them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from paddock.world.context import Context

Document = dict[str, Any]
USERS, TICKETS, COMMENTS, AUDITS = "users", "tickets", "comments", "audits"
CLOSURES = "closures"  # what a ticket was when it was closed: it stays that for ever
DELETED, FORMER_USERS = "deleted_tickets", "deleted_users"
STATUSES = ("new", "open", "pending", "hold", "solved", "closed")  # in the order of search
PRIORITIES = ("low", "normal", "high", "urgent")
TYPES = ("problem", "incident", "question", "task")
ROLES = ("end-user", "agent", "admin")
MAX_SEARCHED = 4000
_FIRST_ID = 360_000_000_000  # of everything but tickets, so that no id is taken for another


class DeskError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, error: str, description: str = "", details: Any = None) -> None:
        super().__init__(description or error)
        self.status = status
        self.body: Document = {"error": error}
        if description:
            self.body["description"] = description
        if details:
            self.body["details"] = details


def not_found() -> DeskError:
    return DeskError(404, "RecordNotFound", "Not found")


def invalid(field: str, text: str, error: str = "InvalidValue") -> DeskError:
    """A record that breaks a rule, and by which field."""
    title = field.replace("_", " ").capitalize()
    details = {field: [{"description": f"{title}: {text}", "error": error}]}
    return DeskError(422, "RecordInvalid", "Record validation errors", details)


class Desk:
    """One help desk."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self.store.index(COMMENTS, "ticket_id")
        self.store.index(AUDITS, "ticket_id")
        self.store.index(USERS, "email", "role")

    def now(self) -> str:
        return iso(self.context.now())

    def tick(self) -> str:
        return iso(self.context.tick())

    def new_number(self) -> int:
        return _FIRST_ID + self.store.next("number")

    def new_ticket_number(self) -> int:
        while True:  # a seed may have taken some
            number = self.store.next("ticket")
            if not self.store.has(TICKETS, str(number)) and not self.store.has(
                DELETED, str(number)
            ):
                return number

    def ticket(self, id: str) -> Document:
        return self._found(TICKETS, id)

    def user(self, id: Any) -> Document:
        return self._found(USERS, str(id))

    def user_by_email(self, email: str) -> Document | None:
        found = self.store.find(USERS, {"email": email.lower()}, limit=1)
        return found[0] if found else None

    def agent(self, email: str) -> Document:
        """Who is calling: the agent with that address, or the first one there is."""
        known = self.user_by_email(email) if email else None
        if known is not None and known["role"] == "end-user":
            raise DeskError(403, "Forbidden", "You do not have access to this page.")
        if known is not None:
            return known
        for role in ("admin", "agent"):
            if found := self.store.find(USERS, {"role": role}, limit=1):
                return found[0]
        raise DeskError(401, "Couldn't authenticate you")

    def recent(self, kind: str) -> list[Document]:
        """What a search looks at: the newest, so that others do not wait long for it."""
        return self.store.find(kind, limit=MAX_SEARCHED, newest_first=True)[::-1]

    def comments(self, ticket_id: int) -> list[Document]:
        return self.store.find(COMMENTS, {"ticket_id": ticket_id})

    def close(self, ticket: Document) -> None:
        """Notes what the ticket is, for ever."""
        id = str(ticket["id"])
        self.store.put(CLOSURES, id, {"id": id, "digest": self.digest(ticket)})

    def digest(self, ticket: Document) -> str:
        said = [comment["id"] for comment in self.comments(ticket["id"])]
        text = json.dumps([ticket, said], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def link(self, path: str) -> str:
        return f"https://{self.context.host}/api/v2/{path}.json"

    def _found(self, kind: str, id: str) -> Document:
        found = self.store.get(kind, id)
        if found is None:
            raise not_found()
        return found


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
