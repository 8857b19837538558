"""Who writes tickets and who answers them."""

from __future__ import annotations

from typing import Any

from paddock.world.services.untrusted import is_address
from paddock_services.tickets.desk import (
    FORMER_USERS,
    ROLES,
    TICKETS,
    USERS,
    Desk,
    Document,
    invalid,
)

_MAX_TEXT = 255
_MAX_NOTES = 65_536
_TEXTS = {"name": _MAX_TEXT, "phone": _MAX_TEXT, "external_id": _MAX_TEXT, "alias": _MAX_TEXT,
          "time_zone": _MAX_TEXT, "locale": _MAX_TEXT, "notes": _MAX_NOTES,
          "details": _MAX_NOTES, "signature": _MAX_NOTES}  # fmt: skip


def new_user(desk: Desk, given: Document) -> Document:
    """A person whom the desk did not know."""
    wanted = _wanted(desk, given, None)
    if not wanted.get("name"):
        raise invalid("name", "is too short (is: 0, min: 1)", "ValueTooShort")
    now = desk.tick()
    user = {
        "id": desk.new_number(), "name": "", "email": None, "created_at": now, "updated_at": now,
        "time_zone": "Etc/UTC", "locale": "en-US", "role": "end-user", "active": True,
        "verified": False, "suspended": False, "phone": None, "notes": "", "details": "",
        "external_id": None, "alias": "", "signature": None, "tags": [], "organization_id": None,
        "shared": False, "moderator": False, "user_fields": {}, **wanted,
    }  # fmt: skip
    desk.store.put(USERS, str(user["id"]), user)
    return user


def change_user(desk: Desk, user: Document, given: Document) -> Document:
    user |= _wanted(desk, given, user)
    user["updated_at"] = desk.tick()
    desk.store.put(USERS, str(user["id"]), user)
    return user


def remove_user(desk: Desk, user: Document) -> Document:
    """Nobody who is still waiting for an answer is removed."""
    waiting = desk.store.find(TICKETS, {"requester_id": user["id"]})
    if any(ticket["status"] not in ("solved", "closed") for ticket in waiting):
        raise invalid("base", "User is requester of 1 or more tickets that are not closed")
    user |= {"active": False, "updated_at": desk.tick()}
    desk.store.delete(USERS, str(user["id"]))
    desk.store.put(FORMER_USERS, str(user["id"]), user)
    return user


def _wanted(desk: Desk, given: Document, user: Document | None) -> Document:
    found: Document = {}
    for name, most in _TEXTS.items():
        if name in given:
            found[name] = _text(given[name], name, most)
    if "email" in given:
        found["email"] = _email(desk, given["email"], user)
    if "role" in given:
        if given["role"] not in ROLES:
            raise invalid("role", "is not included in the list")
        found["role"] = given["role"]
    for name in ("verified", "suspended"):
        if isinstance(given.get(name), bool):
            found[name] = given[name]
    return found


def _text(value: Any, name: str, most: int) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > most):
        raise invalid(name, f"is not a text of at most {most} characters")
    return value


def _email(desk: Desk, value: Any, user: Document | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not is_address(value):
        raise invalid("email", f"{str(value)[:100]} is not properly formatted")
    known = desk.user_by_email(value)
    if known is not None and (user is None or known["id"] != user["id"]):
        raise invalid("email", f"{value} is already being used by another user", "DuplicateValue")
    return value.lower()
