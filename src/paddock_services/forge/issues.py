"""Issues: made, listed, changed, closed, labelled, assigned. A pull request is one, too."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from paddock_services.forge import views
from paddock_services.forge.desk import Desk, Record
from paddock_services.forge.wire import (
    Call,
    Failed,
    Reply,
    Router,
    invalid,
    names_of,
    paged,
    text,
)

_REASONS = ("completed", "not_planned", "reopened", "duplicate")


class Issues:
    """The issues of each repository."""

    def __init__(self, desk: Desk, router: Router) -> None:
        self._desk = desk
        base = "/repos/{owner}/{repo}/issues"
        router.add("GET", base, self.listed)
        router.add("POST", base, self.create)
        router.add("GET", f"{base}/{{number}}", self.get)
        router.add("PATCH", f"{base}/{{number}}", self.edit)
        router.add("GET", f"{base}/{{number}}/labels", self.labels)
        router.add("POST", f"{base}/{{number}}/labels", self.add_labels)
        router.add("PUT", f"{base}/{{number}}/labels", self.set_labels)
        router.add("DELETE", f"{base}/{{number}}/labels", self.clear_labels)
        router.add("DELETE", f"{base}/{{number}}/labels/{{name}}", self.remove_label)
        router.add("POST", f"{base}/{{number}}/assignees", self.assign)
        router.add("DELETE", f"{base}/{{number}}/assignees", self.unassign)
        router.add("PUT", f"{base}/{{number}}/lock", self.lock)
        router.add("DELETE", f"{base}/{{number}}/lock", self.unlock)
        router.add("GET", f"{base}/{{number}}/events", self.events)
        router.add("GET", "/issues", self.mine)
        router.add("GET", "/user/issues", self.mine)

    def show(self, call: Call, repo: Record, one: Record) -> Record:
        url = f"{views.repo_url(call, repo)}/issues/{one['number']}"
        what = "pull" if one["is_pull"] else "issues"
        shown = {
            "id": one["id"],
            "node_id": views.node_id("Issue", one["id"]),
            "number": one["number"],
            "url": url,
            "repository_url": views.repo_url(call, repo),
            "labels_url": f"{url}/labels{{/name}}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "html_url": f"{call.html}/{repo['full_name']}/{what}/{one['number']}",
            "title": one["title"],
            "body": one["body"],
            "state": one["state"],
            "state_reason": one.get("state_reason"),
            "user": views.user(call, one["user"]),
            "labels": self._labels(call, repo, one),
            "assignee": views.user(call, one["assignees"][0]) if one["assignees"] else None,
            "assignees": [views.user(call, login) for login in one["assignees"]],
            "milestone": None,
            "locked": one.get("locked", False),
            "active_lock_reason": None,
            "comments": self._desk.store.count(
                "comments", {"repo": repo["id"], "number": one["number"]}
            ),
            "author_association": "MEMBER",
            "created_at": views.stamp(one["created_at"]),
            "updated_at": views.stamp(one["updated_at"]),
            "closed_at": views.stamp(one.get("closed_at")),
            "closed_by": views.user(call, one["closed_by"]) if one.get("closed_by") else None,
        }
        if one["is_pull"]:
            pull = f"{views.repo_url(call, repo)}/pulls/{one['number']}"
            merged = self._desk.pull(repo, one["number"]).get("merged_at")
            shown["pull_request"] = {
                "url": pull,
                "html_url": shown["html_url"],
                "diff_url": f"{shown['html_url']}.diff",
                "patch_url": f"{shown['html_url']}.patch",
                "merged_at": views.stamp(merged),
            }
        return shown

    def _labels(self, call: Call, repo: Record, one: Record) -> list[Record]:
        found = (self._desk.label(repo, name) for name in one["labels"])
        return [views.label(call, repo, label) for label in found if label is not None]

    def listed(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = select(self._desk.issues(repo), call.query)
        return paged(call, found, lambda one: self.show(call, repo, one))

    def mine(self, call: Call) -> Reply:
        repos = {one["id"]: one for one in self._desk.store.find("repos")}
        found = [
            one
            for one in self._desk.store.find("issues")
            if call.login in one["assignees"] or call.query.get("filter") == "all"
        ]
        found = select(found, call.query)
        return paged(call, found, lambda one: self.show(call, repos[one["repo"]], one))

    def create(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        issue = self.make(repo, call.login, body, "Issue")
        return Reply(self.show(call, repo, issue), 201)

    def make(
        self, repo: Record, login: str, body: Mapping[str, Any], resource: str, **more: Any
    ) -> Record:
        """A new issue; for a pull request `more` says so. Raises Failed."""
        title = text(body, "title", resource, required=True)
        assignees = names_of(body, "assignees", resource) or names_of(body, "assignee", resource)
        self._desk.check_people(assignees, resource, "assignees")
        labels = names_of(body, "labels", resource)
        moment = self._desk.tick()
        issue = {
            "id": self._desk.new_id(),
            "repo": repo["id"],
            "number": self._desk.next_number(repo),
            "title": title,
            "body": text(body, "body", resource),
            "state": "open",
            "user": login,
            "labels": self._desk.ensure_labels(repo, labels),
            "assignees": list(dict.fromkeys(assignees)),
            "is_pull": False,
            "created_at": moment,
            "updated_at": moment,
            **more,
        }
        self._desk.put_issue(repo, issue)
        return issue

    def get(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        return Reply(self.show(call, repo, self._desk.issue(repo, call.names["number"])))

    def edit(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        issue = self._desk.issue(repo, call.names["number"])
        self.change(repo, issue, body, call.login, "Issue")
        return Reply(self.show(call, repo, issue))

    def change(
        self, repo: Record, issue: Record, body: Mapping[str, Any], login: str, resource: str
    ) -> None:
        """Applies the fields of a body to an issue. Raises Failed."""
        if "title" in body:
            issue["title"] = text(body, "title", resource, required=True)
        if "body" in body:
            issue["body"] = text(body, "body", resource)
        if body.get("labels") is not None:
            names = names_of(body, "labels", resource)
            issue["labels"] = self._desk.ensure_labels(repo, names)
        if body.get("assignees") is not None:
            logins = names_of(body, "assignees", resource)
            self._desk.check_people(logins, resource, "assignees")
            issue["assignees"] = list(dict.fromkeys(logins))
        moment = self._desk.tick()
        if "state" in body:
            self._set_state(repo, issue, body, login, moment, resource)
        issue["updated_at"] = moment
        self._desk.put_issue(repo, issue)

    def _set_state(
        self, repo: Record, issue: Record, body: Mapping[str, Any], login: str, moment: float,
        resource: str,
    ) -> None:  # fmt: skip
        state, reason = body["state"], body.get("state_reason")
        if state not in ("open", "closed") or reason not in (None, *_REASONS):
            raise invalid(resource, "state")
        if state == "open" and self._is_merged(repo, issue):
            raise invalid(resource, "state", "invalid", "a merged pull cannot be reopened")
        if state == issue["state"]:
            return
        if state == "closed":
            self.close(issue, login, moment, None if issue["is_pull"] else reason or "completed")
        else:
            issue |= {"state": "open", "state_reason": "reopened", "closed_at": None,
                      "closed_by": None}  # fmt: skip

    def _is_merged(self, repo: Record, issue: Record) -> bool:
        is_pull = bool(issue["is_pull"])
        return is_pull and self._desk.pull(repo, issue["number"])["merged_at"] is not None

    def close(self, issue: Record, login: str, moment: float, reason: str | None) -> None:
        issue |= {
            "state": "closed",
            "state_reason": reason,
            "closed_at": moment,
            "closed_by": login,
            "updated_at": moment,
        }

    # Labels and people of one issue

    def labels(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        issue = self._desk.issue(repo, call.names["number"])
        return paged(call, self._labels(call, repo, issue), lambda one: one)

    def add_labels(self, call: Call) -> Reply:
        return self._relabel(call, keep=True)

    def set_labels(self, call: Call) -> Reply:
        return self._relabel(call, keep=False)

    def _relabel(self, call: Call, *, keep: bool) -> Reply:
        repo = self._desk.writable(call)
        issue = self._desk.issue(repo, call.names["number"])
        sent = call.json()  # a list may come without an object around it
        sent = sent if isinstance(sent, list) else call.body().get("labels")
        names = names_of({"labels": sent}, "labels", "Label")
        old = issue["labels"] if keep else []
        issue["labels"] = self._desk.ensure_labels(repo, [*old, *names])
        return self._touched(call, repo, issue)

    def clear_labels(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        issue = self._desk.issue(repo, call.names["number"])
        issue["labels"] = []
        self._touched(call, repo, issue)
        return Reply(None, 204)

    def remove_label(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        issue = self._desk.issue(repo, call.names["number"])
        left = [one for one in issue["labels"] if one.lower() != call.names["name"].lower()]
        if len(left) == len(issue["labels"]):
            raise Failed(404, "Label does not exist")
        issue["labels"] = left
        return self._touched(call, repo, issue)

    def _touched(self, call: Call, repo: Record, issue: Record) -> Reply:
        issue["updated_at"] = self._desk.tick()
        self._desk.put_issue(repo, issue)
        return Reply(self._labels(call, repo, issue))

    def assign(self, call: Call) -> Reply:
        repo, logins = self._desk.writable(call), names_of(call.body(), "assignees", "Issue")
        self._desk.check_people(logins, "Issue", "assignees")
        issue = self._desk.issue(repo, call.names["number"])
        issue["assignees"] = list(dict.fromkeys([*issue["assignees"], *logins]))
        self._touched(call, repo, issue)
        return Reply(self.show(call, repo, issue), 201)

    def unassign(self, call: Call) -> Reply:
        repo, logins = self._desk.writable(call), names_of(call.body(), "assignees", "Issue")
        issue = self._desk.issue(repo, call.names["number"])
        issue["assignees"] = [one for one in issue["assignees"] if one not in logins]
        self._touched(call, repo, issue)
        return Reply(self.show(call, repo, issue))

    def lock(self, call: Call) -> Reply:
        return self._set_lock(call, True)

    def unlock(self, call: Call) -> Reply:
        return self._set_lock(call, False)

    def _set_lock(self, call: Call, is_locked: bool) -> Reply:
        repo = self._desk.writable(call)
        issue = self._desk.issue(repo, call.names["number"])
        issue["locked"] = is_locked
        self._touched(call, repo, issue)
        return Reply(None, 204)

    def events(self, call: Call) -> Reply:
        self._desk.issue(self._desk.repo(call), call.names["number"])
        return Reply([])


def select(issues: list[Record], query: Mapping[str, str]) -> list[Record]:
    """The issues that a query asks for, in its order. Raises Failed."""
    state = query.get("state", "open")
    if state not in ("open", "closed", "all"):
        raise invalid("Issue", "state")
    labels = [one.strip().lower() for one in query.get("labels", "").split(",") if one.strip()]
    found = [
        one
        for one in issues
        if state in ("all", one["state"])
        and set(labels) <= {name.lower() for name in one["labels"]}
        and _is_assigned(one, query.get("assignee"))
        and query.get("creator", one["user"]).lower() == one["user"].lower()
        and one["updated_at"] >= _moment(query.get("since"))
    ]
    name = {"updated": "updated_at"}.get(query.get("sort", ""), "created_at")
    is_down = query.get("direction", "desc") != "asc"
    return sorted(found, key=lambda one: (one[name], one["number"]), reverse=is_down)


def _is_assigned(issue: Record, wanted: str | None) -> bool:
    if wanted is None:
        return True
    if wanted == "none":
        return not issue["assignees"]
    if wanted == "*":
        return bool(issue["assignees"])
    return wanted.lower() in [one.lower() for one in issue["assignees"]]


def _moment(text: str | None) -> float:
    if not text:
        return 0.0
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise invalid("Issue", "since") from error
    return found.timestamp() if found.tzinfo else 0.0
