"""The state of the forge: users, repositories, and the issues, pulls and labels of each."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import msgspec

from paddock.world.context import Context
from paddock_services.forge.errors import invalid, not_found
from paddock_services.forge.git import Git

Record = dict[str, Any]
REPO_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,38})(?:\[bot\])?")
DEFAULT_COLOR = "ededed"
DEFAULT_LABELS = {
    "bug": "d73a4a", "documentation": "0075ca", "duplicate": "cfd3d7", "enhancement": "a2eeef",
    "good first issue": "7057ff", "help wanted": "008672", "invalid": "e4e669",
    "question": "d876e3", "wontfix": "ffffff",
}  # fmt: skip


class Urls(msgspec.Struct, frozen=True):
    """The addresses that answers refer to, as the caller reached the forge."""

    api: str = "https://api.github.com"
    page: str = "https://github.com"  # for people


class Hub:
    """Users and repositories."""

    def __init__(self, context: Context, urls: Urls | None = None) -> None:
        self.context = context
        self.store = context.store
        self.urls = urls or Urls()

    def tick(self) -> float:
        return self.context.tick()

    def new_id(self) -> int:
        return 1_000_000 + self.store.next("id")

    def user(self, login: str) -> Record:
        """Return what is known about a user, which may be nothing."""
        return self.store.get("users", login.lower()) or {}

    def commit_author(self, login: str) -> dict[str, str]:
        email = self.user(login).get("email") or f"{login}@users.noreply.github.com"
        return {"name": login, "email": email}

    def check_users(self, logins: list[str], resource: str, field: str) -> None:
        """Refuse logins of strangers. A forge that was seeded without users knows everybody."""
        if self.store.count("users") and not all(self.user(login) for login in logins):
            raise invalid(resource, field)

    def repo(self, full_name: str) -> Repo | None:
        record = self.store.get("repos", full_name.lower())
        return None if record is None else Repo(self, record)

    def visible_repos(self, login: str | None) -> list[Repo]:
        """Return the repositories that a caller sees: without a login only public ones."""
        repos = (Repo(self, record) for record in self.store.find("repos"))
        return [repo for repo in repos if login is not None or not repo.is_private]

    def create_repo(self, full_name: str, **fields: Any) -> Repo:
        owner, _, name = full_name.partition("/")
        if not LOGIN.fullmatch(owner) or not REPO_NAME.fullmatch(name):
            raise invalid("Repository", "name", "custom", f"{full_name!r} is not owner/name")
        if self.repo(full_name) is not None:
            message = "name already exists on this account"
            raise invalid("Repository", "name", "custom", message)
        now = self.tick()
        record = {
            "id": self.new_id(),
            "full_name": full_name,
            "private": bool(fields.get("private")),
            "description": fields.get("description"),
            "default_branch": str(fields.get("default_branch") or "main"),
            "created_at": now,
            "updated_at": now,
        }
        repo = Repo(self, record)
        repo.save()
        for label, color in DEFAULT_LABELS.items():
            repo.new_label(label, color)
        return repo


class Repo:
    """One repository. Issues and pulls share their numbers: a pull is an issue with `is_pull` and a
    second record of the kind `pulls`."""

    def __init__(self, hub: Hub, record: Record) -> None:
        self.hub = hub
        self.record = record
        self.id: int = record["id"]
        self.full_name: str = record["full_name"]
        self.owner = self.full_name.partition("/")[0]
        self.url = f"{hub.urls.api}/repos/{quote(self.full_name)}"
        self.page = f"{hub.urls.page}/{self.full_name}"
        self.git = Git(hub.store, self.id)
        self._store = hub.store

    @property
    def is_private(self) -> bool:
        return bool(self.record["private"])

    @property
    def default_branch(self) -> str:
        return str(self.record["default_branch"])

    def save(self) -> None:
        self._store.put("repos", self.full_name.lower(), self.record)

    def next_number(self) -> int:
        return self._store.next(f"number:{self.id}")

    def issue(self, number: str | int) -> Record:
        issue = self._store.get("issues", f"{self.id}#{number}")
        if issue is None:
            raise not_found()
        return issue

    def put_issue(self, issue: Record) -> None:
        self._store.put("issues", f"{self.id}#{issue['number']}", issue)

    def issues(self) -> list[Record]:
        return self._store.find("issues", {"repo": self.id})

    def count_open_issues(self) -> int:
        return self._store.count("issues", {"repo": self.id, "state": "open"})

    def pull(self, number: str | int) -> Record:
        """Return what a pull request has besides its issue."""
        pull = self._store.get("pulls", f"{self.id}#{number}")
        if pull is None:
            raise not_found()
        return pull

    def put_pull(self, pull: Record) -> None:
        self._store.put("pulls", f"{self.id}#{pull['number']}", pull)

    def pulls(self, **where: Any) -> list[Record]:
        return self._store.find("pulls", {"repo": self.id, **where})

    def label(self, name: str) -> Record | None:
        return self._store.get("labels", f"{self.id}/{name.lower()}")

    def labels(self) -> list[Record]:
        return self._store.find("labels", {"repo": self.id})

    def new_label(self, name: str, color: str, description: str | None = None) -> Record:
        label = {
            "id": self.hub.new_id(),
            "repo": self.id,
            "name": name,
            "color": color,
            "default": name in DEFAULT_LABELS,
            "description": description,
        }
        self._store.put("labels", f"{self.id}/{name.lower()}", label)
        return label

    def ensure_labels(self, names: list[str]) -> list[str]:
        """Return the labels as they are spelled in the repository. New ones are created."""
        labels = []
        for name in names:
            color = DEFAULT_LABELS.get(name, DEFAULT_COLOR)
            label = self.label(name) or self.new_label(name, color)
            labels.append(label["name"])
        return list(dict.fromkeys(labels))
