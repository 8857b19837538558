"""What all parts of the forge share: its store, repositories by name, and who may do what."""

from __future__ import annotations

from typing import Any

from paddock.world.context import Context
from paddock_services.forge.git import Git, Person
from paddock_services.forge.wire import Call, Failed, invalid, not_found

Record = dict[str, Any]
LABELS = {
    "bug": "d73a4a", "documentation": "0075ca", "duplicate": "cfd3d7", "enhancement": "a2eeef",
    "good first issue": "7057ff", "help wanted": "008672", "invalid": "e4e669",
    "question": "d876e3", "wontfix": "ffffff",
}  # fmt: skip
_GREY = "ededed"


class Desk:
    """Finds and keeps records."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self.git = Git(context)

    def tick(self) -> float:
        return self.context.tick()

    def new_id(self) -> int:
        return 1_000_000 + self.store.next("id")

    def repo(self, call: Call) -> Record:
        """The repository that a path names. One that must not be seen is not found."""
        found = self.store.get("repos", f"{call.names['owner']}/{call.names['repo']}".lower())
        if found is None or (found["private"] and call.me is None):
            raise not_found()
        return found

    def writable(self, call: Call) -> Record:
        """The same, for somebody who is logged in. Raises Failed."""
        repo = self.repo(call)
        assert call.login
        if repo.get("archived"):
            raise Failed(403, "Repository was archived so is read-only.")
        return repo

    def person(self, login: str) -> Person:
        known = self.store.get("users", login.lower()) or {}
        return Person(login, known.get("email") or f"{login}@users.noreply.github.com")

    def check_people(self, logins: list[str], resource: str, field: str) -> None:
        """Where people are known, others cannot be named."""
        if not self.store.count("users"):
            return
        for login in logins:
            if not self.store.has("users", login.lower()):
                raise invalid(resource, field, "invalid")

    def issue(self, repo: Record, number: str | int) -> Record:
        found = self.store.get("issues", f"{repo['id']}#{number}")
        if found is None:
            raise not_found()
        return found

    def put_issue(self, repo: Record, issue: Record) -> None:
        self.store.put("issues", f"{repo['id']}#{issue['number']}", issue)

    def issues(self, repo: Record) -> list[Record]:
        return self.store.find("issues", {"repo": repo["id"]})

    def open_issues(self, repo: Record) -> int:
        return self.store.count("issues", {"repo": repo["id"], "state": "open"})

    def pull(self, repo: Record, number: str | int) -> Record:
        """What a pull request has besides its issue."""
        found = self.store.get("pulls", f"{repo['id']}#{number}")
        if found is None:
            raise not_found()
        return found

    def put_pull(self, repo: Record, pull: Record) -> None:
        self.store.put("pulls", f"{repo['id']}#{pull['number']}", pull)

    def next_number(self, repo: Record) -> int:
        """Issues and pulls are counted together."""
        return self.store.next(f"number:{repo['id']}")

    def label(self, repo: Record, name: str) -> Record | None:
        return self.store.get("labels", f"{repo['id']}/{name.lower()}")

    def ensure_labels(self, repo: Record, names: list[str]) -> list[str]:
        """Labels by the names that they have; those that are new are made."""
        found = []
        for name in names:
            label = self.label(repo, name) or self.put_label(repo, name, LABELS.get(name, _GREY))
            if label["name"] not in found:
                found.append(label["name"])
        return found

    def put_label(
        self, repo: Record, name: str, color: str, description: str | None = None
    ) -> Record:
        label = {
            "id": self.new_id(),
            "repo": repo["id"],
            "name": name,
            "color": color,
            "default": name in LABELS,
            "description": description,
        }
        self.store.put("labels", f"{repo['id']}/{name.lower()}", label)
        return label

    def make_repo(self, full_name: str, **fields: Any) -> Record:
        moment = self.tick()
        repo = {
            "id": self.new_id(),
            "full_name": full_name,
            "private": bool(fields.get("private", False)),
            "description": fields.get("description"),
            "default_branch": str(fields.get("default_branch") or "main"),
            "created_at": moment,
            "updated_at": moment,
        }
        self.store.put("repos", full_name.lower(), repo)
        for name, color in LABELS.items():
            self.put_label(repo, name, color)
        return repo
