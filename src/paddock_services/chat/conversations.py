"""conversations.*: channels, who is in them, and what was said there."""

from __future__ import annotations

import re
from typing import Any

from paddock_services.chat.call import Call, ChatError, page
from paddock_services.chat.workspace import CHANNELS, Document, Workspace, new_channel

_NAME = re.compile(r"[a-z0-9_\-]+")
_MAX_NAME = 80
_MAX_INVITED = 100
_MAX_TOPIC = 250


def list_channels(workspace: Workspace, call: Call) -> Document:
    types = set(call.names("types") or ["public_channel"])
    if types - {"public_channel", "private_channel", "im", "mpim"}:
        raise ChatError("invalid_types")
    found = [
        channel
        for channel in workspace.store.find(CHANNELS)
        if _type(channel) in types
        and (_type(channel) == "public_channel" or workspace.me in channel["members"])
        and not (call.flag("exclude_archived") and channel["is_archived"])
    ]
    shown, more = page(found, call, "channel")
    return {"channels": [shown_channel(workspace, channel) for channel in shown], **more}


def info(workspace: Workspace, call: Call) -> Document:
    return _answer(workspace, workspace.channel(call.need("channel")))


def open_direct(workspace: Workspace, call: Call) -> Document:
    if call.text("channel"):
        return _answer(workspace, workspace.channel(call.text("channel")))
    users = call.names("users")
    if not users:
        raise ChatError("users_list_not_supplied")
    if len(users) > 8:
        raise ChatError("too_many_users")
    channel = direct_channel(workspace, users)
    return {"channel": {"id": channel["id"]} if not call.flag("return_im")
            else shown_channel(workspace, channel)}  # fmt: skip


def create(workspace: Workspace, call: Call) -> Document:
    name = call.text("name").removeprefix("#")
    _check_name(workspace, name)
    is_private = call.flag("is_private")
    channel = new_channel(
        workspace.new_id("C"), name, workspace.me, int(workspace.context.tick()),
        is_private=is_private, is_channel=not is_private, is_group=is_private,
        members=[workspace.me],
    )  # fmt: skip
    workspace.store.put(CHANNELS, channel["id"], channel)
    return _answer(workspace, channel)


def join(workspace: Workspace, call: Call) -> Document:
    channel = workspace.channel(call.need("channel"))
    if _type(channel) != "public_channel":
        raise ChatError("method_not_supported_for_channel_type")
    if channel["is_archived"]:
        raise ChatError("is_archived")
    if workspace.me in channel["members"]:
        return {**_answer(workspace, channel), "warning": "already_in_channel"}
    _enter(workspace, channel, workspace.me)
    return _answer(workspace, channel)


def leave(workspace: Workspace, call: Call) -> Document:
    channel = workspace.channel(call.need("channel"))
    if channel["is_general"]:
        raise ChatError("cant_leave_general")
    if workspace.me not in channel["members"]:
        return {"not_in_channel": True}
    _remove(workspace, channel, workspace.me)
    return {}


def members(workspace: Workspace, call: Call) -> Document:
    channel = workspace.channel(call.need("channel"))
    shown, more = page([{"id": id} for id in channel["members"]], call, "user")
    return {"members": [one["id"] for one in shown], **more}


def invite(workspace: Workspace, call: Call) -> Document:
    channel = workspace.joined(call.need("channel"))
    users = call.names("users")
    if not users:
        raise ChatError("no_user")
    if len(users) > _MAX_INVITED:
        raise ChatError("too_many_users")
    for user in users:
        workspace.user(user)
        if user == workspace.me:
            raise ChatError("cant_invite_self")
        if user in channel["members"]:
            raise ChatError("already_in_channel")
    for user in dict.fromkeys(users):
        _enter(workspace, channel, user, inviter=workspace.me)
    return _answer(workspace, channel)


def kick(workspace: Workspace, call: Call) -> Document:
    channel = workspace.joined(call.need("channel"))
    user = workspace.user(call.need("user"))["id"]
    if user == workspace.me:
        raise ChatError("cant_kick_self")
    if user not in channel["members"]:
        raise ChatError("not_in_channel")
    if channel["is_general"]:
        raise ChatError("cant_kick_from_general")
    _remove(workspace, channel, user)
    return {"errors": {}}


def archive(workspace: Workspace, call: Call) -> Document:
    channel = workspace.channel(call.need("channel"))
    if channel["is_archived"]:
        raise ChatError("already_archived")
    if channel["is_general"]:
        raise ChatError("cant_archive_general")
    _change(workspace, channel, is_archived=True)
    return {}


def unarchive(workspace: Workspace, call: Call) -> Document:
    channel = workspace.channel(call.need("channel"))
    if not channel["is_archived"]:
        raise ChatError("not_archived")
    _change(workspace, channel, is_archived=False)
    return {}


def rename(workspace: Workspace, call: Call) -> Document:
    channel = workspace.joined(call.need("channel"))
    name = call.text("name").removeprefix("#")
    _check_name(workspace, name)
    previous = [channel["name"], *channel["previous_names"]][:10]
    _change(workspace, channel, name=name, name_normalized=name, previous_names=previous)
    return _answer(workspace, channel)


def set_topic(workspace: Workspace, call: Call) -> Document:
    return _describe(workspace, call, "topic")


def set_purpose(workspace: Workspace, call: Call) -> Document:
    return _describe(workspace, call, "purpose")


METHODS = {
    "conversations.list": list_channels,
    "conversations.info": info,
    "conversations.open": open_direct,
    "conversations.create": create,
    "conversations.join": join,
    "conversations.leave": leave,
    "conversations.members": members,
    "conversations.invite": invite,
    "conversations.kick": kick,
    "conversations.archive": archive,
    "conversations.unarchive": unarchive,
    "conversations.rename": rename,
    "conversations.setTopic": set_topic,
    "conversations.setPurpose": set_purpose,
}


def direct_channel(workspace: Workspace, users: list[str]) -> Document:
    """The conversation with these people; it is made when it is needed."""
    people = sorted({workspace.user(user)["id"] for user in users} | {workspace.me})
    kind = "is_im" if len(people) <= 2 else "is_mpim"
    for channel in workspace.store.find(CHANNELS, {kind: True}):
        if sorted(channel["members"]) == people:
            return channel
    id, created = workspace.new_id("D" if kind == "is_im" else "G"), int(workspace.context.tick())
    name = "" if kind == "is_im" else "mpdm-" + "--".join(people).lower() + "-1"
    others = [user for user in people if user != workspace.me]
    more: dict[str, Any] = {kind: True, "is_channel": False, "is_private": True, "members": people}
    if kind == "is_im":
        more["user"] = others[0] if others else workspace.me
    channel = new_channel(id, name, workspace.me, created, **more)
    workspace.store.put(CHANNELS, id, channel)
    return channel


def shown_channel(workspace: Workspace, channel: Document) -> Document:
    shown = {name: value for name, value in channel.items() if name != "members"}
    if channel["is_im"]:
        shown.pop("name"), shown.pop("name_normalized")
    is_member = workspace.me in channel["members"]
    return {**shown, "is_member": is_member, "num_members": len(channel["members"]),
            "context_team_id": workspace.team["id"]}  # fmt: skip


def _answer(workspace: Workspace, channel: Document) -> Document:
    return {"channel": shown_channel(workspace, channel)}


def _type(channel: Document) -> str:
    if channel["is_im"]:
        return "im"
    if channel["is_mpim"]:
        return "mpim"
    return "private_channel" if channel["is_private"] else "public_channel"


def _check_name(workspace: Workspace, name: str) -> None:
    if not name:
        raise ChatError("invalid_name_required")
    if len(name) > _MAX_NAME:
        raise ChatError("invalid_name_maxlength")
    if not _NAME.fullmatch(name):
        raise ChatError("invalid_name_specials")
    if workspace.named_channel(name):
        raise ChatError("name_taken")


def _change(workspace: Workspace, channel: Document, **changes: Any) -> None:
    workspace.context.tick()
    channel |= changes
    workspace.store.put(CHANNELS, channel["id"], channel)


def _describe(workspace: Workspace, call: Call, what: str) -> Document:
    channel = workspace.joined(call.need("channel"))
    value = call.text(what)
    if len(value) > _MAX_TOPIC:
        raise ChatError("too_long")
    now = int(workspace.context.now())
    _change(workspace, channel,
            **{what: {"value": value, "creator": workspace.me, "last_set": now}})  # fmt: skip
    return _answer(workspace, channel)


def _enter(workspace: Workspace, channel: Document, user: str, **more: Any) -> None:
    _change(workspace, channel, members=[*channel["members"], user])
    text = f"<@{user}> has joined the channel"
    workspace.say(channel["id"], user, text, subtype="channel_join", **more)


def _remove(workspace: Workspace, channel: Document, user: str) -> None:
    _change(workspace, channel, members=[one for one in channel["members"] if one != user])
    text = f"<@{user}> has left the channel"
    workspace.say(channel["id"], user, text, subtype="channel_leave")
