"""Users: the agents of the desk, and the customers who write tickets."""

from __future__ import annotations

from typing import Any

from paddock.world.kit import Reply, is_email_address
from paddock_services.tickets.call import Routes, ZendeskCall
from paddock_services.tickets.desk import ROLES, USERS, Desk, Document, invalid

_TEXT_FIELDS = {"name": 255, "phone": 255, "external_id": 255, "notes": 65_536, "details": 65_536}


def list_users(call: ZendeskCall) -> Reply:
    desk = call.desk
    role = call.query.get("role") or call.query.get("role[]")
    ids = desk.store.ids(USERS)
    if role:
        ids = [str(user["id"]) for user in desk.store.find(USERS, {"role": role})]
    return Reply(call.page("users", ids, lambda id: desk.show_user(desk.user(id))))


def show_me(call: ZendeskCall) -> Reply:
    return _reply(call, call.author)


def show_user(call: ZendeskCall) -> Reply:
    return _reply(call, call.desk.user(call.params["id"]))


def create_user(call: ZendeskCall) -> Reply:
    return _reply(call, new_user(call.desk, call.part("user")), 201)


def update_user(call: ZendeskCall) -> Reply:
    user = call.desk.user(call.params["id"])
    user |= _read_fields(call.desk, call.part("user"), user["id"])
    user["updated_at"] = call.desk.tick()
    call.desk.store.put(USERS, str(user["id"]), user)
    return _reply(call, user)


ROUTES: Routes = {
    "GET users": list_users,
    "POST users": create_user,
    "GET users/me": show_me,
    "GET users/{id}": show_user,
    "PUT users/{id}": update_user,
}


def new_user(desk: Desk, body: Document) -> Document:
    fields = _read_fields(desk, body, None)
    if not fields.get("name"):
        raise invalid("name", "is too short (is: 0, min: 1)", "ValueTooShort")
    now = desk.tick()
    user = {
        "id": desk.new_id(), "name": "", "email": None, "created_at": now, "updated_at": now,
        "time_zone": "Etc/UTC", "locale": "en-US", "role": "end-user", "active": True,
        "verified": False, "suspended": False, "phone": None, "notes": "", "details": "",
        "external_id": None, "tags": [], "organization_id": None, "user_fields": {}, **fields,
    }  # fmt: skip
    desk.store.put(USERS, str(user["id"]), user)
    return user


def _reply(call: ZendeskCall, user: Document, status: int = 200) -> Reply:
    return Reply({"user": call.desk.show_user(user)}, status)


def _read_fields(desk: Desk, body: Document, id: int | None) -> Document:
    """Return the fields that a body sets, each checked, for the user with this id."""
    fields: Document = {}
    for name, most in _TEXT_FIELDS.items():
        if name in body:
            value = body[name]
            if value is not None and (not isinstance(value, str) or len(value) > most):
                raise invalid(name, f"is not a text of at most {most} characters")
            fields[name] = value
    if body.get("email") is not None:
        fields["email"] = _read_email(desk, body["email"], id)
    if "role" in body:
        if body["role"] not in ROLES:
            raise invalid("role", "is not included in the list")
        fields["role"] = body["role"]
    if isinstance(body.get("verified"), bool):
        fields["verified"] = body["verified"]
    return fields


def _read_email(desk: Desk, email: Any, id: int | None) -> str:
    if not isinstance(email, str) or not is_email_address(email):
        raise invalid("email", f"{str(email)[:100]} is not properly formatted")
    owner = desk.user_by_email(email)
    if owner is not None and owner["id"] != id:
        raise invalid("email", f"{email} is already being used by another user", "DuplicateValue")
    return email.lower()
