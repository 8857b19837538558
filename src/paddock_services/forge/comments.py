"""Comments on issues and pulls, and the labels of a repository."""

from __future__ import annotations

import re

from paddock.world.kit import Reply
from paddock_services.forge.call import GithubCall, Routes, required_text, text_field
from paddock_services.forge.errors import GithubError, invalid, not_found
from paddock_services.forge.hub import DEFAULT_COLOR, Record, Repo
from paddock_services.forge.views import show_comment, show_label

_COLOR = re.compile(r"[0-9A-Fa-f]{6}")
_MAX_LABEL = 50


def list_comments(call: GithubCall) -> Reply:
    repo = call.repo()
    number = repo.issue(call.params["number"])["number"]
    comments = call.store.find("comments", {"repo": repo.id, "number": number})
    return call.page(comments, lambda comment: show_comment(repo, comment))


def create_comment(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    issue = repo.issue(call.params["number"])
    if issue["locked"]:
        raise GithubError(403, "Unable to create comment because issue is locked.")
    body = required_text(call.body, "body", "IssueComment")
    comment = new_comment(repo, issue, call.login, body)
    return Reply(show_comment(repo, comment), 201)


def new_comment(repo: Repo, issue: Record, login: str, body: str) -> Record:
    now = repo.hub.tick()
    comment = {
        "id": repo.hub.new_id(),
        "repo": repo.id,
        "number": issue["number"],
        "body": body,
        "user": login,
        "created_at": now,
        "updated_at": now,
    }
    repo.hub.store.put("comments", str(comment["id"]), comment)
    repo.put_issue({**issue, "updated_at": now})
    return comment


def get_comment(call: GithubCall) -> Reply:
    repo = call.repo()
    return Reply(show_comment(repo, _comment(call, repo)))


def edit_comment(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    comment = _comment(call, repo)
    comment["body"] = required_text(call.body, "body", "IssueComment")
    comment["updated_at"] = call.hub.tick()
    call.store.put("comments", call.params["id"], comment)
    return Reply(show_comment(repo, comment))


def delete_comment(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    _comment(call, repo)
    call.hub.tick()
    call.store.delete("comments", call.params["id"])
    return Reply(None, 204)


def _comment(call: GithubCall, repo: Repo) -> Record:
    comment = call.store.get("comments", call.params["id"])
    if comment is None or comment["repo"] != repo.id:
        raise not_found()
    return comment


def list_labels(call: GithubCall) -> Reply:
    repo = call.repo()
    return call.page(repo.labels(), lambda label: show_label(repo, label))


def get_label(call: GithubCall) -> Reply:
    repo = call.repo()
    label = repo.label(call.params["name"])
    if label is None:
        raise not_found()
    return Reply(show_label(repo, label))


def create_label(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    name = required_text(call.body, "name", "Label")
    if len(name) > _MAX_LABEL:
        raise invalid("Label", "name")
    if repo.label(name) is not None:
        raise invalid("Label", "name", "already_exists")
    color = text_field(call.body, "color", "Label") or DEFAULT_COLOR
    if not _COLOR.fullmatch(color):
        raise invalid("Label", "color")
    call.hub.tick()
    description = text_field(call.body, "description", "Label")
    label = repo.new_label(name, color.lower(), description)
    return Reply(show_label(repo, label), 201)


ROUTES: Routes = {
    "GET /repos/{owner}/{repo}/issues/comments/{id}": get_comment,
    "PATCH /repos/{owner}/{repo}/issues/comments/{id}": edit_comment,
    "DELETE /repos/{owner}/{repo}/issues/comments/{id}": delete_comment,
    "GET /repos/{owner}/{repo}/issues/{number}/comments": list_comments,
    "POST /repos/{owner}/{repo}/issues/{number}/comments": create_comment,
    "GET /repos/{owner}/{repo}/labels": list_labels,
    "POST /repos/{owner}/{repo}/labels": create_label,
    "GET /repos/{owner}/{repo}/labels/{name}": get_label,
}
