"""The chat service: how a workspace begins, and what must always be true of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.service import ASGIApp, Seed, Service
from paddock_services.chat.seeding import KINDS, USUAL, Seeding
from paddock_services.chat.web import make_app
from paddock_services.chat.workspace import CHANNELS, MESSAGES, USERS, Document, Workspace


class Chat(Service):
    """Slack's Web API over a workspace of its own."""

    name = "chat"
    options: ClassVar[Mapping[str, str]] = {
        "team": "the name of the workspace",
        "bot": "the name of the user that calls the API",
    }

    def check(self) -> None:
        for option in self.options:
            value = self.context.options.get(option, "x")
            if not isinstance(value, str) or not value.strip():
                raise InvalidInput(f"chat: {option} is a name, not {value!r}")

    def app(self) -> ASGIApp:
        return make_app(Workspace(self.context))

    def seed(self, data: Seed) -> None:
        """People, channels and messages by name; the usual workspace when nothing is given."""
        unknown = sorted(set(data) - set(KINDS))
        if unknown:
            raise InvalidInput(f"chat has no {unknown[0]}; it has {', '.join(KINDS)}")
        with self.context.store.transaction():
            Seeding(Workspace(self.context)).fill(data if any(data.values()) else USUAL)

    def invariants(self) -> list[str]:
        store = self.context.store
        users, channels = set(store.ids(USERS)), store.find(CHANNELS)
        broken = [
            f"{user} is a member of {channel['id']} and is nobody"
            for channel in channels
            for user in channel["members"]
            if user not in users
        ]
        known = {channel["id"] for channel in channels}
        for message in store.find(MESSAGES):
            broken += self._wrong_with(message, known)
        return broken

    def _wrong_with(self, message: Document, channels: set[str]) -> list[str]:
        broken = []
        if message["channel"] not in channels:
            broken.append(f"message {message['ts']} is in no channel")
        thread = message.get("thread_ts")
        if thread and not self.context.store.has(MESSAGES, f"{message['channel']}:{thread}"):
            broken.append(f"message {message['ts']} answers one that is not there")
        for reaction in message.get("reactions", []):
            if reaction["count"] != len(set(reaction["users"])):
                broken.append(f"reaction {reaction['name']} on {message['ts']} is counted wrong")
        return broken
