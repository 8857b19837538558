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

_MAX_SUBJECT = 255
_MAX_TAGS = 1000
_TEXTS = ("external_id", "due_at", "recipient")
_NUMBERS = ("group_id", "organization_id", "problem_id", "brand_id", "ticket_form_id")


def wanted_fields(desk: Desk, ticket: Document, body: Document, author: Document) -> Document:
    """The fields that the body sets, each checked."""
    found: Document = {}
    for name, read in _READ.items():
        if name in body:
            found[name] = read(body[name], name)
    if "assignee_id" in body or "assignee_email" in body:
        found["assignee_id"] = _assignee(desk, body)
    if "subject" in found:
        found["raw_subject"] = found["subject"]
    _tag(ticket, body, found)
    status = found.get("status", ticket["status"])
    if status == "new" and ticket["status"] != "new":
        raise invalid("status", "cannot be set to New again")
    if status == "new" and found.get("assignee_id"):
        found["status"] = "open"
    if status in ("solved", "closed") and not found.get("assignee_id", ticket["assignee_id"]):
        found["assignee_id"] = author["id"]
    return found


def is_id(value: Any) -> bool:
    """Whether a value can be the number of something."""
    if isinstance(value, str):
        return value.isdecimal() and value.isascii() and len(value) <= 18
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 60


def _choice(known: tuple[str, ...]) -> Callable[[Any, str], Any]:
    def read(value: Any, name: str) -> Any:
        if value in (None, "") and known is not STATUSES:
            return None
        if value not in known:
            raise invalid(name, "is not included in the list")
        return value

    return read


def _text(value: Any, name: str) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > _MAX_SUBJECT):
        raise invalid(name, "is not a text of at most 255 characters")
    return value


def _subject(value: Any, name: str) -> str:
    return _text(value, name) or ""


def _number(value: Any, name: str) -> int | None:
    if value is not None and not is_id(value):
        raise invalid(name, "is invalid")
    return None if value is None else int(value)


def _tags(value: Any, name: str) -> list[str]:
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise invalid(name, "is invalid")
    if len(words) > _MAX_TAGS or any(len(word) > _MAX_SUBJECT for word in words):
        raise invalid(name, "is too long")
    return sorted({"_".join(word.lower().split()) for word in words if word.strip()})


def _custom(value: Any, name: str) -> list[Document]:
    fields = value if isinstance(value, list) else []
    if not all(isinstance(one, dict) and is_id(one.get("id")) for one in fields):
        raise invalid(name, "is invalid")
    return [{"id": int(one["id"]), "value": one.get("value")} for one in fields[:_MAX_TAGS]]


_READ: dict[str, Callable[[Any, str], Any]] = {
    "status": _choice(STATUSES),
    "priority": _choice(PRIORITIES),
    "type": _choice(TYPES),
    "subject": _subject,
    "tags": _tags,
    "custom_fields": _custom,
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_NUMBERS, _number),
}


def _tag(ticket: Document, body: Document, found: Document) -> None:
    tags: set[str] = set(found["tags"] if "tags" in found else ticket["tags"])
    tags |= set(_tags(body.get("additional_tags") or [], "tags"))
    tags -= set(_tags(body.get("remove_tags") or [], "tags"))
    if tags != set(ticket["tags"]):
        found["tags"] = sorted(tags)


def _assignee(desk: Desk, body: Document) -> int | None:
    email, id = body.get("assignee_email"), body.get("assignee_id")
    if email is None and id is None:
        return None
    if isinstance(email, str):
        user = desk.user_by_email(email)
    else:
        user = desk.store.get(USERS, str(id)) if is_id(id) else None
    if user is None or user["role"] == "end-user":
        raise invalid("assignee", "is not an agent")
    return int(user["id"])
