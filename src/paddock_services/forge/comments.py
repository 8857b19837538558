"""Comments on issues and pulls, and the labels of a repository."""

from __future__ import annotations

import re

from paddock_services.forge import views
from paddock_services.forge.desk import Desk, Record
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

_COLOR = re.compile(r"[0-9A-Fa-f]{6}")


class Comments:
    """What people say on issues."""

    def __init__(self, desk: Desk, router: Router) -> None:
        self._desk = desk
        base = "/repos/{owner}/{repo}/issues"
        router.add("GET", f"{base}/comments", self.all)
        router.add("GET", f"{base}/comments/{{id}}", self.get)
        router.add("PATCH", f"{base}/comments/{{id}}", self.edit)
        router.add("DELETE", f"{base}/comments/{{id}}", self.delete)
        router.add("GET", f"{base}/{{number}}/comments", self.listed)
        router.add("POST", f"{base}/{{number}}/comments", self.create)

    def _find(self, repo: Record, id: str) -> Record:
        found = self._desk.store.get("comments", id)
        if found is None or found["repo"] != repo["id"]:
            raise not_found()
        return found

    def listed(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        issue = self._desk.issue(repo, call.names["number"])
        where = {"repo": repo["id"], "number": issue["number"]}
        found = self._desk.store.find("comments", where)
        return paged(call, found, lambda one: views.comment(call, repo, one))

    def all(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._desk.store.find("comments", {"repo": repo["id"]})
        return paged(call, found, lambda one: views.comment(call, repo, one))

    def create(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        issue = self._desk.issue(repo, call.names["number"])
        if issue.get("locked"):
            raise Failed(403, "Unable to create comment because issue is locked.")
        said = text(call.body(), "body", "IssueComment", required=True)
        comment = self.add(repo, issue, call.login, said or "")
        return Reply(views.comment(call, repo, comment), 201)

    def add(self, repo: Record, issue: Record, login: str, said: str) -> Record:
        moment = self._desk.tick()
        comment = {
            "id": self._desk.new_id(),
            "repo": repo["id"],
            "number": issue["number"],
            "body": said,
            "user": login,
            "created_at": moment,
            "updated_at": moment,
        }
        self._desk.store.put("comments", str(comment["id"]), comment)
        self._desk.put_issue(repo, {**issue, "updated_at": moment})
        return comment

    def get(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        return Reply(views.comment(call, repo, self._find(repo, call.names["id"])))

    def edit(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        comment = self._find(repo, call.names["id"])
        comment["body"] = text(call.body(), "body", "IssueComment", required=True)
        comment["updated_at"] = self._desk.tick()
        self._desk.store.put("comments", call.names["id"], comment)
        return Reply(views.comment(call, repo, comment))

    def delete(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        self._find(repo, call.names["id"])
        self._desk.tick()
        self._desk.store.delete("comments", call.names["id"])
        return Reply(None, 204)


class Labels:
    """The labels that a repository has."""

    def __init__(self, desk: Desk, router: Router) -> None:
        self._desk = desk
        base = "/repos/{owner}/{repo}/labels"
        router.add("GET", base, self.listed)
        router.add("POST", base, self.create)
        router.add("GET", f"{base}/{{name}}", self.get)
        router.add("PATCH", f"{base}/{{name}}", self.edit)
        router.add("DELETE", f"{base}/{{name}}", self.delete)

    def _find(self, repo: Record, name: str) -> Record:
        found = self._desk.label(repo, name)
        if found is None:
            raise not_found()
        return found

    def listed(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._desk.store.find("labels", {"repo": repo["id"]})
        return paged(call, found, lambda one: views.label(call, repo, one))

    def get(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        return Reply(views.label(call, repo, self._find(repo, call.names["name"])))

    def create(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        name = text(body, "name", "Label", required=True) or ""
        if len(name) > 50:
            raise invalid("Label", "name")
        if self._desk.label(repo, name) is not None:
            raise invalid("Label", "name", "already_exists")
        self._desk.tick()
        color = _color(text(body, "color", "Label") or "ededed")
        label = self._desk.put_label(repo, name, color, text(body, "description", "Label"))
        return Reply(views.label(call, repo, label), 201)

    def edit(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        label = self._find(repo, call.names["name"])
        old, name = label["name"], text(body, "new_name", "Label") or label["name"]
        if name.lower() != old.lower() and self._desk.label(repo, name) is not None:
            raise invalid("Label", "name", "already_exists")
        label["name"] = name
        label["color"] = _color(text(body, "color", "Label") or label["color"])
        if "description" in body:
            label["description"] = text(body, "description", "Label")
        self._desk.tick()
        self._desk.store.delete("labels", f"{repo['id']}/{old.lower()}")
        self._desk.store.put("labels", f"{repo['id']}/{name.lower()}", label)
        self._rename(repo, old, name)
        return Reply(views.label(call, repo, label))

    def delete(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        label = self._find(repo, call.names["name"])
        self._desk.tick()
        self._desk.store.delete("labels", f"{repo['id']}/{label['name'].lower()}")
        self._rename(repo, label["name"], None)
        return Reply(None, 204)

    def _rename(self, repo: Record, old: str, new: str | None) -> None:
        for issue in self._desk.issues(repo):
            if old in issue["labels"] and old != new:
                names = [new if one == old else one for one in issue["labels"]]
                issue["labels"] = [one for one in names if one is not None]
                self._desk.put_issue(repo, issue)


def _color(color: str) -> str:
    if not _COLOR.fullmatch(color):
        raise invalid("Label", "color")
    return color.lower()
