"""auth.test, api.test, team.info and users.*: who is there, and who is calling."""

from __future__ import annotations

from paddock_services.chat.call import Call, ChatError, next_cursor, page
from paddock_services.chat.conversations import shown_channel
from paddock_services.chat.workspace import CHANNELS, USERS, Document, Workspace


def api_test(workspace: Workspace, call: Call) -> Document:
    arguments = dict(call.arguments)
    if call.text("error"):
        raise ChatError(call.text("error")[:100], args=arguments)
    return {"args": arguments}


def auth_test(workspace: Workspace, call: Call) -> Document:
    team, bot = workspace.team, workspace.user(workspace.me)
    return {
        "url": f"https://{team['domain']}.slack.com/", "team": team["name"], "user": bot["name"],
        "team_id": team["id"], "user_id": bot["id"], "bot_id": team["bot_id"],
        "is_enterprise_install": False,
    }  # fmt: skip


def team_info(workspace: Workspace, call: Call) -> Document:
    team = workspace.team
    return {"team": {name: team[name] for name in ("id", "name", "domain")}}


def list_users(workspace: Workspace, call: Call) -> Document:
    limit, after = call.limit(default=1000), call.cursor("user")
    if after is not None and not workspace.store.has(USERS, after):
        raise ChatError("invalid_cursor")
    found = workspace.store.find(USERS, limit=limit + 1, after=after)
    has_more, found = len(found) > limit, found[:limit]
    more = next_cursor("user", found[-1]["id"] if has_more else None)
    return {"members": [shown_user(user) for user in found],
            "cache_ts": int(workspace.context.now()), **more}  # fmt: skip


def info(workspace: Workspace, call: Call) -> Document:
    return {"user": shown_user(workspace.user(call.need("user")))}


def look_up(workspace: Workspace, call: Call) -> Document:
    email = call.need("email").lower()
    found = workspace.store.find(USERS, {"email": email}, limit=1)
    if not found:
        raise ChatError("users_not_found")
    return {"user": shown_user(found[0])}


def profile(workspace: Workspace, call: Call) -> Document:
    return {"profile": workspace.user(call.text("user") or workspace.me)["profile"]}


def presence(workspace: Workspace, call: Call) -> Document:
    workspace.user(call.text("user") or workspace.me)
    return {"presence": "active", "online": True}


def conversations(workspace: Workspace, call: Call) -> Document:
    user = workspace.user(call.text("user") or workspace.me)["id"]
    found = [
        channel
        for channel in workspace.store.find(CHANNELS)
        if user in channel["members"]
        and (not channel["is_private"] or workspace.me in channel["members"])
    ]
    shown, more = page(found, call, "channel")
    return {"channels": [shown_channel(workspace, channel) for channel in shown], **more}


METHODS = {
    "api.test": api_test,
    "auth.test": auth_test,
    "team.info": team_info,
    "users.list": list_users,
    "users.info": info,
    "users.lookupByEmail": look_up,
    "users.profile.get": profile,
    "users.getPresence": presence,
    "users.conversations": conversations,
}


def shown_user(user: Document) -> Document:
    # The e-mail address is kept beside the profile too, where the store can look for it.
    return {name: value for name, value in user.items() if name != "email"}
