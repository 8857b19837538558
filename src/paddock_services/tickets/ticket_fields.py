"""The fields of a ticket that an agent may set, and what each of them may be."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from paddock_services.tickets.desk import (
    USERS,
    Desk,
    Document,
    Priority,
    Status,
    TicketType,
    invalid,
)

_Text = Annotated[str, Meta(max_length=255)]
_Id = Annotated[int, Meta(gt=0, lt=1 << 60)]  # may come as text
_Tags = str | Annotated[list[_Text], Meta(max_length=1000)]
_FIELD = re.compile(r"at `\$\.(\w+)")


class _CustomField(msgspec.Struct):
    id: _Id
    value: Any = None


class _Fields(msgspec.Struct):
    status: Status | UnsetType = UNSET
    priority: Priority | Literal[""] | UnsetType | None = UNSET
    type: TicketType | Literal[""] | UnsetType | None = UNSET
    subject: _Text | UnsetType | None = UNSET
    custom_fields: Annotated[list[_CustomField], Meta(max_length=1000)] | UnsetType = UNSET
    external_id: _Text | UnsetType | None = UNSET
    due_at: _Text | UnsetType | None = UNSET
    group_id: _Id | UnsetType | None = UNSET
    organization_id: _Id | UnsetType | None = UNSET


class _TagChanges(msgspec.Struct):
    tags: _Tags | None = None
    additional_tags: _Tags | None = None
    remove_tags: _Tags | None = None


def read_fields(desk: Desk, ticket: Document, body: Document, author: Document) -> Document:
    """Return the fields that a body sets, each checked, and those that follow from them."""
    try:
        fields: Document = msgspec.to_builtins(msgspec.convert(body, _Fields, strict=False))
        changes = msgspec.convert(body, _TagChanges)
    except msgspec.ValidationError as error:
        path = _FIELD.search(str(error))
        raise invalid(path[1] if path else "base", f"is invalid ({error})") from error
    for name in ("priority", "type"):
        if name in fields:
            fields[name] = fields[name] or None
    if "subject" in fields:
        fields["subject"] = fields["raw_subject"] = fields["subject"] or ""
    if "assignee_id" in body or "assignee_email" in body:
        fields["assignee_id"] = _read_assignee(desk, body)
    tags = set(ticket["tags"]) if changes.tags is None else _split_tags(changes.tags)
    tags |= _split_tags(changes.additional_tags)
    tags -= _split_tags(changes.remove_tags)
    if tags != set(ticket["tags"]):
        fields["tags"] = sorted(tags)
    status = fields.get("status", ticket["status"])
    assignee = fields.get("assignee_id", ticket["assignee_id"])
    if status == "new" and ticket["status"] != "new":
        raise invalid("status", "cannot be set to New again")
    if status == "new" and fields.get("assignee_id"):
        fields["status"] = "open"
    if status in ("solved", "closed") and not assignee:
        fields["assignee_id"] = author["id"]
    return fields


def is_id(value: Any) -> bool:
    """Return whether a value can be an id, as a number or as text."""
    if isinstance(value, str):
        return value.isdecimal() and value.isascii() and len(value) <= 18
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 60


def _split_tags(tags: _Tags | None) -> set[str]:
    """Return tags, which may be one text with spaces, in the form that Zendesk gives them."""
    items = tags.split() if isinstance(tags, str) else tags or []
    return {"_".join(tag.lower().split()) for tag in items if tag.strip()}


def _read_assignee(desk: Desk, body: Document) -> int | None:
    email, id = body.get("assignee_email"), body.get("assignee_id")
    if email is None and id is None:
        return None
    user = desk.user_by_email(email)
    if email is None and is_id(id):
        user = desk.store.get(USERS, str(id))
    if user is None or user["role"] == "end-user":
        raise invalid("assignee", "is not an agent")
    return int(user["id"])
