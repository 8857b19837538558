"""The fields of a ticket that an agent may set, and what each of them may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock_services.tickets.desk import (
    PRIORITIES,
    STATUSES,
    TYPES,
    USERS,
    Desk,
    Document,
    invalid,
)

_MAX_TEXT = 255
_MAX_ITEMS = 1000


def read_fields(desk: Desk, ticket: Document, body: Document, author: Document) -> Document:
    """Return the fields that a body sets, each checked, and those that follow from them."""
    fields: Document = {
        name: read(body[name], name) for name, read in _READERS.items() if name in body
    }
    if "assignee_id" in body or "assignee_email" in body:
        fields["assignee_id"] = _read_assignee(desk, body)
    if "subject" in fields:
        fields["raw_subject"] = fields["subject"]
    tags = set(fields.get("tags", ticket["tags"]))
    tags |= set(_read_tags(body.get("additional_tags") or [], "tags"))
    tags -= set(_read_tags(body.get("remove_tags") or [], "tags"))
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


def _read_status(value: Any, name: str) -> str:
    if value not in STATUSES:
        raise invalid(name, "is not included in the list")
    return str(value)


def _read_choice(choices: tuple[str, ...]) -> Callable[[Any, str], str | None]:
    def read(value: Any, name: str) -> str | None:
        if value in (None, ""):
            return None
        if value not in choices:
            raise invalid(name, "is not included in the list")
        return str(value)

    return read


def _read_text(value: Any, name: str) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > _MAX_TEXT):
        raise invalid(name, "is not a text of at most 255 characters")
    return value


def _read_subject(value: Any, name: str) -> str:
    return _read_text(value, name) or ""


def _read_id(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if not is_id(value):
        raise invalid(name, "is invalid")
    return int(value)


def _read_tags(value: Any, name: str) -> list[str]:
    tags = value.split() if isinstance(value, str) else value
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise invalid(name, "is invalid")
    if len(tags) > _MAX_ITEMS or any(len(tag) > _MAX_TEXT for tag in tags):
        raise invalid(name, "is too long")
    return sorted({"_".join(tag.lower().split()) for tag in tags if tag.strip()})


def _read_custom_fields(value: Any, name: str) -> list[Document]:
    fields = value if isinstance(value, list) else []
    if not all(isinstance(field, dict) and is_id(field.get("id")) for field in fields):
        raise invalid(name, "is invalid")
    return [{"id": int(field["id"]), "value": field.get("value")} for field in fields[:_MAX_ITEMS]]


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "status": _read_status,
    "priority": _read_choice(PRIORITIES),
    "type": _read_choice(TYPES),
    "subject": _read_subject,
    "tags": _read_tags,
    "custom_fields": _read_custom_fields,
    "external_id": _read_text,
    "due_at": _read_text,
    "group_id": _read_id,
    "organization_id": _read_id,
}


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
