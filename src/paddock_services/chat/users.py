"""api.test, auth.test and users.*: who is in the workspace, and who calls."""

from __future__ import annotations

from paddock_services.chat.arguments import Arguments, Document, SlackError
from paddock_services.chat.workspace import USERS, Workspace


def api_test(workspace: Workspace, args: Arguments) -> Document:
    sent = dict(args.values)
    if args.text("error"):
        raise SlackError(args.text("error")[:100], args=sent)
    return {"args": sent}


def auth_test(workspace: Workspace, args: Arguments) -> Document:
    team, bot = workspace.team, workspace.user(workspace.bot)
    return {
        "url": f"https://{team['domain']}.slack.com/", "team": team["name"], "user": bot["name"],
        "team_id": team["id"], "user_id": bot["id"], "bot_id": team["bot_id"],
        "is_enterprise_install": False,
    }  # fmt: skip


def list_users(workspace: Workspace, args: Arguments) -> Document:
    page = args.page("members", workspace.store.find(USERS), show_user, "user")
    return {**page, "cache_ts": int(workspace.context.now())}


def info(workspace: Workspace, args: Arguments) -> Document:
    return {"user": show_user(workspace.user(args.required("user")))}


def look_up_by_email(workspace: Workspace, args: Arguments) -> Document:
    users = workspace.store.find(USERS, {"email": args.required("email").lower()}, limit=1)
    if not users:
        raise SlackError("users_not_found")
    return {"user": show_user(users[0])}


def get_profile(workspace: Workspace, args: Arguments) -> Document:
    return {"profile": workspace.user(args.text("user") or workspace.bot)["profile"]}


METHODS = {
    "api.test": api_test,
    "auth.test": auth_test,
    "users.list": list_users,
    "users.info": info,
    "users.lookupByEmail": look_up_by_email,
    "users.profile.get": get_profile,
}


def show_user(user: Document) -> Document:
    # The store finds users by the address beside the profile; Slack shows only the one inside.
    return {name: value for name, value in user.items() if name != "email"}
