"""The workspace in the store: its users, channels and messages. Knows nothing of HTTP."""

from __future__ import annotations

from typing import Any

from paddock.world.context import Context
from paddock_services.chat.arguments import Document, SlackError

TEAM, USERS, CHANNELS, MESSAGES = "team", "users", "channels", "messages"
_INTERNAL_FIELDS = ("id", "channel", "is_reply")  # of a message; Slack does not show them
_THREAD_FIELDS = ("thread_ts", "reply_count", "reply_users", "reply_users_count", "latest_reply")


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
        team = self.store.get(TEAM, TEAM)
        if team is None:
            raise SlackError("team_not_found")
        return team

    @property
    def bot(self) -> str:
        """Return the id of the bot's user."""
        return str(self.team["bot_user_id"])

    def new_id(self, prefix: str) -> str:
        return self.context.new_id(prefix, 10).upper()

    def new_ts(self) -> str:
        """Return a timestamp, which is also the name of a message in its channel."""
        return f"{int(self.context.tick())}.{self.store.next('ts') % 1_000_000:06d}"

    def user(self, id: str) -> Document:
        user = self.store.get(USERS, id)
        if user is None:
            raise SlackError("user_not_found")
        return user

    def channel(self, id: str) -> Document:
        """Return a channel that the bot can see."""
        channel = self.store.get(CHANNELS, id)
        if channel is None or (channel["is_private"] and not self.is_member(channel)):
            raise SlackError("channel_not_found")
        return channel

    def channel_by_name(self, name: str) -> Document | None:
        channels = self.store.find(CHANNELS, {"name": name.removeprefix("#")}, limit=1)
        return channels[0] if channels else None

    def is_member(self, channel: Document) -> bool:
        return self.bot in channel["members"]

    def readable_channel(self, id: str) -> Document:
        """Return a channel that the bot is in."""
        channel = self.channel(id)
        if not self.is_member(channel):
            raise SlackError("not_in_channel")
        return channel

    def writable_channel(self, id: str) -> Document:
        """Return a channel that the bot is in and that is not archived."""
        channel = self.readable_channel(id)
        if channel["is_archived"]:
            raise SlackError("is_archived")
        return channel

    def message(self, channel: str, ts: str) -> Document:
        message = self.store.get(MESSAGES, f"{channel}:{ts}")
        if message is None:
            raise SlackError("message_not_found")
        return message

    def put_message(self, message: Document) -> None:
        self.store.put(MESSAGES, message["id"], message)

    def post(self, channel: str, user: str, text: str, **fields: Any) -> Document:
        """Put a new message into a channel, and count it in the thread that it belongs to."""
        ts = str(fields.pop("ts", None) or self.new_ts())
        thread = fields.get("thread_ts")
        is_in_thread = bool(thread and thread != ts)
        is_reply = is_in_thread and fields.get("subtype") != "thread_broadcast"
        message: Document = {
            "id": f"{channel}:{ts}", "channel": channel, "is_reply": is_reply,
            "type": "message", "user": user, "text": text, "ts": ts, **fields,
        }  # fmt: skip
        self.put_message(message)
        if is_in_thread:
            self.count_replies(channel, str(thread))
        return message

    def replies(self, channel: str, thread_ts: str) -> list[Document]:
        messages = self.store.find(MESSAGES, {"channel": channel, "thread_ts": thread_ts})
        return [message for message in messages if message["ts"] != thread_ts]

    def count_replies(self, channel: str, thread_ts: str) -> None:
        """Bring the first message of a thread up to date after a reply has come or gone."""
        parent = self.store.get(MESSAGES, f"{channel}:{thread_ts}")
        if parent is None:
            return
        replies = self.replies(channel, thread_ts)
        for name in _THREAD_FIELDS:
            parent.pop(name, None)
        if replies:
            users = list(dict.fromkeys(reply["user"] for reply in replies))
            values = (thread_ts, len(replies), users, len(users), replies[-1]["ts"])
            parent |= dict(zip(_THREAD_FIELDS, values, strict=True))
        self.put_message(parent)

    def permalink(self, message: Document) -> str:
        link = f"https://{self.team['domain']}.slack.com/archives/{message['channel']}"
        link += "/p" + message["ts"].replace(".", "")
        thread = message.get("thread_ts")
        return link if thread in (None, message["ts"]) else f"{link}?thread_ts={thread}"


def show_message(message: Document) -> Document:
    return {name: value for name, value in message.items() if name not in _INTERNAL_FIELDS}


def new_channel(id: str, name: str, creator: str, created: int, **fields: Any) -> Document:
    """Return a channel with all the fields that Slack shows of one."""
    is_private = bool(fields.get("is_private"))
    return {
        "id": id, "name": name, "name_normalized": name, "is_channel": not is_private,
        "is_group": is_private, "is_im": False, "is_mpim": False, "is_private": is_private,
        "is_archived": False, "is_general": False, "is_shared": False, "is_ext_shared": False,
        "is_org_shared": False, "created": created, "creator": creator, "unlinked": 0,
        "members": [], "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0}, "previous_names": [], **fields,
    }  # fmt: skip
