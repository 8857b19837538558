"""The workspace in the store: its people, channels and messages. Knows nothing of HTTP."""

from __future__ import annotations

from typing import Any

from paddock.world.context import Context
from paddock_services.chat.call import ChatError

TEAM, USERS, CHANNELS, MESSAGES = "team", "users", "channels", "messages"
Document = dict[str, Any]
_OF_THE_STORE = ("id", "channel", "is_reply")  # fields of a message that Slack does not show


class Workspace:
    """One workspace and the bot that calls its API."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self.store.index(MESSAGES, "channel", "thread_ts")
        self.store.index(USERS, "name", "email")
        self.store.index(CHANNELS, "name")

    @property
    def team(self) -> Document:
        found = self.store.get(TEAM, TEAM)
        if found is None:
            raise ChatError("team_not_found")
        return found

    @property
    def me(self) -> str:
        """The id of the bot's user."""
        return str(self.team["bot_user_id"])

    def new_id(self, prefix: str) -> str:
        return self.context.new_id(prefix, 10).upper()

    def new_ts(self) -> str:
        """A time stamp that is also the name of a message in its channel."""
        return f"{int(self.context.tick())}.{self.store.next('ts') % 1_000_000:06d}"

    def user(self, id: str) -> Document:
        found = self.store.get(USERS, id)
        if found is None:
            raise ChatError("user_not_found")
        return found

    def channel(self, id: str) -> Document:
        """A channel that the bot can see."""
        found = self.store.get(CHANNELS, id)
        if found is None or (_is_closed(found) and self.me not in found["members"]):
            raise ChatError("channel_not_found")
        return found

    def named_channel(self, name: str) -> Document | None:
        found = self.store.find(CHANNELS, {"name": name.removeprefix("#")}, limit=1)
        return found[0] if found else None

    def joined(self, id: str) -> Document:
        """A channel that the bot is in and that is not archived."""
        channel = self.channel(id)
        if self.me not in channel["members"]:
            raise ChatError("not_in_channel")
        if channel["is_archived"]:
            raise ChatError("is_archived")
        return channel

    def readable(self, id: str) -> Document:
        channel = self.channel(id)
        if self.me not in channel["members"]:
            raise ChatError("not_in_channel")
        return channel

    def message(self, channel: str, ts: str) -> Document:
        found = self.store.get(MESSAGES, f"{channel}:{ts}")
        if found is None:
            raise ChatError("message_not_found")
        return found

    def keep(self, message: Document) -> None:
        self.store.put(MESSAGES, message["id"], message)

    def say(self, channel: str, user: str, text: str, **more: Any) -> Document:
        """A new message, and its mark on the thread that it belongs to."""
        ts = str(more.pop("ts", None) or self.new_ts())
        thread = more.get("thread_ts")
        is_reply = bool(thread and thread != ts and more.get("subtype") != "thread_broadcast")
        message: Document = {
            "id": f"{channel}:{ts}", "channel": channel, "is_reply": is_reply,
            "type": "message", "user": user, "text": text, "ts": ts, **more,
        }  # fmt: skip
        self.keep(message)
        if thread and thread != ts:
            self._count_reply(channel, thread, message)
        return message

    def _count_reply(self, channel: str, thread_ts: str, reply: Document) -> None:
        parent = self.store.get(MESSAGES, f"{channel}:{thread_ts}")
        if parent is None:
            return
        users = list(dict.fromkeys([*parent.get("reply_users", []), reply["user"]]))
        count = parent.get("reply_count", 0) + 1
        self.keep(parent | _thread(thread_ts, count, users, reply["ts"]))

    def replies(self, channel: str, thread_ts: str) -> list[Document]:
        found = self.store.find(MESSAGES, {"channel": channel, "thread_ts": thread_ts})
        return [message for message in found if message["ts"] != thread_ts]

    def count_replies(self, channel: str, thread_ts: str) -> None:
        """Brings the first message of a thread up to date after one has gone."""
        parent = self.store.get(MESSAGES, f"{channel}:{thread_ts}")
        if parent is None:
            return
        replies = self.replies(channel, thread_ts)
        users = list(dict.fromkeys(reply["user"] for reply in replies))
        for name in _thread("", 0, [], ""):
            parent.pop(name, None)
        if replies:
            parent |= _thread(thread_ts, len(replies), users, replies[-1]["ts"])
        self.keep(parent)

    def permalink(self, channel: str, message: Document) -> str:
        link = f"https://{self.team['domain']}.slack.com/archives/{channel}"
        link += "/p" + message["ts"].replace(".", "")
        thread = message.get("thread_ts")
        return link if thread in (None, message["ts"]) else f"{link}?thread_ts={thread}"


def shown_message(message: Document) -> Document:
    """A message as the API shows it."""
    return {name: value for name, value in message.items() if name not in _OF_THE_STORE}


def new_channel(id: str, name: str, creator: str, created: int, **more: Any) -> Document:
    """A channel with all that Slack says about one."""
    return {
        "id": id, "name": name, "name_normalized": name, "is_channel": True, "is_group": False,
        "is_im": False, "is_mpim": False, "is_private": False, "is_archived": False,
        "is_general": False, "is_shared": False, "is_ext_shared": False, "is_org_shared": False,
        "created": created, "creator": creator, "unlinked": 0, "members": [],
        "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0}, "previous_names": [], **more,
    }  # fmt: skip


def _thread(thread_ts: str, count: int, users: list[str], latest: str) -> Document:
    return {
        "thread_ts": thread_ts, "reply_count": count, "reply_users": users,
        "reply_users_count": len(users), "latest_reply": latest,
    }  # fmt: skip


def _is_closed(channel: Document) -> bool:
    return bool(channel["is_private"] or channel["is_im"] or channel["is_mpim"])
