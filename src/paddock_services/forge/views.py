"""Records as the API shows them."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

from paddock.world.kit import iso_timestamp
from paddock_services.forge.diff import FileDiff
from paddock_services.forge.hub import Hub, Record, Repo


def timestamp(time: float | None) -> str | None:
    if time is None:
        return None
    return iso_timestamp(time)


def show_user(hub: Hub, login: str) -> Record:
    """Show a user. Somebody who is not in the store has an id that is derived from the login."""
    user = hub.user(login)
    digest = hashlib.sha256(login.lower().encode()).digest()
    id = user.get("id") or int.from_bytes(digest[:3], "big") + 1_000
    return {
        "login": user.get("login", login),
        "id": id,
        "avatar_url": f"https://avatars.githubusercontent.com/u/{id}?v=4",
        "url": f"{hub.urls.api}/users/{quote(login)}",
        "html_url": f"{hub.urls.page}/{quote(login)}",
        "type": user.get("type", "User"),
        "site_admin": False,
    }


def show_users(hub: Hub, logins: list[str]) -> list[Record]:
    return [show_user(hub, login) for login in logins]


def show_repo(repo: Repo) -> Record:
    record = repo.record
    open_issues = repo.count_open_issues()
    permissions = ("admin", "maintain", "push", "triage", "pull")
    return {
        "id": repo.id,
        "name": repo.full_name.partition("/")[2],
        "full_name": repo.full_name,
        "private": repo.is_private,
        "visibility": "private" if repo.is_private else "public",
        "owner": show_user(repo.hub, repo.owner),
        "url": repo.url,
        "html_url": repo.page,
        "clone_url": f"{repo.page}.git",
        "description": record["description"],
        "fork": False,
        "language": None,
        "topics": [],
        "archived": record.get("archived", False),
        "disabled": False,
        "has_issues": True,
        "default_branch": repo.default_branch,
        "stargazers_count": 0,
        "watchers_count": 0,
        "forks_count": 0,
        "open_issues_count": open_issues,
        "open_issues": open_issues,
        "created_at": timestamp(record["created_at"]),
        "updated_at": timestamp(record["updated_at"]),
        "pushed_at": timestamp(record["updated_at"]),
        "permissions": dict.fromkeys(permissions, True),
    }


def show_label(repo: Repo, label: Record) -> Record:
    shown = {name: value for name, value in label.items() if name != "repo"}
    url = f"{repo.url}/labels/{quote(label['name'], safe='')}"
    return {**shown, "url": url}


def show_issue(repo: Repo, issue: Record) -> Record:
    number, closed_by = issue["number"], issue["closed_by"]
    url = f"{repo.url}/issues/{number}"
    html = f"{repo.page}/{'pull' if issue['is_pull'] else 'issues'}/{number}"
    labels = (repo.label(name) for name in issue["labels"])
    assignees = show_users(repo.hub, issue["assignees"])
    comments = repo.hub.store.count("comments", {"repo": repo.id, "number": number})
    shown = {
        "id": issue["id"],
        "number": number,
        "url": url,
        "repository_url": repo.url,
        "comments_url": f"{url}/comments",
        "html_url": html,
        "title": issue["title"],
        "body": issue["body"],
        "state": issue["state"],
        "state_reason": issue["state_reason"],
        "user": show_user(repo.hub, issue["user"]),
        "labels": [show_label(repo, label) for label in labels if label],
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "locked": issue["locked"],
        "active_lock_reason": issue["lock_reason"],
        "comments": comments,
        "author_association": "MEMBER",
        "created_at": timestamp(issue["created_at"]),
        "updated_at": timestamp(issue["updated_at"]),
        "closed_at": timestamp(issue["closed_at"]),
        "closed_by": show_user(repo.hub, closed_by) if closed_by else None,
    }
    if issue["is_pull"]:
        shown["pull_request"] = {
            "url": f"{repo.url}/pulls/{number}",
            "html_url": html,
            "merged_at": timestamp(repo.pull(number)["merged_at"]),
        }
    return shown


def show_comment(repo: Repo, comment: Record) -> Record:
    issue = f"issues/{comment['number']}"
    return {
        "id": comment["id"],
        "url": f"{repo.url}/issues/comments/{comment['id']}",
        "html_url": f"{repo.page}/{issue}#issuecomment-{comment['id']}",
        "issue_url": f"{repo.url}/{issue}",
        "body": comment["body"],
        "user": show_user(repo.hub, comment["user"]),
        "author_association": "MEMBER",
        "created_at": timestamp(comment["created_at"]),
        "updated_at": timestamp(comment["updated_at"]),
    }


def show_git_commit(repo: Repo, commit: Record) -> Record:
    """Show a commit as the git database has it."""
    git = f"{repo.url}/git"
    author = {**commit["author"], "date": timestamp(commit["time"])}
    return {
        "sha": commit["sha"],
        "url": f"{git}/commits/{commit['sha']}",
        "html_url": f"{repo.page}/commit/{commit['sha']}",
        "author": author,
        "committer": author,
        "message": commit["message"],
        "tree": {"sha": commit["tree"], "url": f"{git}/trees/{commit['tree']}"},
        "parents": [{"sha": sha, "url": f"{git}/commits/{sha}"} for sha in commit["parents"]],
    }


def show_commit(repo: Repo, commit: Record) -> Record:
    """Show a commit as lists of commits have it."""
    commits = f"{repo.url}/commits"
    inner = show_git_commit(repo, commit)
    author = show_user(repo.hub, commit["author"]["name"])
    return {
        "sha": commit["sha"],
        "url": f"{commits}/{commit['sha']}",
        "html_url": inner["html_url"],
        "commit": inner,
        "author": author,
        "committer": author,
        "parents": [{"sha": sha, "url": f"{commits}/{sha}"} for sha in commit["parents"]],
    }


def show_ref(repo: Repo, name: str, sha: str) -> Record:
    git = f"{repo.url}/git"
    return {
        "ref": name,
        "url": f"{git}/{quote(name)}",
        "object": {"type": "commit", "sha": sha, "url": f"{git}/commits/{sha}"},
    }


def show_file_diff(repo: Repo, diff: FileDiff, sha: str) -> Record:
    """Show the change of a file in the commit or head `sha`."""
    if diff.before is None:
        status = "added"
    elif diff.after is None:
        status = "removed"
    else:
        status = "modified"
    shown: dict[str, Any] = {
        "sha": diff.after or diff.before,
        "filename": diff.path,
        "status": status,
        "additions": diff.additions,
        "deletions": diff.deletions,
        "changes": diff.additions + diff.deletions,
        "blob_url": f"{repo.page}/blob/{sha}/{quote(diff.path)}",
        "raw_url": f"{repo.page}/raw/{sha}/{quote(diff.path)}",
        "contents_url": f"{repo.url}/contents/{quote(diff.path)}?ref={sha}",
    }
    if diff.patch is not None:
        shown["patch"] = diff.patch
    return shown
