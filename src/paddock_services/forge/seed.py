"""The first state of the forge, from lean data: repositories with files, issues and pulls."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.world.service import Seed
from paddock_services.forge.comments import new_comment
from paddock_services.forge.errors import GithubError
from paddock_services.forge.git import NewCommit, is_path
from paddock_services.forge.hub import DEFAULT_COLOR, Hub, Record, Repo
from paddock_services.forge.issues import change_issue, new_issue
from paddock_services.forge.pulls import new_pull

_REPO_KEYS = frozenset({"full_name", "private", "description", "default_branch", "files", "issues",
                        "pulls", "branches", "labels"})  # fmt: skip


def fill_hub(hub: Hub, data: Seed) -> None:
    """Create what the seed describes. Raises InvalidInput for what makes no sense."""
    unknown = set(data) - {"repos", "users"}
    if unknown:
        raise InvalidInput(f"seed: forge knows repos and users, not {', '.join(sorted(unknown))}")
    try:
        for user in data.get("users", ()):
            login = str(user.get("login", ""))
            if not login:
                raise InvalidInput("seed: a user needs a login")
            hub.store.put("users", login.lower(), {**user, "login": login})
        for repo in data.get("repos", ()):
            _fill_repo(hub, repo)
    except GithubError as error:
        raise InvalidInput(f"seed: {error.reply.body}") from error


def _fill_repo(hub: Hub, data: Mapping[str, Any]) -> None:
    unknown = set(data) - _REPO_KEYS
    if unknown:
        raise InvalidInput(f"seed: a repository has no {', '.join(sorted(unknown))}")
    repo = hub.create_repo(
        str(data.get("full_name")),
        private=data.get("private"),
        description=data.get("description"),
        default_branch=data.get("default_branch"),
    )
    for label in data.get("labels", ()):
        fields = {"name": label} if isinstance(label, str) else label
        color = str(fields.get("color", DEFAULT_COLOR))
        repo.new_label(str(fields["name"]), color, fields.get("description"))
    if data.get("files"):
        _commit_files(repo, repo.default_branch, data["files"], "Initial commit")
    for branch, files in (data.get("branches") or {}).items():
        _commit_files(repo, branch, files, f"Changes on {branch}")
    for issue in data.get("issues", ()):
        _add_issue(repo, {"title": issue} if isinstance(issue, str) else issue)
    for pull in data.get("pulls", ()):
        _add_pull(repo, pull)


def _commit_files(repo: Repo, branch: str, files: Mapping[str, Any], message: str) -> None:
    """Commit files on top of the default branch. None deletes a file."""
    head = repo.git.branch(repo.default_branch)
    tree = repo.git.files(head)
    for path, content in files.items():
        if not is_path(path):
            raise InvalidInput(f"seed: {path!r} is no path of a file")
        if content is None:
            tree.pop(path, None)
        else:
            tree[path] = repo.git.write_blob(_file_bytes(content))
    author = repo.hub.commit_author(repo.owner)
    parents = (head,) if head else ()
    repo.git.commit(branch, NewCommit(tree, message, parents, author, repo.hub.tick()))


def _file_bytes(content: Any) -> bytes:
    if isinstance(content, Mapping) and isinstance(content.get("base64"), str):
        return base64.b64decode(content["base64"])
    return str(content).encode()


def _add_issue(repo: Repo, data: Mapping[str, Any]) -> None:
    issue = new_issue(repo, _author(repo, data), data, "Issue")
    _finish(repo, issue, data)


def _add_pull(repo: Repo, data: Mapping[str, Any]) -> None:
    if data.get("files"):
        _commit_files(repo, str(data.get("head", "")), data["files"], str(data.get("title", "")))
    pull = new_pull(repo, _author(repo, data), {"base": repo.default_branch, **data})
    _finish(repo, repo.issue(pull["number"]), data)


def _author(repo: Repo, data: Mapping[str, Any]) -> str:
    return str(data.get("user", repo.owner))


def _finish(repo: Repo, issue: Record, data: Mapping[str, Any]) -> None:
    """Add the comments of an issue, and close it if it is to be closed."""
    for comment in data.get("comments", ()):
        fields = {"body": comment} if isinstance(comment, str) else comment
        new_comment(repo, issue, _author(repo, fields), str(fields.get("body", "")))
    if data.get("state") == "closed":
        issue = repo.issue(issue["number"])
        change_issue(repo, issue, {"state": "closed"}, _author(repo, data))
