"""The forge's first state out of lean data: repositories with their files, issues and pulls."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paddock.model.errors import InvalidInput
from paddock.world.service import Seed
from paddock_services.forge.desk import Record
from paddock_services.forge.git import Files, NewCommit, is_path
from paddock_services.forge.repos import check_full_name
from paddock_services.forge.wire import Failed

if TYPE_CHECKING:
    from paddock_services.forge.service import Forge

_REPO_WORDS = frozenset({"full_name", "private", "description", "default_branch", "files", "issues",
                         "pulls", "branches", "labels"})  # fmt: skip


def plant(forge: Forge, data: Seed) -> None:
    """Raises InvalidInput for what makes no sense."""
    unknown = set(data) - {"repos", "users"}
    if unknown:
        raise InvalidInput(f"seed: forge knows repos and users, not {', '.join(sorted(unknown))}")
    try:
        for user in data.get("users", ()):
            login = str(user.get("login", ""))
            if not login:
                raise InvalidInput("seed: a user needs a login")
            forge.context.store.put("users", login.lower(), {**user, "login": login})
        for repo in data.get("repos", ()):
            _Planting(forge, repo).go()
    except Failed as failed:
        errors = "; ".join(str(dict(one)) for one in failed.errors)
        raise InvalidInput(f"seed: {failed.message} {errors}".strip()) from failed


class _Planting:
    """One repository."""

    def __init__(self, forge: Forge, said: Mapping[str, Any]) -> None:
        unknown = set(said) - _REPO_WORDS
        if unknown:
            raise InvalidInput(f"seed: a repository has no {', '.join(sorted(unknown))}")
        self._forge = forge
        self._said = said
        self._desk = forge.desk
        name = check_full_name(said.get("full_name"))
        if self._desk.store.has("repos", name.lower()):
            raise InvalidInput(f"seed: {name} is there twice")
        self._owner = name.partition("/")[0]
        fields = {key: said.get(key) for key in ("private", "description", "default_branch")}
        self._repo = self._desk.make_repo(name, **fields)

    def go(self) -> None:
        said = self._said
        for label in said.get("labels", ()):
            one = {"name": label} if isinstance(label, str) else label
            self._desk.put_label(self._repo, str(one["name"]), str(one.get("color", "ededed")),
                                 one.get("description"))  # fmt: skip
        if said.get("files"):
            self._branch(self._repo["default_branch"], said["files"], "Initial commit")
        for name, files in (said.get("branches") or {}).items():
            self._branch(name, files, f"Changes on {name}")
        for issue in said.get("issues", ()):
            self._issue(issue)
        for pull in said.get("pulls", ()):
            self._pull(pull)

    def _branch(self, name: str, files: Mapping[str, Any], message: str) -> None:
        """A commit with these files, on top of the default branch. None: the file is gone."""
        git, id = self._desk.git, self._repo["id"]
        head = git.ref(id, f"refs/heads/{self._repo['default_branch']}")
        whole: Files = git.files(id, head) if head else {}
        for path, content in files.items():
            if not is_path(path):
                raise InvalidInput(f"seed: {path!r} is no path of a file")
            if content is None:
                whole.pop(path, None)
            else:
                whole[path] = git.write(_data(content))
        parents = (head,) if head else ()
        author = self._desk.person(self._owner)
        sha = git.commit(id, NewCommit(whole, message, parents, author, self._desk.tick()))
        git.set_ref(id, f"refs/heads/{name}", sha)

    def _issue(self, said: Any) -> None:
        one = {"title": said} if isinstance(said, str) else said
        login = str(one.get("user", self._owner))
        issue = self._forge.issues.make(self._repo, login, one, "Issue")
        self._finish(issue, one, login)

    def _pull(self, one: Mapping[str, Any]) -> None:
        login, head = str(one.get("user", self._owner)), str(one.get("head", ""))
        if one.get("files"):
            self._branch(head, one["files"], str(one.get("title", "")))
        body = {"base": self._repo["default_branch"], **one}
        pull = self._forge.pulls.make(self._repo, login, body)
        self._finish(self._desk.issue(self._repo, pull["number"]), one, login)

    def _finish(self, issue: Record, said: Mapping[str, Any], login: str) -> None:
        for comment in said.get("comments", ()):
            one = {"body": comment} if isinstance(comment, str) else comment
            who = str(one.get("user", self._owner))
            self._forge.comments.add(self._repo, issue, who, str(one.get("body", "")))
        if said.get("state") == "closed":
            issue = self._desk.issue(self._repo, issue["number"])
            self._forge.issues.change(self._repo, issue, {"state": "closed"}, login, "Issue")


def _data(content: Any) -> bytes:
    if isinstance(content, Mapping) and isinstance(content.get("base64"), str):
        return base64.b64decode(content["base64"])
    return str(content).encode()
