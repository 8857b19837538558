"""Fills a workspace: from a file, from generated messages, or as usual."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.world.service import Seed
from paddock_services.chat.workspace import (
    CHANNELS,
    MESSAGES,
    TEAM,
    USERS,
    Document,
    Workspace,
    new_channel,
)

KINDS = (USERS, CHANNELS, MESSAGES)
_GENERAL = "general"
_GONE = "gone_"  # how generated data refers to what has been deleted
USUAL: Seed = {
    USERS: [
        {"name": "ada", "real_name": "Ada Okafor", "email": "ada@example.com", "is_admin": True},
        {"name": "ben", "real_name": "Ben Lindqvist", "email": "ben@example.com"},
        {"name": "chi", "real_name": "Chi Nakamura", "email": "chi@example.com"},
    ],
    CHANNELS: [
        {"name": "general", "purpose": "For everybody", "is_general": True},
        {"name": "support", "purpose": "What customers ask us"},
    ],
    MESSAGES: [
        {"channel": "general", "user": "ada", "text": "Welcome, all."},
        {"channel": "support", "user": "ben", "text": "Order 1042 has not arrived. Who looks?"},
    ],
}


class Seeding:
    """Fills an empty workspace. Names of the file become ids."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._users: dict[str, str] = {}
        self._team = workspace.new_id("T")

    def fill(self, data: Seed) -> None:
        options = self._workspace.context.options
        name, bot = str(options.get("team", "Example")), str(options.get("bot", "agent"))
        self._workspace.store.put(TEAM, TEAM, {
            "id": self._team, "name": name, "domain": _as_domain(name),
            "bot_user_id": self._user({"name": bot, "is_bot": True}),
            "bot_id": self._workspace.new_id("B"), "app_id": self._workspace.new_id("A"),
        })  # fmt: skip
        for user in data.get(USERS, ()):
            self._user(user)
        messages = data.get(MESSAGES, ())
        for channel in data.get(CHANNELS) or _channels_of(messages):
            self._channel(channel)
        self._messages(messages)

    def _user(self, given: Mapping[str, Any]) -> str:
        id = str(given.get("id") or self._workspace.new_id("U"))
        email = str(given.get("email") or "").lower()
        name = str(given.get("username") or given.get("name") or email.partition("@")[0] or id)
        real = str(given.get("real_name") or given.get("name") or name)
        is_bot, is_admin = bool(given.get("is_bot")), bool(given.get("is_admin"))
        profile = {"real_name": real, "display_name": name, "email": email}
        profile |= {"title": str(given.get("title") or ""), **dict(given.get("profile") or {})}
        self._workspace.store.put(USERS, id, {
            "id": id, "team_id": self._team, "name": name,
            "deleted": given.get("is_active") is False,
            "real_name": real, "tz": str(given.get("tz") or "Etc/UTC"), "profile": profile,
            "is_admin": is_admin, "is_owner": is_admin, "is_bot": is_bot,
            "is_app_user": False, "updated": int(self._workspace.context.now()), "email": email,
        })  # fmt: skip
        self._users |= {id: id, name: id}
        return id

    def _channel(self, given: Mapping[str, Any]) -> None:
        everybody = list(dict.fromkeys(self._users.values()))
        members = given.get("members")
        ids = everybody if members is None else [self._known_user(one) for one in members]
        id, is_private = str(given.get("id") or self._workspace.new_id("C")), _private(given)
        channel = new_channel(
            id, str(given.get("name") or id.lower()), ids[0] if ids else everybody[0],
            int(self._workspace.context.tick()), is_private=is_private,
            is_channel=not is_private, is_group=is_private, members=list(dict.fromkeys(ids)),
            is_general=bool(given.get("is_general")), is_archived=bool(given.get("is_archived")),
        )  # fmt: skip
        for what in ("topic", "purpose"):
            channel[what]["value"] = _value(given.get(what))
        self._workspace.store.put(CHANNELS, id, channel)

    def _messages(self, given: Sequence[Mapping[str, Any]]) -> None:
        # With times of their own they come in that order, as if they had been said one by one.
        for message in sorted(given, key=_time):
            first = self._message(message, {})
            for reply in message.get("replies") or ():
                more = {"thread_ts": first["ts"], "parent_user_id": first["user"]}
                self._message(reply, {"channel": first["channel"], **more})

    def _message(self, given: Mapping[str, Any], more: dict[str, Any]) -> Document:
        for name in ("thread_ts", "blocks", "attachments", "reactions"):
            if given.get(name):
                more[name] = given[name]
        if _time(given) != float("inf"):
            count = self._workspace.store.next("ts") % 1_000_000
            more["ts"] = given.get("ts") or f"{int(_time(given))}.{count:06d}"
        channel = more.pop("channel", None) or self._known_channel(given.get("channel"))
        user = self._known_user(given.get("user"))
        return self._workspace.say(channel, user, str(given.get("text") or ""), **more)

    def _known_user(self, name: Any) -> str:
        if name is None:  # messy data leaves it out
            return next(iter(self._users.values()))
        if name not in self._users and str(name).startswith(_GONE):
            return self._user({"id": name, "is_active": False})
        if name not in self._users:
            raise InvalidInput(f"chat: the seed has no user {name!r}")
        return self._users[name]

    def _known_channel(self, name: Any) -> str:
        store = self._workspace.store
        name = _GENERAL if name is None else str(name)
        found = store.get(CHANNELS, name) or self._workspace.named_channel(name)
        if found is None and name.startswith(_GONE):
            self._channel({"id": name, "is_archived": True})
            return str(name)
        if found is None:
            raise InvalidInput(f"chat: the seed has no channel {name!r}")
        return str(found["id"])


def _channels_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Generated messages name channels that nobody has described."""
    names = [str(message.get("channel") or _GENERAL) for message in messages]
    return [{"name": name, "is_general": name == _GENERAL} for name in dict.fromkeys(names)]


def _time(message: Mapping[str, Any]) -> float:
    ts, created = str(message.get("ts") or ""), message.get("created_at")
    if ts and not re.fullmatch(r"\d{1,12}\.\d{6}", ts):
        raise InvalidInput(f"chat: {ts!r} is no time stamp; one is like 1767225600.000100")
    if ts or not isinstance(created, str):
        return float(ts or "inf")
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return float("inf")


def _private(given: Mapping[str, Any]) -> bool:
    return bool(given.get("is_private"))


def _value(given: Any) -> str:
    return str(given.get("value", "")) if isinstance(given, Mapping) else str(given or "")


def _as_domain(name: str) -> str:
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return kept.strip("-") or "example"
