"""Documents of the desk as the API shows them."""

from __future__ import annotations

from paddock_services.tickets.desk import Desk, Document


def shown_ticket(desk: Desk, ticket: Document) -> Document:
    link = desk.link(f"tickets/{ticket['id']}")
    return {"url": link, **ticket, "fields": ticket["custom_fields"]}


def shown_user(desk: Desk, user: Document) -> Document:
    return {"url": desk.link(f"users/{user['id']}"), **user}


def shown_comment(comment: Document) -> Document:
    return {name: value for name, value in comment.items() if name != "ticket_id"}
