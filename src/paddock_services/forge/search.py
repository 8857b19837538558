"""Search for issues and repositories, with the qualifiers that are used most."""

from __future__ import annotations

from paddock.world.kit import Reply, Term, parse_terms
from paddock_services.forge.call import GithubCall, Routes
from paddock_services.forge.errors import invalid
from paddock_services.forge.hub import Record, Repo
from paddock_services.forge.views import show_issue, show_repo

_MAX_QUERY = 256
_SORT_FIELDS = {"updated": "updated_at", "created": "created_at"}


def search_issues(call: GithubCall) -> Reply:
    terms = _terms(call)
    repos = {repo.id: repo for repo in call.hub.visible_repos(call.user)}
    issues = [
        issue
        for issue in call.store.find("issues", newest_first=True)
        if issue["repo"] in repos
        and all(_issue_matches(term, issue, repos[issue["repo"]]) for term in terms)
    ]
    field = _SORT_FIELDS.get(call.query.get("sort", ""))
    if field:
        is_descending = call.query.get("order", "desc") != "asc"
        issues.sort(key=lambda issue: float(issue[field]), reverse=is_descending)
    page = call.page(issues, lambda issue: show_issue(repos[issue["repo"]], issue))
    return _result(page, len(issues))


def search_repos(call: GithubCall) -> Reply:
    terms = _terms(call)
    repos = [
        repo
        for repo in call.hub.visible_repos(call.user)
        if all(_repo_matches(term, repo) for term in terms)
    ]
    return _result(call.page(repos, lambda repo: show_repo(repo)), len(repos))


def _terms(call: GithubCall) -> list[Term]:
    query = call.query.get("q", "")
    if not query.strip():
        raise invalid("Search", "q", "missing")
    if len(query) > _MAX_QUERY:
        raise invalid("Search", "q", "invalid", "The search is longer than 256 characters.")
    return [term for term in parse_terms(query.lower()) if term.field not in ("in", "sort")]


def _issue_matches(term: Term, issue: Record, repo: Repo) -> bool:
    value = term.value
    match term.field:
        case "repo":
            holds = repo.full_name.lower() == value
        case "user" | "org":
            holds = repo.owner.lower() == value
        case "is" | "type" | "state":
            holds = value in _issue_traits(issue, repo)
        case "label":
            holds = value in [label.lower() for label in issue["labels"]]
        case "author":
            holds = issue["user"].lower() == value
        case "assignee":
            holds = value in [login.lower() for login in issue["assignees"]]
        case "no":
            holds = not issue.get(f"{value}s")
        case _:
            holds = term.text in f"{issue['title']}\n{issue['body'] or ''}".lower()
    return bool(holds) is not term.is_negated


def _issue_traits(issue: Record, repo: Repo) -> set[str]:
    """Return what `is:` can say about an issue."""
    traits = {issue["state"], "private" if repo.is_private else "public"}
    return traits | ({"pr", "pull-request"} if issue["is_pull"] else {"issue"})


def _repo_matches(term: Term, repo: Repo) -> bool:
    if term.field in ("user", "org"):
        holds = repo.owner.lower() == term.value
    else:
        text = f"{repo.full_name}\n{repo.record['description'] or ''}".lower()
        holds = term.value in text
    return holds is not term.is_negated


def _result(page: Reply, total: int) -> Reply:
    body = {"total_count": total, "incomplete_results": False, "items": page.body}
    return Reply(body, headers=page.headers)


ROUTES: Routes = {
    "GET /search/issues": search_issues,
    "GET /search/repositories": search_repos,
}
