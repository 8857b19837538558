"""reactions.* and pins.*: what people put on a message."""

from __future__ import annotations

import re

from paddock_services.chat.call import Call, ChatError
from paddock_services.chat.workspace import Document, Workspace, shown_message

_EMOJI = re.compile(r"[a-z0-9_+\-']{1,100}(::skin-tone-[2-6])?")
_MAX_REACTIONS = 23  # kinds of them on one message


def add(workspace: Workspace, call: Call) -> Document:
    message, name = _item(workspace, call), _emoji(call)
    reactions = message.setdefault("reactions", [])
    mine = next((one for one in reactions if one["name"] == name), None)
    if mine and workspace.me in mine["users"]:
        raise ChatError("already_reacted")
    if mine is None:
        if len(reactions) >= _MAX_REACTIONS:
            raise ChatError("too_many_emoji")
        mine = {"name": name, "users": [], "count": 0}
        reactions.append(mine)
    mine["users"].append(workspace.me)
    _recount(workspace, message)
    return {}


def remove(workspace: Workspace, call: Call) -> Document:
    message, name = _item(workspace, call), _emoji(call)
    mine = next((one for one in message.get("reactions", []) if one["name"] == name), None)
    if mine is None or workspace.me not in mine["users"]:
        raise ChatError("no_reaction")
    mine["users"].remove(workspace.me)
    _recount(workspace, message)
    return {}


def get(workspace: Workspace, call: Call) -> Document:
    message = _item(workspace, call)
    link = workspace.permalink(message["channel"], message)
    return {"type": "message", "channel": message["channel"],
            "message": {**shown_message(message), "permalink": link}}  # fmt: skip


def pin(workspace: Workspace, call: Call) -> Document:
    message = _item(workspace, call)
    if workspace.store.has("pins", message["id"]):
        raise ChatError("already_pinned")
    created = int(workspace.context.tick())
    kept = {"channel": message["channel"], "ts": message["ts"], "created": created,
            "created_by": workspace.me}  # fmt: skip
    workspace.store.put("pins", message["id"], kept)
    workspace.keep(message | {"pinned_to": [message["channel"]]})
    return {}


def unpin(workspace: Workspace, call: Call) -> Document:
    message = _item(workspace, call)
    if not workspace.store.delete("pins", message["id"]):
        raise ChatError("no_pin")
    workspace.context.tick()
    message.pop("pinned_to", None)
    workspace.keep(message)
    return {}


def pins(workspace: Workspace, call: Call) -> Document:
    channel = workspace.readable(call.need("channel"))["id"]
    kept = workspace.store.find("pins", {"channel": channel}, newest_first=True)
    items = [
        {"type": "message", "channel": channel, "created": one["created"],
         "created_by": one["created_by"],
         "message": shown_message(workspace.message(channel, one["ts"]))}
        for one in kept
    ]  # fmt: skip
    return {"items": items}


METHODS = {
    "reactions.add": add,
    "reactions.remove": remove,
    "reactions.get": get,
    "pins.add": pin,
    "pins.remove": unpin,
    "pins.list": pins,
}


def _item(workspace: Workspace, call: Call) -> Document:
    if not call.text("channel") or not call.text("timestamp"):
        raise ChatError("no_item_specified")
    channel = workspace.readable(call.text("channel"))
    return workspace.message(channel["id"], call.text("timestamp"))


def _emoji(call: Call) -> str:
    name = call.text("name").strip(":")
    if not _EMOJI.fullmatch(name):
        raise ChatError("invalid_name")
    return name


def _recount(workspace: Workspace, message: Document) -> None:
    workspace.context.tick()
    kept = [one for one in message["reactions"] if one["users"]]
    for one in kept:
        one["count"] = len(one["users"])
    message["reactions"] = kept
    if not kept:
        del message["reactions"]
    workspace.keep(message)
