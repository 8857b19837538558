"""What the forge shows of its records: URLs, people, times."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from paddock_services.forge.wire import Call

Record = dict[str, Any]
_REPO_LINKS = (
    "archive", "assignees", "blobs", "branches", "collaborators", "comments", "commits", "compare",
    "contents", "contributors", "deployments", "downloads", "events", "forks", "git_commits",
    "git_refs", "git_tags", "hooks", "issue_comment", "issue_events", "issues", "keys", "labels",
    "languages", "merges", "milestones", "notifications", "pulls", "releases", "stargazers",
    "statuses", "subscribers", "subscription", "tags", "teams", "trees",
)  # fmt: skip
_LINK_PATHS = {"git_commits": "git/commits", "git_refs": "git/refs", "git_tags": "git/tags",
               "blobs": "git/blobs", "trees": "git/trees", "issue_comment": "issues/comments",
               "issue_events": "issues/events"}  # fmt: skip


def stamp(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_id(kind: str, id: object) -> str:
    return base64.b64encode(f"0{len(kind)}:{kind}{id}".encode()).decode()


def user(call: Call, login: str, known: Record | None = None) -> Record:
    """Somebody. Who is not in the store has an id that follows from the name."""
    hashed = hashlib.sha256(login.lower().encode()).digest()
    id = int.from_bytes(hashed[:3], "big") + 1_000
    url = f"{call.api}/users/{quote(login)}"
    shown = {
        "login": login,
        "id": id,
        "node_id": node_id("User", id),
        "avatar_url": f"https://avatars.githubusercontent.com/u/{id}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{call.html}/{quote(login)}",
        "repos_url": f"{url}/repos",
        "type": "User",
        "site_admin": False,
    }
    return shown | {k: v for k, v in (known or {}).items() if k in ("login", "id", "type")}


def repo_url(call: Call, repo: Record) -> str:
    return f"{call.api}/repos/{quote(repo['full_name'])}"


def repo(call: Call, one: Record, open_issues: int) -> Record:
    url, html = repo_url(call, one), f"{call.html}/{one['full_name']}"
    owner, _, name = one["full_name"].partition("/")
    links = {f"{link}_url": f"{url}/{_LINK_PATHS.get(link, link)}" for link in _REPO_LINKS}
    return {
        "id": one["id"],
        "node_id": node_id("Repository", one["id"]),
        "name": name,
        "full_name": one["full_name"],
        "private": one["private"],
        "visibility": "private" if one["private"] else "public",
        "owner": user(call, owner),
        "html_url": html,
        "description": one.get("description"),
        "fork": False,
        "url": url,
        **links,
        "clone_url": f"{html}.git",
        "git_url": html.replace("https://", "git://") + ".git",
        "ssh_url": f"git@{call.html.split('//')[-1]}:{one['full_name']}.git",
        "homepage": one.get("homepage"),
        "language": None,
        "topics": one.get("topics", []),
        "archived": one.get("archived", False),
        "disabled": False,
        "has_issues": True,
        "default_branch": one["default_branch"],
        "size": 1,
        "stargazers_count": 0,
        "watchers_count": 0,
        "watchers": 0,
        "forks_count": 0,
        "forks": 0,
        "open_issues_count": open_issues,
        "open_issues": open_issues,
        "created_at": stamp(one["created_at"]),
        "updated_at": stamp(one["updated_at"]),
        "pushed_at": stamp(one["updated_at"]),
        "permissions": {"admin": True, "maintain": True, "push": True, "triage": True,
                        "pull": True},
    }  # fmt: skip


def label(call: Call, repo: Record, one: Record) -> Record:
    return {
        "id": one["id"],
        "node_id": node_id("Label", one["id"]),
        "url": f"{repo_url(call, repo)}/labels/{quote(one['name'], safe='')}",
        "name": one["name"],
        "color": one["color"],
        "default": one.get("default", False),
        "description": one.get("description"),
    }


def comment(call: Call, repo: Record, one: Record) -> Record:
    url = repo_url(call, repo)
    return {
        "id": one["id"],
        "node_id": node_id("IssueComment", one["id"]),
        "url": f"{url}/issues/comments/{one['id']}",
        "html_url": f"{call.html}/{repo['full_name']}/issues/{one['number']}"
        f"#issuecomment-{one['id']}",
        "issue_url": f"{url}/issues/{one['number']}",
        "body": one["body"],
        "user": user(call, one["user"]),
        "author_association": "MEMBER",
        "created_at": stamp(one["created_at"]),
        "updated_at": stamp(one["updated_at"]),
    }


def git_commit(call: Call, repo: Record, one: Record) -> Record:
    """A commit as git has it."""
    url = repo_url(call, repo)
    person = {**one["author"], "date": stamp(one["moment"])}
    return {
        "sha": one["sha"],
        "node_id": node_id("Commit", one["sha"]),
        "url": f"{url}/git/commits/{one['sha']}",
        "html_url": f"{call.html}/{repo['full_name']}/commit/{one['sha']}",
        "author": person,
        "committer": person,
        "message": one["message"],
        "tree": {"sha": one["tree"], "url": f"{url}/git/trees/{one['tree']}"},
        "parents": [
            {
                "sha": parent,
                "url": f"{url}/git/commits/{parent}",
                "html_url": f"{call.html}/{repo['full_name']}/commit/{parent}",
            }
            for parent in one["parents"]
        ],
        "verification": {"verified": False, "reason": "unsigned", "signature": None,
                         "payload": None},
    }  # fmt: skip


def commit(call: Call, repo: Record, one: Record) -> Record:
    """A commit as the forge lists it."""
    url, inner = repo_url(call, repo), git_commit(call, repo, one)
    parents = [
        {**parent, "url": parent["url"].replace("/git/commits/", "/commits/")}
        for parent in inner["parents"]
    ]
    who = user(call, one["author"]["name"])
    return {
        "sha": one["sha"],
        "node_id": inner["node_id"],
        "url": f"{url}/commits/{one['sha']}",
        "html_url": inner["html_url"],
        "comments_url": f"{url}/commits/{one['sha']}/comments",
        "commit": {name: inner[name] for name in ("author", "committer", "message", "tree", "url",
                                                  "verification")} | {"comment_count": 0},
        "author": who,
        "committer": who,
        "parents": parents,
    }  # fmt: skip


def ref(call: Call, repo: Record, name: str, sha: str) -> Record:
    url = repo_url(call, repo)
    return {
        "ref": name,
        "node_id": node_id("Ref", name),
        "url": f"{url}/git/{quote(name)}",
        "object": {"type": "commit", "sha": sha, "url": f"{url}/git/commits/{sha}"},
    }
