"""What each address of the help desk does."""

from __future__ import annotations

from typing import Any

from paddock_services.tickets import changes
from paddock_services.tickets.asked import Answer, Asked, Handler
from paddock_services.tickets.desk import (
    AUDITS,
    DELETED,
    TICKETS,
    USERS,
    Desk,
    DeskError,
    Document,
    not_found,
)
from paddock_services.tickets.pages import Listing, page_of
from paddock_services.tickets.people import change_user, new_user, remove_user
from paddock_services.tickets.searching import search, search_count, search_users
from paddock_services.tickets.shown import shown_comment, shown_ticket, shown_user

_SORTED = ("created_at", "updated_at", "priority", "status", "subject", "id")


def list_tickets(asked: Asked) -> Answer:
    desk = asked.desk
    return _tickets(asked, _in_order(desk, asked.params), "tickets")


def requested(asked: Asked) -> Answer:
    return _tickets_of(asked, "requester_id", "requested")


def assigned(asked: Asked) -> Answer:
    return _tickets_of(asked, "assignee_id", "assigned")


def show_ticket(asked: Asked) -> Answer:
    ticket = asked.desk.ticket(asked.id)
    answer: Document = {"ticket": shown_ticket(asked.desk, ticket)}
    return 200, answer | _beside(asked, [ticket])


def show_many(asked: Asked) -> Answer:
    ids = [id.strip() for id in asked.params.get("ids", "").split(",")[:100]]
    return _tickets(asked, [id for id in ids if asked.desk.store.has(TICKETS, id)],
                    "tickets/show_many")  # fmt: skip


def count_tickets(asked: Asked) -> Answer:
    value = asked.desk.store.count(TICKETS)
    return 200, {"count": {"value": value, "refreshed_at": asked.desk.now()}}


def create_ticket(asked: Asked) -> Answer:
    ticket, audit = changes.create(asked.desk, asked.author, asked.part("ticket"))
    return 201, {"ticket": shown_ticket(asked.desk, ticket), "audit": audit}


def update_ticket(asked: Asked) -> Answer:
    ticket = asked.desk.ticket(asked.id)
    ticket, audit = changes.update(asked.desk, asked.author, ticket, asked.part("ticket"))
    return 200, {"ticket": shown_ticket(asked.desk, ticket), "audit": audit}


def delete_ticket(asked: Asked) -> Answer:
    changes.delete(asked.desk, asked.desk.ticket(asked.id))
    return 204, None


def list_deleted(asked: Asked) -> Answer:
    desk = asked.desk
    ids = desk.store.ids(DELETED)
    listing = Listing("deleted_tickets", ids, lambda id: _shown_deleted(desk, id),
                      desk.link("deleted_tickets"))  # fmt: skip
    return 200, page_of(listing, asked.params)


def restore_ticket(asked: Asked) -> Answer:
    changes.restore(asked.desk, asked.id)
    return 200, {}


def list_comments(asked: Asked) -> Answer:
    desk = asked.desk
    comments = desk.comments(desk.ticket(asked.id)["id"])
    if asked.params.get("sort_order", asked.params.get("sort")) in ("desc", "-created_at"):
        comments.reverse()
    by_id = {str(comment["id"]): comment for comment in comments}
    listing = Listing("comments", list(by_id), lambda id: shown_comment(by_id[id]),
                      desk.link(f"tickets/{asked.id}/comments"))  # fmt: skip
    return 200, page_of(listing, asked.params)


def list_audits(asked: Asked) -> Answer:
    desk = asked.desk
    audits = desk.store.find(AUDITS, {"ticket_id": desk.ticket(asked.id)["id"]})
    by_id = {str(audit["id"]): audit for audit in audits}
    link = desk.link(f"tickets/{asked.id}/audits")
    return 200, page_of(Listing("audits", list(by_id), by_id.__getitem__, link), asked.params)


def show_tags(asked: Asked) -> Answer:
    return 200, {"tags": asked.desk.ticket(asked.id)["tags"]}


def set_tags(asked: Asked) -> Answer:
    return _tag(asked, "tags")


def add_tags(asked: Asked) -> Answer:
    return _tag(asked, "additional_tags")


def remove_tags(asked: Asked) -> Answer:
    return _tag(asked, "remove_tags")


def list_users(asked: Asked) -> Answer:
    desk, store = asked.desk, asked.desk.store
    role = asked.params.get("role") or asked.params.get("role[]")
    ids = ([str(user["id"]) for user in store.find(USERS, {"role": role})]
           if role else store.ids(USERS))  # fmt: skip
    listing = Listing("users", ids, lambda id: shown_user(desk, desk.user(id)), desk.link("users"))
    return 200, page_of(listing, asked.params)


def show_me(asked: Asked) -> Answer:
    return 200, {"user": shown_user(asked.desk, asked.author)}


def show_user(asked: Asked) -> Answer:
    return 200, {"user": shown_user(asked.desk, asked.desk.user(asked.id))}


def create_user(asked: Asked) -> Answer:
    return 201, {"user": shown_user(asked.desk, new_user(asked.desk, asked.part("user")))}


def create_or_update_user(asked: Asked) -> Answer:
    given = asked.part("user")
    email = given.get("email")
    known = asked.desk.user_by_email(email) if isinstance(email, str) else None
    if known is None:
        return create_user(asked)
    return 200, {"user": shown_user(asked.desk, change_user(asked.desk, known, given))}


def update_user(asked: Asked) -> Answer:
    user = change_user(asked.desk, asked.desk.user(asked.id), asked.part("user"))
    return 200, {"user": shown_user(asked.desk, user)}


def delete_user(asked: Asked) -> Answer:
    user = asked.desk.user(asked.id)
    if user["id"] == asked.author["id"]:
        raise DeskError(403, "Forbidden", "You cannot delete yourself.")
    return 200, {"user": shown_user(asked.desk, remove_user(asked.desk, user))}


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "tickets", list_tickets),
    ("POST", "tickets", create_ticket),
    ("GET", "tickets/show_many", show_many),
    ("GET", "tickets/count", count_tickets),
    ("GET", "tickets/{id}", show_ticket),
    ("PUT", "tickets/{id}", update_ticket),
    ("DELETE", "tickets/{id}", delete_ticket),
    ("GET", "tickets/{id}/comments", list_comments),
    ("GET", "tickets/{id}/audits", list_audits),
    ("GET", "tickets/{id}/tags", show_tags),
    ("POST", "tickets/{id}/tags", set_tags),
    ("PUT", "tickets/{id}/tags", add_tags),
    ("DELETE", "tickets/{id}/tags", remove_tags),
    ("GET", "deleted_tickets", list_deleted),
    ("PUT", "deleted_tickets/{id}/restore", restore_ticket),
    ("GET", "users", list_users),
    ("POST", "users", create_user),
    ("GET", "users/me", show_me),
    ("GET", "users/search", search_users),
    ("POST", "users/create_or_update", create_or_update_user),
    ("GET", "users/{id}", show_user),
    ("PUT", "users/{id}", update_user),
    ("DELETE", "users/{id}", delete_user),
    ("GET", "users/{id}/tickets/requested", requested),
    ("GET", "users/{id}/tickets/assigned", assigned),
    ("GET", "search", search),
    ("GET", "search/count", search_count),
]


def _tickets(asked: Asked, ids: list[str], path: str) -> Answer:
    desk, shown = asked.desk, []

    def show(id: str) -> Document:
        shown.append(desk.ticket(id))
        return shown_ticket(desk, shown[-1])

    answer = page_of(Listing("tickets", ids, show, desk.link(path)), asked.params)
    return 200, answer | _beside(asked, shown)


def _tickets_of(asked: Asked, field: str, word: str) -> Answer:
    user = asked.desk.user(asked.id)
    ids = [str(one["id"]) for one in asked.desk.store.find(TICKETS, {field: user["id"]})]
    return _tickets(asked, ids, f"users/{asked.id}/tickets/{word}")


def _in_order(desk: Desk, params: dict[str, str]) -> list[str]:
    by, order = params.get("sort_by", ""), params.get("sort_order", "asc")
    if params.get("sort"):
        by, order = params["sort"].lstrip("-"), "desc" if params["sort"][0] == "-" else "asc"
    if by not in _SORTED:
        ids = desk.store.ids(TICKETS)
    else:
        found = desk.recent(TICKETS)
        found.sort(key=lambda ticket: _comparable(ticket[by]))
        ids = [str(ticket["id"]) for ticket in found]
    return ids[::-1] if order == "desc" else ids


def _comparable(value: Any) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (0, str(value or ""))


def _beside(asked: Asked, tickets: list[Document]) -> Document:
    """The people of these tickets, where the agent asked for them in the same answer."""
    if "users" not in asked.params.get("include", "").split(","):
        return {}
    fields = ("requester_id", "submitter_id", "assignee_id")
    ids = dict.fromkeys(ticket[field] for ticket in tickets for field in fields if ticket[field])
    known = (asked.desk.store.get(USERS, str(id)) for id in ids)
    return {"users": [shown_user(asked.desk, user) for user in known if user]}


def _tag(asked: Asked, word: str) -> Answer:
    body = {word: asked.body.get("tags", [])}
    ticket = asked.desk.ticket(asked.id)
    ticket, _ = changes.update(asked.desk, asked.author, ticket, body)
    return 200, {"tags": ticket["tags"]}


def _shown_deleted(desk: Desk, id: str) -> Document:
    ticket = desk.store.get(DELETED, id)
    if ticket is None:
        raise not_found()
    return {name: ticket[name] for name in ("id", "subject", "description")} | {
        "previous_state": ticket["status"]
    }
