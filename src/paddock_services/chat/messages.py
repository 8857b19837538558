"""chat.*: posting, changing and deleting messages."""

from __future__ import annotations

from typing import Any

from paddock_services.chat.call import Call, ChatError
from paddock_services.chat.conversations import direct_channel
from paddock_services.chat.workspace import (
    MESSAGES,
    USERS,
    Document,
    Workspace,
    shown_message,
)

MAX_TEXT = 40_000  # characters; Slack cuts off what is longer
MAX_BLOCKS = 50
MAX_ATTACHMENTS = 100
_LOOKS = ("username", "icon_emoji", "icon_url")
_GONE = "This message was deleted."


def post_message(workspace: Workspace, call: Call) -> Document:
    channel = _target(workspace, call.need("channel"))
    content = _content(call)
    thread = call.text("thread_ts")
    if thread:
        content |= _in_thread(workspace, channel["id"], thread, call)
    looks: dict[str, Any] = {name: call.text(name) for name in _LOOKS if call.text(name)}
    metadata = call.structure("metadata", "invalid_metadata_format")
    if metadata is not None:
        if not isinstance(metadata, dict):
            raise ChatError("invalid_metadata_format")
        looks["metadata"] = metadata
    text = content.pop("text")
    message = workspace.say(
        channel["id"], workspace.me, text, **_bot(workspace), **content, **looks
    )
    shown = shown_message(message)
    return {"channel": channel["id"], "ts": message["ts"], "message": shown}


def update(workspace: Workspace, call: Call) -> Document:
    channel = workspace.joined(call.need("channel"))
    message = workspace.message(channel["id"], call.need("ts"))
    if message["user"] != workspace.me or message.get("subtype") == "tombstone":
        raise ChatError("cant_update_message")
    message |= _content(call)
    message["edited"] = {"user": workspace.me, "ts": workspace.new_ts()}
    workspace.keep(message)
    shown = shown_message(message)
    return {"channel": channel["id"], "ts": message["ts"], "text": message["text"],
            "message": shown}  # fmt: skip


def delete(workspace: Workspace, call: Call) -> Document:
    channel = workspace.joined(call.need("channel"))
    message = workspace.message(channel["id"], call.need("ts"))
    if message["user"] != workspace.me or message.get("subtype") == "tombstone":
        raise ChatError("cant_delete_message")
    workspace.context.tick()
    if message.get("reply_count"):
        _bury(workspace, message)
    else:
        workspace.store.delete(MESSAGES, message["id"])
        if message.get("thread_ts"):
            workspace.count_replies(channel["id"], message["thread_ts"])
    workspace.store.delete("pins", message["id"])
    return {"channel": channel["id"], "ts": message["ts"]}


def post_ephemeral(workspace: Workspace, call: Call) -> Document:
    channel = workspace.joined(call.need("channel"))
    user = call.need("user")
    if user not in channel["members"]:
        raise ChatError("user_not_in_channel")
    ts = workspace.new_ts()
    seen = {"channel": channel["id"], "to": user, "user": workspace.me, "ts": ts, **_content(call)}
    workspace.store.put("ephemerals", f"{channel['id']}:{ts}", seen)
    return {"message_ts": ts}


def get_permalink(workspace: Workspace, call: Call) -> Document:
    channel = workspace.channel(call.need("channel"))
    message = workspace.message(channel["id"], call.need("message_ts"))
    return {"channel": channel["id"], "permalink": workspace.permalink(channel["id"], message)}


METHODS = {
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.delete": delete,
    "chat.postEphemeral": post_ephemeral,
    "chat.getPermalink": get_permalink,
}


def _target(workspace: Workspace, name: str) -> Document:
    """By id or name; the id of a user means the conversation with them."""
    if workspace.store.has(USERS, name):
        return direct_channel(workspace, [name])
    named = workspace.named_channel(name)
    return workspace.joined(named["id"] if named else name)


def _content(call: Call) -> dict[str, Any]:
    text = call.text("text")[:MAX_TEXT]
    found: dict[str, Any] = {"text": text}
    for name, most in (("blocks", MAX_BLOCKS), ("attachments", MAX_ATTACHMENTS)):
        value = call.structure(name, f"invalid_{name}_format")
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ChatError(f"invalid_{name}")
        if len(value) > most:
            raise ChatError("too_many_attachments" if name == "attachments" else "invalid_blocks")
        found[name] = value
    if any(not isinstance(block.get("type"), str) for block in found.get("blocks", [])):
        raise ChatError("invalid_blocks")
    if not text.strip() and not found.get("blocks") and not found.get("attachments"):
        raise ChatError("no_text")
    return found


def _in_thread(workspace: Workspace, channel: str, thread: str, call: Call) -> dict[str, Any]:
    parent = workspace.store.get(MESSAGES, f"{channel}:{thread}")
    if parent is None:
        raise ChatError("thread_not_found")
    if parent.get("thread_ts") not in (None, thread):
        raise ChatError("cannot_reply_to_message")
    found: dict[str, Any] = {"thread_ts": thread, "parent_user_id": parent["user"]}
    if call.flag("reply_broadcast"):
        found["subtype"] = "thread_broadcast"
    return found


def _bot(workspace: Workspace) -> dict[str, Any]:
    team = workspace.team
    return {"bot_id": team["bot_id"], "app_id": team["app_id"], "team": team["id"]}


def _bury(workspace: Workspace, message: Document) -> None:
    """A message with replies leaves a stone, so that its thread still hangs on something."""
    for name in ("blocks", "attachments", "files", "reactions", "edited", "metadata", "pinned_to"):
        message.pop(name, None)
    workspace.keep(message | {"subtype": "tombstone", "text": _GONE, "hidden": True})
