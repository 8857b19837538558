"""conversations.*: channels and their members."""

from __future__ import annotations

import re
from typing import Any

from paddock_services.chat.arguments import Arguments, Document, SlackError
from paddock_services.chat.workspace import CHANNELS, Workspace, new_channel

_NAME = re.compile(r"[a-z0-9_\-]+")
_MAX_NAME = 80
_MAX_INVITED = 100
_MAX_DIRECT = 8
_MAX_TOPIC = 250
_TYPES = ("public_channel", "private_channel", "im", "mpim")


def list_channels(workspace: Workspace, args: Arguments) -> Document:
    types = args.names("types") or ["public_channel"]
    if not set(types) <= set(_TYPES):
        raise SlackError("invalid_types")
    channels = [
        channel
        for channel in workspace.store.find(CHANNELS)
        if _type(channel) in types
        and (not channel["is_private"] or workspace.is_member(channel))
        and not (args.flag("exclude_archived") and channel["is_archived"])
    ]
    return args.page(
        "channels", channels, lambda channel: show_channel(workspace, channel), "channel"
    )


def info(workspace: Workspace, args: Arguments) -> Document:
    return _answer(workspace, workspace.channel(args.required("channel")))


def open_direct(workspace: Workspace, args: Arguments) -> Document:
    if args.text("channel"):
        return _answer(workspace, workspace.channel(args.text("channel")))
    users = args.names("users")
    if not users:
        raise SlackError("users_list_not_supplied")
    if len(users) > _MAX_DIRECT:
        raise SlackError("too_many_users")
    channel = direct_channel(workspace, users)
    return {"channel": {"id": channel["id"]}}


def create(workspace: Workspace, args: Arguments) -> Document:
    name = args.text("name").removeprefix("#")
    if not name:
        raise SlackError("invalid_name_required")
    if len(name) > _MAX_NAME:
        raise SlackError("invalid_name_maxlength")
    if not _NAME.fullmatch(name):
        raise SlackError("invalid_name_specials")
    if workspace.channel_by_name(name):
        raise SlackError("name_taken")
    bot, created = workspace.bot, int(workspace.context.tick())
    channel = new_channel(
        workspace.new_id("C"), name, bot, created,
        is_private=args.flag("is_private"), members=[bot],
    )  # fmt: skip
    workspace.store.put(CHANNELS, channel["id"], channel)
    return _answer(workspace, channel)


def join(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.channel(args.required("channel"))
    if channel["is_private"]:
        raise SlackError("method_not_supported_for_channel_type")
    if channel["is_archived"]:
        raise SlackError("is_archived")
    if workspace.is_member(channel):
        return {**_answer(workspace, channel), "warning": "already_in_channel"}
    _add_member(workspace, channel, workspace.bot)
    return _answer(workspace, channel)


def members(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.channel(args.required("channel"))
    ids = [{"id": id} for id in channel["members"]]
    return args.page("members", ids, lambda member: member["id"], "user")


def invite(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.writable_channel(args.required("channel"))
    users = list(dict.fromkeys(args.names("users")))
    if not users:
        raise SlackError("no_user")
    if len(users) > _MAX_INVITED:
        raise SlackError("too_many_users")
    for user in users:
        workspace.user(user)
        if user == workspace.bot:
            raise SlackError("cant_invite_self")
        if user in channel["members"]:
            raise SlackError("already_in_channel")
    for user in users:
        _add_member(workspace, channel, user, inviter=workspace.bot)
    return _answer(workspace, channel)


def archive(workspace: Workspace, args: Arguments) -> Document:
    channel = workspace.channel(args.required("channel"))
    if channel["is_archived"]:
        raise SlackError("already_archived")
    if channel["is_general"]:
        raise SlackError("cant_archive_general")
    _change(workspace, channel, is_archived=True)
    return {}


def set_topic(workspace: Workspace, args: Arguments) -> Document:
    return _describe(workspace, args, "topic")


def set_purpose(workspace: Workspace, args: Arguments) -> Document:
    return _describe(workspace, args, "purpose")


METHODS = {
    "conversations.list": list_channels,
    "conversations.info": info,
    "conversations.open": open_direct,
    "conversations.create": create,
    "conversations.join": join,
    "conversations.members": members,
    "conversations.invite": invite,
    "conversations.archive": archive,
    "conversations.setTopic": set_topic,
    "conversations.setPurpose": set_purpose,
}


def direct_channel(workspace: Workspace, users: list[str]) -> Document:
    """Return the conversation of the bot with these users. It is created when it is needed."""
    bot = workspace.bot
    people = sorted({workspace.user(user)["id"] for user in users} | {bot})
    is_group = len(people) > 2
    kind = "is_mpim" if is_group else "is_im"
    for channel in workspace.store.find(CHANNELS, {kind: True}):
        if sorted(channel["members"]) == people:
            return channel
    fields: dict[str, Any] = {kind: True, "is_private": True, "is_group": False, "members": people}
    if is_group:
        id, name = workspace.new_id("G"), "mpdm-" + "--".join(people).lower() + "-1"
    else:
        id, name = workspace.new_id("D"), ""
        others = [user for user in people if user != bot]
        fields["user"] = others[0] if others else bot
    channel = new_channel(id, name, bot, int(workspace.context.tick()), **fields)
    workspace.store.put(CHANNELS, id, channel)
    return channel


def show_channel(workspace: Workspace, channel: Document) -> Document:
    hidden = {"members"} | ({"name", "name_normalized"} if channel["is_im"] else set())
    shown = {name: value for name, value in channel.items() if name not in hidden}
    return {
        **shown,
        "is_member": workspace.is_member(channel),
        "num_members": len(channel["members"]),
        "context_team_id": workspace.team["id"],
    }


def _answer(workspace: Workspace, channel: Document) -> Document:
    return {"channel": show_channel(workspace, channel)}


def _type(channel: Document) -> str:
    if channel["is_im"]:
        return "im"
    if channel["is_mpim"]:
        return "mpim"
    return "private_channel" if channel["is_private"] else "public_channel"


def _change(workspace: Workspace, channel: Document, **changes: Any) -> None:
    workspace.context.tick()
    channel |= changes
    workspace.store.put(CHANNELS, channel["id"], channel)


def _describe(workspace: Workspace, args: Arguments, field: str) -> Document:
    channel = workspace.writable_channel(args.required("channel"))
    text = args.text(field)
    if len(text) > _MAX_TOPIC:
        raise SlackError("too_long")
    now = int(workspace.context.now())
    value = {"value": text, "creator": workspace.bot, "last_set": now}
    _change(workspace, channel, **{field: value})
    return _answer(workspace, channel)


def _add_member(workspace: Workspace, channel: Document, user: str, **fields: Any) -> None:
    _change(workspace, channel, members=[*channel["members"], user])
    text = f"<@{user}> has joined the channel"
    workspace.post(channel["id"], user, text, subtype="channel_join", **fields)
