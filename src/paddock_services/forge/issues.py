"""Issues: create, list, change, label, assign and lock them. A pull request is an issue, too."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from paddock.world.kit import Reply
from paddock_services.forge.call import GithubCall, Routes, names_field, required_text, text_field
from paddock_services.forge.errors import GithubError, invalid
from paddock_services.forge.hub import Record, Repo
from paddock_services.forge.views import show_issue, show_label

_STATES = ("open", "closed")
_STATE_REASONS = ("completed", "not_planned", "reopened", "duplicate")
_LOCK_REASONS = ("off-topic", "too heated", "resolved", "spam")


def list_issues(call: GithubCall) -> Reply:
    repo = call.repo()
    issues = filter_issues(repo.issues(), call.query)
    return call.page(issues, lambda issue: show_issue(repo, issue))


def create_issue(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    issue = new_issue(repo, call.login, call.body, "Issue")
    return Reply(show_issue(repo, issue), 201)


def get_issue(call: GithubCall) -> Reply:
    repo = call.repo()
    return Reply(show_issue(repo, repo.issue(call.params["number"])))


def edit_issue(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    change_issue(repo, issue, call.body, call.login)
    return Reply(show_issue(repo, issue))


def new_issue(
    repo: Repo, login: str, fields: Mapping[str, Any], resource: str, *, is_pull: bool = False
) -> Record:
    """Create an issue, or the issue of a pull request."""
    title = required_text(fields, "title", resource)
    assignees = names_field(fields, "assignees", resource) or names_field(
        fields, "assignee", resource
    )
    repo.hub.check_users(assignees, resource, "assignees")
    labels = names_field(fields, "labels", resource)
    body = text_field(fields, "body", resource)
    now = repo.hub.tick()
    issue = {
        "id": repo.hub.new_id(),
        "repo": repo.id,
        "number": repo.next_number(),
        "title": title,
        "body": body,
        "state": "open",
        "state_reason": None,
        "user": login,
        "labels": repo.ensure_labels(labels),
        "assignees": assignees,
        "is_pull": is_pull,
        "locked": False,
        "lock_reason": None,
        "created_at": now,
        "updated_at": now,
        "closed_at": None,
        "closed_by": None,
    }
    repo.put_issue(issue)
    return issue


def change_issue(repo: Repo, issue: Record, fields: Mapping[str, Any], login: str) -> None:
    """Change the fields of an issue that are present."""
    resource = "PullRequest" if issue["is_pull"] else "Issue"
    now = repo.hub.tick()
    if "title" in fields:
        issue["title"] = required_text(fields, "title", resource)
    if "body" in fields:
        issue["body"] = text_field(fields, "body", resource)
    if fields.get("labels") is not None:
        issue["labels"] = repo.ensure_labels(names_field(fields, "labels", resource))
    if fields.get("assignees") is not None:
        issue["assignees"] = names_field(fields, "assignees", resource)
        repo.hub.check_users(issue["assignees"], resource, "assignees")
    if "state" in fields:
        _change_state(repo, issue, fields, login, now)
    issue["updated_at"] = now
    repo.put_issue(issue)


def close_issue(issue: Record, login: str, time: float, reason: str | None) -> None:
    issue |= {"state": "closed", "state_reason": reason, "closed_at": time, "closed_by": login}


def _change_state(
    repo: Repo, issue: Record, fields: Mapping[str, Any], login: str, now: float
) -> None:
    resource = "PullRequest" if issue["is_pull"] else "Issue"
    state, reason = fields["state"], fields.get("state_reason")
    if state not in _STATES or reason not in (None, *_STATE_REASONS):
        raise invalid(resource, "state")
    if state == issue["state"]:
        return
    if state == "open":
        if issue["is_pull"] and repo.pull(issue["number"])["merged_at"] is not None:
            raise invalid(resource, "state", "invalid", "a merged pull cannot be reopened")
        issue |= {"state": "open", "state_reason": "reopened", "closed_at": None, "closed_by": None}
    else:
        default = None if issue["is_pull"] else "completed"
        close_issue(issue, login, now, reason or default)


def list_issue_labels(call: GithubCall) -> Reply:
    repo = call.repo()
    labels = _show_labels(call, repo, repo.issue(call.params["number"]))
    return call.page(labels, lambda label: label)


def add_issue_labels(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    return _set_labels(call, repo, issue, [*issue["labels"], *_sent_labels(call)])


def set_issue_labels(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    return _set_labels(call, repo, issue, _sent_labels(call))


def remove_issue_label(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    name = call.params["name"].lower()
    labels = [label for label in issue["labels"] if label.lower() != name]
    if len(labels) == len(issue["labels"]):
        raise GithubError(404, "Label does not exist")
    return _set_labels(call, repo, issue, labels)


def add_assignees(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    logins = names_field(call.body, "assignees", "Issue")
    repo.hub.check_users(logins, "Issue", "assignees")
    issue["assignees"] = list(dict.fromkeys([*issue["assignees"], *logins]))
    _save(repo, issue)
    return Reply(show_issue(repo, issue), 201)


def remove_assignees(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    logins = names_field(call.body, "assignees", "Issue")
    issue["assignees"] = [login for login in issue["assignees"] if login not in logins]
    _save(repo, issue)
    return Reply(show_issue(repo, issue))


def lock_issue(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    reason = call.body.get("lock_reason")
    if reason is not None and reason not in _LOCK_REASONS:
        choices = ", ".join(_LOCK_REASONS)
        raise invalid("Issue", "lock_reason", "invalid", f"lock_reason must be one of: {choices}")
    issue |= {"locked": True, "lock_reason": reason}
    _save(repo, issue)
    return Reply(None, 204)


def unlock_issue(call: GithubCall) -> Reply:
    repo, issue = _writable_issue(call)
    issue |= {"locked": False, "lock_reason": None}
    _save(repo, issue)
    return Reply(None, 204)


def _writable_issue(call: GithubCall) -> tuple[Repo, Record]:
    repo = call.writable_repo()
    return repo, repo.issue(call.params["number"])


def _save(repo: Repo, issue: Record) -> None:
    issue["updated_at"] = repo.hub.tick()
    repo.put_issue(issue)


def _sent_labels(call: GithubCall) -> list[str]:
    """Return the labels of a body, which may be a list without an object around it."""
    body = call.json
    labels = body if isinstance(body, list) else call.body.get("labels")
    return names_field({"labels": labels}, "labels", "Label")


def _set_labels(call: GithubCall, repo: Repo, issue: Record, labels: list[str]) -> Reply:
    issue["labels"] = repo.ensure_labels(labels)
    _save(repo, issue)
    return Reply(_show_labels(call, repo, issue))


def _show_labels(call: GithubCall, repo: Repo, issue: Record) -> list[Record]:
    labels = (repo.label(name) for name in issue["labels"])
    return [show_label(repo, label) for label in labels if label]


def filter_issues(issues: list[Record], query: Mapping[str, str]) -> list[Record]:
    """Return the issues that the parameters of a list ask for, in its order."""
    state = query.get("state", "open")
    if state not in (*_STATES, "all"):
        raise invalid("Issue", "state")
    labels = {label.strip().lower() for label in query.get("labels", "").split(",")} - {""}
    since = _parse_time(query.get("since"))
    matches = [
        issue
        for issue in issues
        if state in ("all", issue["state"])
        and labels <= {name.lower() for name in issue["labels"]}
        and _is_assigned(issue, query.get("assignee"))
        and query.get("creator", issue["user"]).lower() == issue["user"].lower()
        and issue["updated_at"] >= since
    ]
    key = "updated_at" if query.get("sort") == "updated" else "created_at"
    is_descending = query.get("direction", "desc") != "asc"
    matches.sort(key=lambda issue: (issue[key], issue["number"]), reverse=is_descending)
    return matches


def _is_assigned(issue: Record, login: str | None) -> bool:
    match login:
        case None:
            return True
        case "none":
            return not issue["assignees"]
        case "*":
            return bool(issue["assignees"])
    return login.lower() in [assignee.lower() for assignee in issue["assignees"]]


def _parse_time(text: str | None) -> float:
    if not text:
        return 0.0
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise invalid("Issue", "since") from error
    return time.timestamp() if time.tzinfo else 0.0


ROUTES: Routes = {
    "GET /repos/{owner}/{repo}/issues": list_issues,
    "POST /repos/{owner}/{repo}/issues": create_issue,
    "GET /repos/{owner}/{repo}/issues/{number}": get_issue,
    "PATCH /repos/{owner}/{repo}/issues/{number}": edit_issue,
    "GET /repos/{owner}/{repo}/issues/{number}/labels": list_issue_labels,
    "POST /repos/{owner}/{repo}/issues/{number}/labels": add_issue_labels,
    "PUT /repos/{owner}/{repo}/issues/{number}/labels": set_issue_labels,
    "DELETE /repos/{owner}/{repo}/issues/{number}/labels/{name}": remove_issue_label,
    "POST /repos/{owner}/{repo}/issues/{number}/assignees": add_assignees,
    "DELETE /repos/{owner}/{repo}/issues/{number}/assignees": remove_assignees,
    "PUT /repos/{owner}/{repo}/issues/{number}/lock": lock_issue,
    "DELETE /repos/{owner}/{repo}/issues/{number}/lock": unlock_issue,
}
