"""What may be done to a ticket, and what comes of it: its fields, its comments, its audit."""

from __future__ import annotations

import html
from typing import Any

from paddock_services.tickets.desk import (
    AUDITS,
    COMMENTS,
    DELETED,
    TICKETS,
    USERS,
    Desk,
    DeskError,
    Document,
    invalid,
)
from paddock_services.tickets.people import new_user
from paddock_services.tickets.ticket_fields import is_id, wanted_fields

MAX_TEXT = 65_536
_VIA = {"channel": "api", "source": {"from": {}, "to": {}, "rel": None}}


def create(desk: Desk, author: Document, body: Document) -> tuple[Document, Document]:
    """A new ticket with its first comment, and its audit."""
    said = _comment(body) or {"body": body.get("description")}
    if not _said(said):
        raise invalid("description", "cannot be blank", "BlankValue")
    now, number = desk.tick(), desk.new_ticket_number()
    requester = _requester(desk, body) or author
    ticket = new_ticket(number, now, requester["id"], author["id"], _said(said))
    changed = wanted_fields(desk, ticket, body, author)
    ticket |= changed
    ticket["subject"] = ticket["raw_subject"] = ticket["subject"] or _said(said)[:100]
    ticket["is_public"] = said.get("public") is not False
    by = desk.user(said["author_id"]) if is_id(said.get("author_id")) else requester
    return _settled(desk, ticket, author, _events(desk, {}, changed, "Create"), (by, said))


def update(desk: Desk, author: Document, ticket: Document, body: Document) -> Any:
    """The ticket as it is then, and the audit. A closed one is not touched."""
    _check_open(ticket)
    _check_stamp(ticket, body)
    before, said = dict(ticket), _comment(body)
    if said is not None and not _said(said):
        raise invalid("comment", "body cannot be blank", "BlankValue")
    ticket |= wanted_fields(desk, ticket, body, author)
    requester = _requester(desk, body)
    ticket |= {"requester_id": requester["id"]} if requester else {}
    ticket["updated_at"] = desk.tick()
    changed = {name: value for name, value in ticket.items()
               if before[name] != value and name != "updated_at"}  # fmt: skip
    events = _events(desk, before, changed, "Change")
    if said is None:
        return _settled(desk, ticket, author, events, None)
    by = desk.user(said["author_id"]) if is_id(said.get("author_id")) else author
    return _settled(desk, ticket, author, events, (by, said))


def delete(desk: Desk, ticket: Document) -> None:
    """Moves a ticket to the deleted ones."""
    desk.tick()
    desk.store.delete(TICKETS, str(ticket["id"]))
    desk.store.put(DELETED, str(ticket["id"]), ticket)


def restore(desk: Desk, id: str) -> None:
    ticket = desk.store.get(DELETED, id)
    if ticket is None:
        raise DeskError(404, "RecordNotFound", "Not found")
    desk.tick()
    desk.store.delete(DELETED, id)
    desk.store.put(TICKETS, id, ticket)


def new_ticket(number: int, now: str, requester: int, submitter: int, text: str) -> Document:
    """A ticket with all that Zendesk says about one."""
    return {
        "id": number, "external_id": None, "via": _VIA, "created_at": now, "updated_at": now,
        "type": None, "subject": "", "raw_subject": "", "description": text[:MAX_TEXT],
        "priority": None, "status": "new", "recipient": None, "requester_id": requester,
        "submitter_id": submitter, "assignee_id": None, "organization_id": None, "group_id": None,
        "collaborator_ids": [], "follower_ids": [], "email_cc_ids": [], "forum_topic_id": None,
        "problem_id": None, "has_incidents": False, "is_public": True, "due_at": None, "tags": [],
        "custom_fields": [], "satisfaction_rating": None, "sharing_agreement_ids": [],
        "brand_id": None, "ticket_form_id": None, "allow_channelback": False,
        "allow_attachments": True,
    }  # fmt: skip


def add_comment(desk: Desk, ticket: Document, by: Document, said: Document, now: str) -> Document:
    """Puts a comment on a ticket."""
    text = _said(said)[:MAX_TEXT]
    given = said.get("html_body")
    comment = {
        "id": desk.new_number(), "type": "Comment", "ticket_id": ticket["id"],
        "author_id": by["id"], "body": text, "plain_body": text,
        "html_body": given if isinstance(given, str) else f"<p>{html.escape(text)}</p>",
        "public": said.get("public") is not False, "attachments": [], "via": _VIA,
        "metadata": {"system": {}, "custom": {}}, "created_at": now,
    }  # fmt: skip
    desk.store.put(COMMENTS, str(comment["id"]), comment)
    return comment


def _settled(
    desk: Desk, ticket: Document, author: Document, events: list[Document], said: Any
) -> tuple[Document, Document]:
    now = ticket["updated_at"]
    if said is not None:
        by, words = said
        comment = add_comment(desk, ticket, by, words, now)
        shown = ("id", "type", "author_id", "body", "html_body", "public")
        events = [{name: comment[name] for name in shown}, *events]
    desk.store.put(TICKETS, str(ticket["id"]), ticket)
    audit = {
        "id": desk.new_number(), "ticket_id": ticket["id"], "created_at": now,
        "author_id": author["id"], "metadata": {"system": {}, "custom": {}}, "via": _VIA,
        "events": events,
    }  # fmt: skip
    desk.store.put(AUDITS, str(audit["id"]), audit)
    if ticket["status"] == "closed":
        desk.close(ticket)
    return ticket, audit


def _requester(desk: Desk, body: Document) -> Document | None:
    id, given = body.get("requester_id"), body.get("requester")
    if is_id(id):
        user = desk.store.get(USERS, str(id))
        if user is None:
            raise invalid("requester", "is not a known user")
        return user
    if not isinstance(given, dict):
        return None
    email = given.get("email")
    known = desk.user_by_email(email) if isinstance(email, str) else None
    return known or new_user(desk, given)


def _comment(body: Document) -> Document | None:
    said = body.get("comment")
    if isinstance(said, str):
        return {"body": said}
    return said if isinstance(said, dict) else None


def _said(said: Document) -> str:
    for name in ("body", "html_body", "value"):
        if isinstance(said.get(name), str) and said[name].strip():
            return str(said[name])
    return ""


def _events(desk: Desk, before: Document, changed: Document, kind: str) -> list[Document]:
    events = []
    for name, value in changed.items():
        event = {"id": desk.new_number(), "type": kind, "field_name": name, "value": value}
        events.append(event | ({"previous_value": before[name]} if kind == "Change" else {}))
    return events


def _check_open(ticket: Document) -> None:
    if ticket["status"] == "closed":
        details = {"status": [{"description": "Status: closed prevents ticket update"}]}
        raise DeskError(422, "RecordInvalid", "Record validation errors", details)


def _check_stamp(ticket: Document, body: Document) -> None:
    if body.get("safe_update") and body.get("updated_stamp") != ticket["updated_at"]:
        raise DeskError(409, "UpdateConflict", "Safe Update prevented the update due to outdated "
                        "ticket data. Please fetch the latest ticket data and try "
                        "again.")  # fmt: skip
