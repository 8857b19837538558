"""chat.*, the history of conversations, reactions.* and search.messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from paddock.world.kit import InvalidCursor, numbered_page, parse_terms, store_page
from paddock_services.chat.arguments import Arguments, Document, SlackError, next_cursor
from paddock_services.chat.blocks import check_blocks
from paddock_services.chat.conversations import direct_channel
from paddock_services.chat.workspace import CHANNELS, MESSAGES, USERS, Workspace, show_message

MAX_TEXT = 40_000  # characters; Slack cuts off what is longer
_MAX_ATTACHMENTS = 100
_MAX_QUERY = 1000
_MAX_REACTIONS = 23  # kinds of them on one message
_BOT_STYLE = ("username", "icon_emoji", "icon_url")
_CONTENT = ("blocks", "attachments", "files", "reactions", "edited")
_DELETED = "This message was deleted."
_TS = re.compile(r"\d{1,12}(\.\d{1,9})?")
_EMOJI = re.compile(r"[a-z0-9_+\-']{1,100}(::skin-tone-[2-6])?")


def post_message(workspace: Workspace, args: Arguments) -> Document:
    channel = _find_target(workspace, args.required("channel"))
    fields = _read_content(args)
    thread = args.text("thread_ts")
    if thread:
        fields |= _thread_fields(workspace, channel["id"], thread, args)
    fields |= {name: args.text(name) for name in _BOT_STYLE if args.text(name)}
    team = workspace.team
    bot = {"bot_id": team["bot_id"], "app_id": team["app_id"], "team": team["id"]}
    message = workspace.post(channel["id"], workspace.bot, fields.pop("text"), **bot, **fields)
    return {"channel": channel["id"], "ts": message["ts"], "message": show_message(message)}


def update(workspace: Workspace, args: Arguments) -> Document:
    message = _own_message(workspace, args, "cant_update_message")
    message |= _read_content(args)
    message["edited"] = {"user": workspace.bot, "ts": workspace.new_ts()}
    workspace.put_message(message)
    answer = {"channel": message["channel"], "ts": message["ts"], "text": message["text"]}
    return {**answer, "message": show_message(message)}


def delete(workspace: Workspace, args: Arguments) -> Document:
    """Delete a message. One with replies leaves a tombstone for its thread to hang on."""
    message = _own_message(workspace, args, "cant_delete_message")
    workspace.context.tick()
    if message.get("reply_count"):
        for name in _CONTENT:
            message.pop(name, None)
        message |= {"subtype": "tombstone", "text": _DELETED, "hidden": True}
        workspace.put_message(message)
    else:
        workspace.store.delete(MESSAGES, message["id"])
        if message.get("thread_ts"):
            workspace.count_replies(message["channel"], message["thread_ts"])
    return {"channel": message["channel"], "ts": message["ts"]}


def post_ephemeral(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.writable_channel(args.required("channel"))
    user = args.required("user")
    if user not in channel["members"]:
        raise SlackError("user_not_in_channel")
    ts = workspace.new_ts()
    message = {"channel": channel["id"], "to": user, "user": workspace.bot, "ts": ts}
    message |= _read_content(args)
    workspace.store.put("ephemerals", f"{channel['id']}:{ts}", message)
    return {"message_ts": ts}


def get_permalink(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.channel(args.required("channel"))["id"]
    message = workspace.message(channel, args.required("message_ts"))
    return {"channel": channel, "permalink": workspace.permalink(message)}


def history(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.readable_channel(args.required("channel"))["id"]
    cursor, is_between = args.cursor("next_ts"), _time_filter(args)
    try:
        page = store_page(
            workspace.store,
            MESSAGES,
            args.limit(),
            where={"channel": channel, "is_reply": False},
            is_wanted=is_between,
            after=None if cursor is None else f"{channel}:{cursor}",
        )
    except InvalidCursor:
        raise SlackError("invalid_cursor") from None
    last = page.items[-1]["ts"] if page.has_next else None
    return {
        "messages": [show_message(message) for message in page.items],
        "has_more": page.has_next,
        "pin_count": 0,
        **next_cursor("next_ts", last),
    }


def replies(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.readable_channel(args.required("channel"))["id"]
    ts = args.required("ts")
    first = workspace.store.get(MESSAGES, f"{channel}:{ts}")
    if first is None:
        raise SlackError("thread_not_found")
    thread = [first]
    if not first["is_reply"]:
        thread += filter(_time_filter(args), workspace.replies(channel, ts))
    answer = args.page("messages", thread, show_message, "thread")
    has_more = bool(answer["response_metadata"]["next_cursor"])
    return {**answer, "has_more": has_more}


def search(workspace: Workspace, args: Arguments) -> Document:
    query = args.required("query")[:_MAX_QUERY]
    size, number = args.number("count", 20, 100), args.number("page", 1, 100)
    matches = _search_filter(workspace, query)
    messages = [m for m in workspace.store.find(MESSAGES, newest_first=True) if matches(m)]
    if args.text("sort_dir") == "asc":
        messages.reverse()
    page = numbered_page(messages, number, size)
    paging = {"count": size, "total": page.total, "page": number, "pages": page.last}
    shown = [_show_match(workspace, message) for message in page.items]
    answer = {"total": page.total, "matches": shown, "paging": paging}
    return {"query": query, "messages": answer}


def add_reaction(workspace: Workspace, args: Arguments) -> Document:
    message, reactions, name = _read_reaction(workspace, args)
    users = reactions.setdefault(name, [])
    if workspace.bot in users:
        raise SlackError("already_reacted")
    if len(reactions) > _MAX_REACTIONS:
        raise SlackError("too_many_emoji")
    users.append(workspace.bot)
    return _put_reactions(workspace, message, reactions)


def remove_reaction(workspace: Workspace, args: Arguments) -> Document:
    message, reactions, name = _read_reaction(workspace, args)
    if workspace.bot not in reactions.get(name, []):
        raise SlackError("no_reaction")
    reactions[name].remove(workspace.bot)
    return _put_reactions(workspace, message, reactions)


METHODS = {
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.delete": delete,
    "chat.postEphemeral": post_ephemeral,
    "chat.getPermalink": get_permalink,
    "conversations.history": history,
    "conversations.replies": replies,
    "search.messages": search,
    "reactions.add": add_reaction,
    "reactions.remove": remove_reaction,
}


def _find_target(workspace: Workspace, name: str) -> Document:
    """Return a channel by id or name. The id of a user means the conversation with them."""
    if workspace.store.has(USERS, name):
        return direct_channel(workspace, [name])
    channel = workspace.channel_by_name(name)
    return workspace.writable_channel(channel["id"] if channel else name)


def _own_message(workspace: Workspace, args: Arguments, error: str) -> Document:
    """Return a message that the bot wrote and that is still there."""
    channel = workspace.writable_channel(args.required("channel"))["id"]
    message = workspace.message(channel, args.required("ts"))
    if message["user"] != workspace.bot or message.get("subtype") == "tombstone":
        raise SlackError(error)
    return message


def _read_content(args: Arguments) -> dict[str, Any]:
    """Return text, blocks and attachments of a message, of which it must have one."""
    content: dict[str, Any] = {"text": args.text("text")[:MAX_TEXT]}
    for name in ("blocks", "attachments"):
        items = args.json(name, f"invalid_{name}_format")
        if items is None:
            continue
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise SlackError(f"invalid_{name}")
        content[name] = items
    check_blocks(content.get("blocks", []))
    if len(content.get("attachments", [])) > _MAX_ATTACHMENTS:
        raise SlackError("too_many_attachments")
    if not content["text"].strip() and not content.get("blocks") and not content.get("attachments"):
        raise SlackError("no_text")
    return content


def _thread_fields(
    workspace: Workspace, channel: str, thread: str, args: Arguments
) -> dict[str, Any]:
    parent = workspace.store.get(MESSAGES, f"{channel}:{thread}")
    if parent is None:
        raise SlackError("thread_not_found")
    if parent.get("thread_ts") not in (None, thread):
        raise SlackError("cannot_reply_to_message")
    fields = {"thread_ts": thread, "parent_user_id": parent["user"]}
    if args.flag("reply_broadcast"):
        fields["subtype"] = "thread_broadcast"
    return fields


def _time_filter(args: Arguments) -> Callable[[Document], bool]:
    """Return whether a message is between `oldest` and `latest`."""
    bounds = []
    for name, default in (("oldest", "0"), ("latest", "999999999999")):
        text = args.text(name, default)
        if not _TS.fullmatch(text):
            raise SlackError(f"invalid_ts_{name}")
        bounds.append(float(text))
    oldest, latest = bounds
    is_inclusive = args.flag("inclusive")

    def is_between(message: Document) -> bool:
        ts = float(message["ts"])
        if ts in (oldest, latest):
            return is_inclusive
        return oldest < ts < latest

    return is_between


def _search_filter(workspace: Workspace, query: str) -> Callable[[Document], bool]:
    """Return whether a message matches a query: all of its words, `in:#channel`, `from:@user`. The
    bot finds only what is said in its own channels."""
    channels = {
        channel["id"] for channel in workspace.store.find(CHANNELS) if workspace.is_member(channel)
    }
    users: set[str] | None = None
    words = []
    for term in parse_terms(query):
        if term.field == "in":
            channel = workspace.channel_by_name(term.value)
            channels &= {channel["id"] if channel else term.value}
        elif term.field == "from":
            name = term.value.strip("<@>")
            users = {name} | {user["id"] for user in workspace.store.find(USERS, {"name": name})}
            if name == "me":
                users.add(workspace.bot)
        else:
            words.append(term.text.lower())

    def matches(message: Document) -> bool:
        if message["channel"] not in channels:
            return False
        if users is not None and message["user"] not in users:
            return False
        text = message["text"].lower()
        return all(word in text for word in words)

    return matches


def _show_match(workspace: Workspace, message: Document) -> Document:
    channel = workspace.store.get(CHANNELS, message["channel"]) or {}
    user = workspace.store.get(USERS, message["user"]) or {}
    return {
        **show_message(message),
        "iid": message["id"],
        "team": workspace.team["id"],
        "channel": {name: channel.get(name) for name in ("id", "name", "is_private")},
        "username": user.get("name", ""),
        "permalink": workspace.permalink(message),
    }


def _read_reaction(
    workspace: Workspace, args: Arguments
) -> tuple[Document, dict[str, list[str]], str]:
    """Return a message, the users of each reaction on it, and the reaction that is meant."""
    channel, ts = args.text("channel"), args.text("timestamp")
    if not channel or not ts:
        raise SlackError("no_item_specified")
    message = workspace.message(workspace.readable_channel(channel)["id"], ts)
    name = args.text("name").strip(":")
    if not _EMOJI.fullmatch(name):
        raise SlackError("invalid_name")
    reactions = {item["name"]: item["users"] for item in message.get("reactions", [])}
    return message, reactions, name


def _put_reactions(
    workspace: Workspace, message: Document, reactions: dict[str, list[str]]
) -> Document:
    workspace.context.tick()
    message["reactions"] = [
        {"name": name, "users": users, "count": len(users)}
        for name, users in reactions.items()
        if users
    ]
    if not message["reactions"]:
        del message["reactions"]
    workspace.put_message(message)
    return {}
