"""The first state of a workspace: from a file, from generated messages, or the default one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.world.service import Seed
from paddock_services.chat.arguments import Document
from paddock_services.chat.workspace import (
    CHANNELS,
    MESSAGES,
    TEAM,
    USERS,
    Workspace,
    new_channel,
)

KINDS = (USERS, CHANNELS, MESSAGES)
_GENERAL = "general"
_DELETED = "gone_"  # how generated data names what has been deleted
_NO_TIME = float("inf")
_TS = re.compile(r"\d{1,12}\.\d{6}")
DEFAULT_SEED: Seed = {
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


class Seeder:
    """Fills an empty workspace. Names in the data become ids."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._store = workspace.store
        self._users: dict[str, str] = {}  # ids by id and by name
        self._team = workspace.new_id("T")

    def fill(self, data: Seed) -> None:
        options = self._workspace.context.options
        name, bot = str(options.get("team", "Example")), str(options.get("bot", "agent"))
        team = {
            "id": self._team, "name": name, "domain": _domain(name),
            "bot_user_id": self._add_user({"name": bot, "is_bot": True}),
            "bot_id": self._workspace.new_id("B"), "app_id": self._workspace.new_id("A"),
        }  # fmt: skip
        self._store.put(TEAM, TEAM, team)
        for user in data.get(USERS, ()):
            self._add_user(user)
        messages = data.get(MESSAGES, ())
        for channel in data.get(CHANNELS) or _named_channels(messages):
            self._add_channel(channel)
        # Messages with times of their own come in that order, as if they had been posted then.
        for message in sorted(messages, key=_time):
            first = self._add_message(message, {"channel": message.get("channel")})
            thread = {"thread_ts": first["ts"], "parent_user_id": first["user"]}
            for reply in message.get("replies") or ():
                self._add_message(reply, {"channel": first["channel"], **thread})

    def _add_user(self, data: Mapping[str, Any]) -> str:
        id = str(data.get("id") or self._workspace.new_id("U"))
        email = str(data.get("email") or "").lower()
        name = str(data.get("username") or data.get("name") or email.partition("@")[0] or id)
        real_name = str(data.get("real_name") or data.get("name") or name)
        is_admin = bool(data.get("is_admin"))
        title = str(data.get("title") or "")
        profile = {"real_name": real_name, "display_name": name, "email": email, "title": title}
        user = {
            "id": id, "team_id": self._team, "name": name,
            "deleted": data.get("is_active") is False, "real_name": real_name,
            "tz": "Etc/UTC", "profile": profile,
            "is_admin": is_admin, "is_owner": is_admin, "is_bot": bool(data.get("is_bot")),
            "is_app_user": False, "updated": int(self._workspace.context.now()), "email": email,
        }  # fmt: skip
        self._store.put(USERS, id, user)
        self._users |= {id: id, name: id}
        return id

    def _add_channel(self, data: Mapping[str, Any]) -> str:
        id = str(data.get("id") or self._workspace.new_id("C"))
        everybody = list(dict.fromkeys(self._users.values()))
        members = everybody
        if data.get("members") is not None:
            members = list(dict.fromkeys(self._user_id(name) for name in data["members"]))
        channel = new_channel(
            id,
            str(data.get("name") or id.lower()),
            members[0] if members else everybody[0],
            int(self._workspace.context.tick()),
            is_private=bool(data.get("is_private")),
            is_general=bool(data.get("is_general")),
            is_archived=bool(data.get("is_archived")),
            members=members,
        )
        for field in ("topic", "purpose"):
            channel[field]["value"] = str(data.get(field) or "")
        self._store.put(CHANNELS, id, channel)
        return id

    def _add_message(self, data: Mapping[str, Any], fields: dict[str, Any]) -> Document:
        channel = self._channel_id(fields.pop("channel"))
        for name in ("thread_ts", "blocks", "attachments", "reactions"):
            if data.get(name):
                fields[name] = data[name]
        time = _time(data)
        if time != _NO_TIME:
            count = self._store.next("ts") % 1_000_000
            fields["ts"] = data.get("ts") or f"{int(time)}.{count:06d}"
        user = self._user_id(data.get("user"))
        return self._workspace.post(channel, user, str(data.get("text") or ""), **fields)

    def _user_id(self, name: Any) -> str:
        if name is None:  # messy data leaves it out
            return next(iter(self._users.values()))
        if name not in self._users and str(name).startswith(_DELETED):
            return self._add_user({"id": name, "is_active": False})
        if name not in self._users:
            raise InvalidInput(f"chat: the seed has no user {name!r}")
        return self._users[name]

    def _channel_id(self, name: Any) -> str:
        name = _GENERAL if name is None else str(name)
        channel = self._store.get(CHANNELS, name) or self._workspace.channel_by_name(name)
        if channel is not None:
            return str(channel["id"])
        if name.startswith(_DELETED):
            return self._add_channel({"id": name, "is_archived": True})
        raise InvalidInput(f"chat: the seed has no channel {name!r}")


def _named_channels(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the channels that generated messages name and that nobody has described."""
    names = [str(message.get("channel") or _GENERAL) for message in messages]
    return [{"name": name, "is_general": name == _GENERAL} for name in dict.fromkeys(names)]


def _time(message: Mapping[str, Any]) -> float:
    """Return when a message was posted, or _NO_TIME if the data does not say it."""
    ts, created = str(message.get("ts") or ""), message.get("created_at")
    if ts:
        if not _TS.fullmatch(ts):
            raise InvalidInput(f"chat: {ts!r} is no time stamp; one is like 1767225600.000100")
        return float(ts)
    try:
        return datetime.fromisoformat(str(created)).timestamp()
    except ValueError:
        return _NO_TIME


def _domain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "example"
