"""People and repositories."""

from __future__ import annotations

import re

from paddock_services.forge import views
from paddock_services.forge.desk import Desk, Record
from paddock_services.forge.git import NewCommit
from paddock_services.forge.wire import (
    Call,
    Failed,
    Reply,
    Router,
    invalid,
    not_found,
    paged,
    text,
)

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,38})(?:\[bot\])?")


class Repos:
    """Who I am, who others are, and which repositories there are."""

    def __init__(self, desk: Desk, router: Router) -> None:
        self._desk = desk
        router.add("GET", "/user", self.me)
        router.add("GET", "/users/{login}", self.user)
        router.add("GET", "/orgs/{login}", self.user)
        router.add("GET", "/user/repos", self.mine)
        router.add("POST", "/user/repos", self.create)
        router.add("POST", "/orgs/{org}/repos", self.create)
        router.add("GET", "/users/{login}/repos", self.theirs)
        router.add("GET", "/orgs/{login}/repos", self.theirs)
        router.add("GET", "/repos/{owner}/{repo}", self.get)
        router.add("PATCH", "/repos/{owner}/{repo}", self.edit)
        router.add("DELETE", "/repos/{owner}/{repo}", self.delete)
        router.add("GET", "/repos/{owner}/{repo}/assignees", self.assignees)
        router.add("GET", "/repos/{owner}/{repo}/collaborators", self.assignees)

    def show(self, call: Call, repo: Record) -> Record:
        return views.repo(call, repo, self._desk.open_issues(repo))

    def me(self, call: Call) -> Reply:
        return Reply(self._person(call, call.login))

    def user(self, call: Call) -> Reply:
        login = call.names["login"]
        known = self._desk.store.get("users", login.lower())
        is_owner = any(one["full_name"].lower().startswith(f"{login.lower()}/")
                       for one in self._desk.store.find("repos"))  # fmt: skip
        if known is None and not is_owner and login != call.me:
            raise not_found()
        return Reply(self._person(call, login))

    def _person(self, call: Call, login: str) -> Record:
        known = self._desk.store.get("users", login.lower()) or {}
        return {
            **views.user(call, login, known),
            "name": known.get("name", login),
            "email": known.get("email"),
            "bio": known.get("bio"),
            "company": known.get("company"),
            "public_repos": len(self._owned(call, login)),
            "followers": 0,
            "following": 0,
            "created_at": views.stamp(self._desk.context.start),
            "updated_at": views.stamp(self._desk.context.start),
        }

    def _owned(self, call: Call, login: str) -> list[Record]:
        return [
            one
            for one in self._desk.store.find("repos")
            if one["full_name"].lower().startswith(f"{login.lower()}/")
            and (call.me is not None or not one["private"])
        ]

    def mine(self, call: Call) -> Reply:
        assert call.login
        return paged(call, self._desk.store.find("repos"), lambda one: self.show(call, one))

    def theirs(self, call: Call) -> Reply:
        found = self._owned(call, call.names["login"])
        return paged(call, found, lambda one: self.show(call, one))

    def create(self, call: Call) -> Reply:
        owner, body = call.names.get("org", call.login), call.body()
        assert call.login
        name = text(body, "name", "Repository", required=True) or ""
        if not NAME.fullmatch(name) or not LOGIN.fullmatch(owner):
            raise invalid("Repository", "name")
        if self._desk.store.has("repos", f"{owner}/{name}".lower()):
            raise invalid("Repository", "name", "custom", "name already exists on this account")
        repo = self._desk.make_repo(
            f"{owner}/{name}",
            private=body.get("private") is True,
            description=text(body, "description", "Repository"),
        )
        if body.get("auto_init") is True:
            self._start(repo, name, call.login)
        return Reply(self.show(call, repo), 201)

    def _start(self, repo: Record, name: str, login: str) -> None:
        git = self._desk.git
        files = {"README.md": git.write(f"# {name}\n".encode())}
        person = self._desk.person(login)
        new = NewCommit(files, "Initial commit", (), person, repo["created_at"])
        sha = git.commit(repo["id"], new)
        git.set_ref(repo["id"], f"refs/heads/{repo['default_branch']}", sha)

    def get(self, call: Call) -> Reply:
        return Reply(self.show(call, self._desk.repo(call)))

    def edit(self, call: Call) -> Reply:
        repo, body = self._desk.repo(call), call.body()
        assert call.login
        branch = text(body, "default_branch", "Repository")
        if branch and self._desk.git.ref(repo["id"], f"refs/heads/{branch}") is None:
            raise invalid("Repository", "default_branch")
        owner, _, name = repo["full_name"].partition("/")
        name = text(body, "name", "Repository") or name
        if not NAME.fullmatch(name):
            raise invalid("Repository", "name")
        old, new = repo["full_name"].lower(), f"{owner}/{name}"
        if new.lower() != old and self._desk.store.has("repos", new.lower()):
            raise invalid("Repository", "name", "already_exists")
        for field in ("description", "homepage"):
            if field in body:
                repo[field] = text(body, field, "Repository")
        for flag in ("private", "archived"):
            if isinstance(body.get(flag), bool):
                repo[flag] = body[flag]
        repo |= {"full_name": new, "default_branch": branch or repo["default_branch"]}
        repo["updated_at"] = self._desk.tick()
        if new.lower() != old:
            self._desk.store.delete("repos", old)
        self._desk.store.put("repos", new.lower(), repo)
        return Reply(self.show(call, repo))

    def delete(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        assert call.login
        store = self._desk.store
        self._desk.tick()
        for kind in ("issues", "pulls", "comments", "reviews", "labels", "refs", "commits"):
            for id in [
                one
                for one in store.ids(kind)
                if (store.get(kind, one) or {}).get("repo") == repo["id"]
            ]:
                store.delete(kind, id)
        store.delete("repos", repo["full_name"].lower())
        return Reply(None, 204)

    def assignees(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        owner = repo["full_name"].partition("/")[0]
        logins = [one["login"] for one in self._desk.store.find("users")]
        found = list(dict.fromkeys([owner, *logins, *([call.me] if call.me else [])]))
        return paged(call, found, lambda login: views.user(call, login))


def check_full_name(full_name: object) -> str:
    """Raises Failed for what is no owner/name."""
    owner, slash, name = str(full_name).partition("/")
    if not slash or not LOGIN.fullmatch(owner) or not NAME.fullmatch(name):
        raise Failed(422, f"{full_name!r} is no owner/name")
    return f"{owner}/{name}"
