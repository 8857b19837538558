"""Searching issues and repositories, with the qualifiers that people use most."""

from __future__ import annotations

import re
from typing import Any

from paddock_services.forge.desk import Desk, Record
from paddock_services.forge.issues import Issues
from paddock_services.forge.repos import Repos
from paddock_services.forge.wire import Call, Reply, Router, invalid, paged

_MAX_QUERY = 256
_TERM = re.compile(r'(-?)(?:([a-z-]{1,20}):)?(?:"([^"]{0,200})"|([^\s"]{1,200}))')


class Search:
    """Finds by words and qualifiers; all must hold."""

    def __init__(self, desk: Desk, issues: Issues, repos: Repos, router: Router) -> None:
        self._desk = desk
        self._issues = issues
        self._repos = repos
        router.add("GET", "/search/issues", self.issues)
        router.add("GET", "/search/repositories", self.repositories)

    def issues(self, call: Call) -> Reply:
        terms = _terms(call)
        repos = {one["id"]: one for one in self._visible(call)}
        found = [
            one
            for one in self._desk.store.find("issues", newest_first=True)
            if one["repo"] in repos and _is_wanted(terms, one, repos[one["repo"]])
        ]
        name = {"updated": "updated_at", "created": "created_at"}.get(call.query.get("sort", ""))
        if name:
            is_down = call.query.get("order", "desc") != "asc"
            found.sort(key=lambda one: float(one[name]), reverse=is_down)
        page = paged(call, found, lambda one: self._issues.show(call, repos[one["repo"]], one))
        return _result(page, len(found))

    def repositories(self, call: Call) -> Reply:
        terms = _terms(call)
        found = [one for one in self._visible(call) if _is_wanted_repo(terms, one)]
        return _result(paged(call, found, lambda one: self._repos.show(call, one)), len(found))

    def _visible(self, call: Call) -> list[Record]:
        found = self._desk.store.find("repos")
        return [one for one in found if call.me is not None or not one["private"]]


Term = tuple[bool, str, str]  # wanted or not, qualifier, value


def _terms(call: Call) -> list[Term]:
    query = call.query.get("q", "")
    if not query.strip():
        raise invalid("Search", "q", "missing")
    if len(query) > _MAX_QUERY:
        raise invalid("Search", "q", "invalid", "The search is longer than 256 characters.")
    return [
        (not minus, name, (quoted or plain).lower())
        for minus, name, quoted, plain in _TERM.findall(query)
    ]


def _is_wanted(terms: list[Term], issue: Record, repo: Record) -> bool:
    return all(_holds(name, value, issue, repo) is wanted for wanted, name, value in terms)


def _holds(name: str, value: str, issue: Record, repo: Record) -> bool:
    owner = repo["full_name"].lower().partition("/")[0]
    match name:
        case "repo":
            return bool(repo["full_name"].lower() == value)
        case "user" | "org":
            return bool(owner == value)
        case "is" | "type" | "state":
            kind = {"pr": issue["is_pull"], "issue": not issue["is_pull"]}
            kind |= {"pull-request": issue["is_pull"], "private": repo["private"]}
            kind |= {"open": issue["state"] == "open", "closed": issue["state"] == "closed"}
            kind["public"] = not repo["private"]
            return bool(kind.get(value, False))
        case "label":
            return value in [one.lower() for one in issue["labels"]]
        case "author":
            return bool(issue["user"].lower() == value)
        case "assignee":
            return value in [one.lower() for one in issue["assignees"]]
        case "no":
            return not issue.get({"label": "labels", "assignee": "assignees"}.get(value, value))
        case "in":
            return True
    words = f"{name}:{value}" if name else value
    return words in f"{issue['title']}\n{issue['body'] or ''}".lower()


def _is_wanted_repo(terms: list[Term], repo: Record) -> bool:
    text = f"{repo['full_name']}\n{repo.get('description') or ''}".lower()
    owner = repo["full_name"].lower().partition("/")[0]
    for wanted, name, value in terms:
        holds = owner == value if name in ("user", "org") else value in text
        if name not in ("in", "sort") and holds is not wanted:
            return False
    return True


def _result(page: Reply, total: int) -> Reply:
    body: dict[str, Any] = {"total_count": total, "incomplete_results": False, "items": page.body}
    return Reply(body, 200, page.headers)
