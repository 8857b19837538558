"""Tickets: create, list, change and delete them. Each change leaves an audit."""

from __future__ import annotations

import html
from typing import Any

from paddock.world.kit import Reply
from paddock_services.tickets.call import Routes, ZendeskCall
from paddock_services.tickets.desk import (
    AUDITS,
    COMMENTS,
    DELETED,
    TICKETS,
    USERS,
    Desk,
    Document,
    ZendeskError,
    invalid,
)
from paddock_services.tickets.ticket_fields import is_id, read_fields
from paddock_services.tickets.users import new_user

MAX_TEXT = 65_536
_VIA = {"channel": "api", "source": {"from": {}, "to": {}, "rel": None}}
_SORT_FIELDS = ("created_at", "updated_at", "priority", "status", "subject", "id")
_PEOPLE = ("requester_id", "submitter_id", "assignee_id")


def list_tickets(call: ZendeskCall) -> Reply:
    return _list(call, _sorted_ids(call))


def list_requested(call: ZendeskCall) -> Reply:
    return _list_of_user(call, "requester_id")


def list_assigned(call: ZendeskCall) -> Reply:
    return _list_of_user(call, "assignee_id")


def show_ticket(call: ZendeskCall) -> Reply:
    ticket = call.desk.ticket(call.params["id"])
    return Reply({"ticket": call.desk.show_ticket(ticket), **_included_users(call, [ticket])})


def create_ticket(call: ZendeskCall) -> Reply:
    desk, body = call.desk, call.part("ticket")
    comment = _sent_comment(body) or {"body": body.get("description")}
    text = _comment_text(comment)
    if not text:
        raise invalid("description", "cannot be blank", "BlankValue")
    now, id = desk.tick(), desk.new_ticket_id()
    requester = _find_requester(desk, body) or call.author
    ticket = new_ticket(id, now, requester["id"], call.author["id"], text)
    fields = read_fields(desk, ticket, body, call.author)
    ticket |= fields
    ticket["subject"] = ticket["raw_subject"] = ticket["subject"] or text[:100]
    ticket["is_public"] = comment.get("public") is not False
    events = [_comment_event(desk, ticket, requester, comment), *_field_events(desk, {}, fields)]
    return Reply(_save(call, ticket, events), 201)


def update_ticket(call: ZendeskCall) -> Reply:
    return Reply(_update(call, call.part("ticket")))


def add_tags(call: ZendeskCall) -> Reply:
    return _change_tags(call, "additional_tags")


def remove_tags(call: ZendeskCall) -> Reply:
    return _change_tags(call, "remove_tags")


def delete_ticket(call: ZendeskCall) -> Reply:
    ticket = call.desk.ticket(call.params["id"])
    call.desk.tick()
    call.desk.store.delete(TICKETS, call.params["id"])
    call.desk.store.put(DELETED, call.params["id"], ticket)
    return Reply(None, 204)


def list_comments(call: ZendeskCall) -> Reply:
    comments = call.desk.comments(call.desk.ticket(call.params["id"])["id"])
    if call.query.get("sort_order", call.query.get("sort")) in ("desc", "-created_at"):
        comments.reverse()
    return _list_documents(call, "comments", comments)


def list_audits(call: ZendeskCall) -> Reply:
    where = {"ticket_id": call.desk.ticket(call.params["id"])["id"]}
    return _list_documents(call, "audits", call.desk.store.find(AUDITS, where))


ROUTES: Routes = {
    "GET tickets": list_tickets,
    "POST tickets": create_ticket,
    "GET tickets/{id}": show_ticket,
    "PUT tickets/{id}": update_ticket,
    "DELETE tickets/{id}": delete_ticket,
    "GET tickets/{id}/comments": list_comments,
    "GET tickets/{id}/audits": list_audits,
    "PUT tickets/{id}/tags": add_tags,
    "DELETE tickets/{id}/tags": remove_tags,
    "GET users/{id}/tickets/requested": list_requested,
    "GET users/{id}/tickets/assigned": list_assigned,
}


def new_ticket(id: int, now: str, requester: int, submitter: int, text: str) -> Document:
    """Return a ticket with all the fields that Zendesk shows of one."""
    return {
        "id": id, "external_id": None, "via": _VIA, "created_at": now, "updated_at": now,
        "type": None, "subject": "", "raw_subject": "", "description": text[:MAX_TEXT],
        "priority": None, "status": "new", "recipient": None, "requester_id": requester,
        "submitter_id": submitter, "assignee_id": None, "organization_id": None, "group_id": None,
        "collaborator_ids": [], "follower_ids": [], "email_cc_ids": [], "problem_id": None,
        "has_incidents": False, "is_public": True, "due_at": None, "tags": [],
        "custom_fields": [], "satisfaction_rating": None, "brand_id": None,
    }  # fmt: skip


def new_comment(
    desk: Desk, ticket: Document, author: Document, comment: Document, now: str
) -> Document:
    """Put a comment on a ticket."""
    text = _comment_text(comment)[:MAX_TEXT]
    markup = comment.get("html_body")
    record = {
        "id": desk.new_id(), "type": "Comment", "ticket_id": ticket["id"],
        "author_id": author["id"], "body": text, "plain_body": text,
        "html_body": markup if isinstance(markup, str) else f"<p>{html.escape(text)}</p>",
        "public": comment.get("public") is not False, "attachments": [], "via": _VIA,
        "created_at": now,
    }  # fmt: skip
    desk.store.put(COMMENTS, str(record["id"]), record)
    return record


def _update(call: ZendeskCall, body: Document) -> Document:
    """Change a ticket that is not closed. Return it with the audit of the change."""
    desk, ticket = call.desk, call.desk.ticket(call.params["id"])
    _check_changeable(ticket, body)
    before, comment = dict(ticket), _sent_comment(body)
    if comment is not None and not _comment_text(comment):
        raise invalid("comment", "body cannot be blank", "BlankValue")
    ticket |= read_fields(desk, ticket, body, call.author)
    requester = _find_requester(desk, body)
    if requester:
        ticket["requester_id"] = requester["id"]
    fields = {name: value for name, value in ticket.items() if before[name] != value}
    ticket["updated_at"] = desk.tick()
    events = _field_events(desk, before, fields)
    if comment is not None:
        events.insert(0, _comment_event(desk, ticket, call.author, comment))
    return _save(call, ticket, events)


def _check_changeable(ticket: Document, body: Document) -> None:
    if ticket["status"] == "closed":
        details = {"status": [{"description": "Status: closed prevents ticket update"}]}
        raise ZendeskError(422, "RecordInvalid", "Record validation errors", details)
    if body.get("safe_update") and body.get("updated_stamp") != ticket["updated_at"]:
        text = "Safe Update prevented the update due to outdated ticket data. "
        text += "Please fetch the latest ticket data and try again."
        raise ZendeskError(409, "UpdateConflict", text)


def _save(call: ZendeskCall, ticket: Document, events: list[Document]) -> Document:
    desk = call.desk
    desk.put_ticket(ticket)
    audit = {
        "id": desk.new_id(), "ticket_id": ticket["id"], "created_at": ticket["updated_at"],
        "author_id": call.author["id"], "via": _VIA, "events": events,
    }  # fmt: skip
    desk.store.put(AUDITS, str(audit["id"]), audit)
    return {"ticket": desk.show_ticket(ticket), "audit": audit}


def _find_requester(desk: Desk, body: Document) -> Document | None:
    """Return who asks, if the body names somebody. An unknown person becomes a user."""
    id, person = body.get("requester_id"), body.get("requester")
    if is_id(id):
        user = desk.store.get(USERS, str(id))
        if user is None:
            raise invalid("requester", "is not a known user")
        return user
    if not isinstance(person, dict):
        return None
    return desk.user_by_email(person.get("email")) or new_user(desk, person)


def _sent_comment(body: Document) -> Document | None:
    comment = body.get("comment")
    if isinstance(comment, str):
        return {"body": comment}
    return comment if isinstance(comment, dict) else None


def _comment_text(comment: Document) -> str:
    for name in ("body", "html_body", "value"):
        text = comment.get(name)
        if isinstance(text, str) and text.strip():
            return text
    return ""


def _comment_event(desk: Desk, ticket: Document, author: Document, comment: Document) -> Document:
    """Put a comment on a ticket, and return the event of the audit. A comment may name its author
    itself."""
    if is_id(comment.get("author_id")):
        author = desk.user(comment["author_id"])
    record = new_comment(desk, ticket, author, comment, ticket["updated_at"])
    shown = ("id", "type", "author_id", "body", "html_body", "public")
    return {name: record[name] for name in shown}


def _field_events(desk: Desk, before: Document, fields: Document) -> list[Document]:
    events = []
    for name, value in fields.items():
        event = {"id": desk.new_id(), "type": "Create", "field_name": name, "value": value}
        if before:
            event |= {"type": "Change", "previous_value": before[name]}
        events.append(event)
    return events


def _change_tags(call: ZendeskCall, field: str) -> Reply:
    answer = _update(call, {field: call.body.get("tags", [])})
    return Reply({"tags": answer["ticket"]["tags"]})


def _list(call: ZendeskCall, ids: list[str]) -> Reply:
    shown: list[Document] = []

    def show(id: str) -> Document:
        shown.append(call.desk.ticket(id))
        return call.desk.show_ticket(shown[-1])

    page = call.page("tickets", ids, show)
    return Reply({**page, **_included_users(call, shown)})


def _list_of_user(call: ZendeskCall, field: str) -> Reply:
    user = call.desk.user(call.params["id"])
    tickets = call.desk.store.find(TICKETS, {field: user["id"]})
    return _list(call, [str(ticket["id"]) for ticket in tickets])


def _list_documents(call: ZendeskCall, name: str, documents: list[Document]) -> Reply:
    by_id = {str(document["id"]): document for document in documents}
    return Reply(call.page(name, list(by_id), by_id.__getitem__))


def _sorted_ids(call: ZendeskCall) -> list[str]:
    field, order = call.query.get("sort_by", ""), call.query.get("sort_order", "asc")
    sort = call.query.get("sort")
    if sort:
        field, order = sort.lstrip("-"), "desc" if sort.startswith("-") else "asc"
    ids = call.desk.store.ids(TICKETS)
    if field in _SORT_FIELDS:
        tickets = call.desk.recent(TICKETS)
        tickets.sort(key=lambda ticket: _sort_key(ticket[field]))
        ids = [str(ticket["id"]) for ticket in tickets]
    return ids[::-1] if order == "desc" else ids


def _sort_key(value: Any) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (0, str(value or ""))


def _included_users(call: ZendeskCall, tickets: list[Document]) -> Document:
    """Return the people of these tickets, if the query asks for them."""
    if "users" not in call.query.get("include", "").split(","):
        return {}
    ids = dict.fromkeys(ticket[field] for ticket in tickets for field in _PEOPLE)
    users = (call.desk.store.get(USERS, str(id)) for id in ids)
    return {"users": [call.desk.show_user(user) for user in users if user]}
