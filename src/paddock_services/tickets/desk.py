"""The records of a help desk: users, tickets, their comments and audits."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, get_args

from paddock.world.context import Context
from paddock.world.kit import ApiError, iso_timestamp

Document = dict[str, Any]
USERS, TICKETS, COMMENTS, AUDITS = "users", "tickets", "comments", "audits"
CLOSURES = "closures"  # digests of tickets at the time when they were closed
DELETED = "deleted_tickets"
Status = Literal["new", "open", "pending", "hold", "solved", "closed"]
Priority = Literal["low", "normal", "high", "urgent"]
TicketType = Literal["problem", "incident", "question", "task"]
STATUSES: tuple[str, ...] = get_args(Status)  # in the order of search
PRIORITIES: tuple[str, ...] = get_args(Priority)
TYPES: tuple[str, ...] = get_args(TicketType)
ROLES = ("end-user", "agent", "admin")
MAX_SEARCHED = 4000
_FIRST_ID = 360_000_000_000  # of everything but tickets, so that no id is taken for another


class ZendeskError(ApiError):
    """An error with Zendesk's name for it."""

    def __init__(self, status: int, error: str, description: str = "", details: Any = None) -> None:
        body: Document = {"error": error}
        if description:
            body["description"] = description
        if details:
            body["details"] = details
        super().__init__(status, body)


def not_found() -> ZendeskError:
    return ZendeskError(404, "RecordNotFound", "Not found")


def invalid(field: str, text: str, error: str = "InvalidValue") -> ZendeskError:
    """Return the error for a field that breaks a rule."""
    title = field.replace("_", " ").capitalize()
    details = {field: [{"description": f"{title}: {text}", "error": error}]}
    return ZendeskError(422, "RecordInvalid", "Record validation errors", details)


class Desk:
    """One help desk."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self.store.index(COMMENTS, "ticket_id")
        self.store.index(AUDITS, "ticket_id")
        self.store.index(USERS, "email", "role")

    def now(self) -> str:
        return iso_timestamp(self.context.now())

    def tick(self) -> str:
        return iso_timestamp(self.context.tick())

    def new_id(self) -> int:
        return _FIRST_ID + self.store.next("number")

    def new_ticket_id(self) -> int:
        while True:  # a seed may have taken some
            id = self.store.next("ticket")
            if not any(self.store.has(kind, str(id)) for kind in (TICKETS, DELETED)):
                return id

    def ticket(self, id: str) -> Document:
        ticket = self.store.get(TICKETS, id)
        if ticket is None:
            raise not_found()
        return ticket

    def user(self, id: Any) -> Document:
        user = self.store.get(USERS, str(id))
        if user is None:
            raise not_found()
        return user

    def user_by_email(self, email: Any) -> Document | None:
        if not isinstance(email, str):
            return None
        users = self.store.find(USERS, {"email": email.lower()}, limit=1)
        return users[0] if users else None

    def agent(self, email: str) -> Document:
        """Return the agent with an address, or the first admin if the desk does not know it."""
        user = self.user_by_email(email)
        if user is None:
            agents = [*self.store.find(USERS, {"role": "admin"}, limit=1),
                      *self.store.find(USERS, {"role": "agent"}, limit=1)]  # fmt: skip
            if not agents:
                raise ZendeskError(401, "Couldn't authenticate you")
            return agents[0]
        if user["role"] == "end-user":
            raise ZendeskError(403, "Forbidden", "You do not have access to this page.")
        return user

    def recent(self, kind: str) -> list[Document]:
        """Return what a search looks at: the newest, so that nobody waits long for it."""
        return self.store.find(kind, limit=MAX_SEARCHED, newest_first=True)[::-1]

    def comments(self, ticket_id: int) -> list[Document]:
        return self.store.find(COMMENTS, {"ticket_id": ticket_id})

    def put_ticket(self, ticket: Document) -> None:
        """Store a ticket. One that is closed is never changed again, so its digest is noted."""
        id = str(ticket["id"])
        self.store.put(TICKETS, id, ticket)
        if ticket["status"] == "closed":
            self.store.put(CLOSURES, id, {"id": id, "digest": self.digest(ticket)})

    def digest(self, ticket: Document) -> str:
        comments = [comment["id"] for comment in self.comments(ticket["id"])]
        text = json.dumps([ticket, comments], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def url(self, path: str) -> str:
        return f"https://{self.context.host}/api/v2/{path}.json"

    def show_ticket(self, ticket: Document) -> Document:
        url = self.url(f"tickets/{ticket['id']}")
        return {"url": url, **ticket, "fields": ticket["custom_fields"]}

    def show_user(self, user: Document) -> Document:
        return {"url": self.url(f"users/{user['id']}"), **user}
