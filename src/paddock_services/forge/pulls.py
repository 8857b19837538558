"""Pull requests: propose, list, change and merge them, and ask for reviewers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paddock.world.kit import Reply
from paddock_services.forge.call import GithubCall, Routes, names_field, required_text, text_field
from paddock_services.forge.diff import FileDiff, diff_files
from paddock_services.forge.errors import GithubError, invalid, not_found
from paddock_services.forge.git import Files, NewCommit, merge
from paddock_services.forge.hub import Record, Repo
from paddock_services.forge.issues import change_issue, close_issue, new_issue
from paddock_services.forge.views import (
    show_commit,
    show_file_diff,
    show_issue,
    show_repo,
    show_user,
    show_users,
    timestamp,
)

_CLOSING_WORDS = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\s{1,4}#(\d{1,9})\b", re.IGNORECASE
)
_MERGE_METHODS = ("merge", "squash", "rebase")
_MAX_SCANNED = 100_000  # characters of a description that are searched for closing words


def list_pulls(call: GithubCall) -> Reply:
    repo, query = call.repo(), call.query
    state = query.get("state", "open")
    if state not in ("open", "closed", "all"):
        raise invalid("PullRequest", "state")
    head = query.get("head", "").rpartition(":")[2]
    pulls = [
        pull
        for pull in repo.pulls()
        if state in ("all", repo.issue(pull["number"])["state"])
        and query.get("base", pull["base"]) == pull["base"]
        and (not head or head == pull["head"])
    ]
    if query.get("direction", "desc") != "asc":
        pulls.reverse()
    return call.page(pulls, lambda pull: _show_in_list(repo, pull))


def create_pull(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    pull = new_pull(repo, call.login, call.body)
    return Reply(_show(repo, pull), 201)


def new_pull(repo: Repo, login: str, fields: Mapping[str, Any]) -> Record:
    head = required_text(fields, "head", "PullRequest").rpartition(":")[2]
    base = required_text(fields, "base", "PullRequest")
    head_sha, base_sha = repo.git.branch(head), repo.git.branch(base)
    if head_sha is None or base_sha is None:
        raise invalid("PullRequest", "head" if head_sha is None else "base")
    if not repo.git.between(base_sha, head_sha):
        message = f"No commits between {base} and {head}"
        raise invalid("PullRequest", "head", "custom", message)
    same = repo.pulls(head=head, base=base)
    if any(repo.issue(pull["number"])["state"] == "open" for pull in same):
        message = f"A pull request already exists for {head}."
        raise invalid("PullRequest", "head", "custom", message)
    issue = new_issue(repo, login, fields, "PullRequest", is_pull=True)
    pull = {
        "repo": repo.id,
        "number": issue["number"],
        "head": head,
        "base": base,
        "head_sha": head_sha,
        "base_sha": base_sha,
        "draft": fields.get("draft") is True,
        "reviewers": [],
        "merged_at": None,
        "merged_by": None,
        "merge_sha": None,
    }
    repo.put_pull(pull)
    return pull


def get_pull(call: GithubCall) -> Reply:
    repo = call.repo()
    return Reply(_show(repo, repo.pull(call.params["number"])))


def edit_pull(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    pull = repo.pull(call.params["number"])
    fields: Record = {
        name: call.body[name] for name in ("title", "body", "state") if name in call.body
    }
    change_issue(repo, repo.issue(pull["number"]), fields, call.login)
    return Reply(_show(repo, pull))


def list_files(call: GithubCall) -> Reply:
    repo = call.repo()
    pull = repo.pull(call.params["number"])
    sha = head_sha(repo, pull)
    return call.page(pull_diffs(repo, pull), lambda diff: show_file_diff(repo, diff, sha))


def list_commits(call: GithubCall) -> Reply:
    repo = call.repo()
    commits = _commits(repo, repo.pull(call.params["number"]))
    return call.page(commits, lambda commit: show_commit(repo, commit))


def check_merged(call: GithubCall) -> Reply:
    if call.repo().pull(call.params["number"])["merged_at"] is None:
        raise not_found()
    return Reply(None, 204)


def merge_pull(call: GithubCall) -> Reply:
    repo, body = call.writable_repo(), call.body
    pull = repo.pull(call.params["number"])
    issue = repo.issue(pull["number"])
    head, base = head_sha(repo, pull), _base_sha(repo, pull)
    method = body.get("merge_method", "merge")
    if method not in _MERGE_METHODS:
        raise invalid("PullRequest", "merge_method")
    if body.get("sha") not in (None, head):
        raise GithubError(409, "Head branch was modified. Review and try the merge again.")
    files = _merged_files(repo, pull)
    if issue["state"] != "open" or pull["draft"] or files is None:
        raise GithubError(405, "Pull Request is not mergeable")
    now = call.hub.tick()
    message = _merge_message(repo, pull, issue, body)
    parents = (base, head) if method == "merge" else (base,)
    author = call.hub.commit_author(call.login)
    sha = repo.git.commit(pull["base"], NewCommit(files, message, parents, author, now))
    pull |= {"head_sha": head, "base_sha": base}
    pull |= {"merged_at": now, "merged_by": call.login, "merge_sha": sha}
    repo.put_pull(pull)
    close_issue(issue, call.login, now, None)
    repo.put_issue({**issue, "updated_at": now})
    if pull["base"] == repo.default_branch:
        _close_mentioned(repo, issue, call.login, now)
    answer = {"sha": sha, "merged": True, "message": "Pull Request successfully merged"}
    return Reply(answer)


def request_reviewers(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    pull = repo.pull(call.params["number"])
    logins = names_field(call.body, "reviewers", "PullRequest")
    call.hub.check_users(logins, "PullRequest", "reviewers")
    call.hub.tick()
    pull["reviewers"] = list(dict.fromkeys([*pull["reviewers"], *logins]))
    repo.put_pull(pull)
    return Reply(_show(repo, pull), 201)


def head_sha(repo: Repo, pull: Record) -> str:
    """Return the head of a pull: the branch moves on until the pull is merged."""
    branch = None if pull["merged_at"] is not None else repo.git.branch(pull["head"])
    return str(branch or pull["head_sha"])


def pull_diffs(repo: Repo, pull: Record) -> list[FileDiff]:
    """Return the changes of a pull, from where the branches went apart to its head."""
    root, _, head = _three_sides(repo, pull)
    return diff_files(repo.git, root, head)


def _base_sha(repo: Repo, pull: Record) -> str:
    branch = None if pull["merged_at"] is not None else repo.git.branch(pull["base"])
    return str(branch or pull["base_sha"])


def _three_sides(repo: Repo, pull: Record) -> tuple[Files, Files, Files]:
    """Return the files of the merge base, of the base and of the head."""
    base, head = _base_sha(repo, pull), head_sha(repo, pull)
    root = repo.git.merge_base(base, head)
    return repo.git.files(root), repo.git.files(base), repo.git.files(head)


def _merged_files(repo: Repo, pull: Record) -> Files | None:
    return merge(*_three_sides(repo, pull))


def _commits(repo: Repo, pull: Record) -> list[Record]:
    return repo.git.between(_base_sha(repo, pull), head_sha(repo, pull))


def _close_mentioned(repo: Repo, pull: Record, login: str, now: float) -> None:
    """Close the issues that a merged pull says it fixes (`Fixes #3`)."""
    text = f"{pull['title']}\n{pull['body'] or ''}"[:_MAX_SCANNED]
    for number in _CLOSING_WORDS.findall(text):
        issue = repo.hub.store.get("issues", f"{repo.id}#{int(number)}")
        if issue is not None and issue["state"] == "open" and not issue["is_pull"]:
            close_issue(issue, login, now, "completed")
            repo.put_issue({**issue, "updated_at": now})


def _merge_message(repo: Repo, pull: Record, issue: Record, body: Mapping[str, Any]) -> str:
    if body.get("merge_method", "merge") == "merge":
        title = f"Merge pull request #{pull['number']} from {repo.owner}/{pull['head']}"
        details = issue["title"]
    else:
        title, details = f"{issue['title']} (#{pull['number']})", ""
    title = text_field(body, "commit_title", "PullRequest") or title
    sent = text_field(body, "commit_message", "PullRequest")
    details = details if sent is None else sent
    return f"{title}\n\n{details}" if details else title


def _show_in_list(repo: Repo, pull: Record) -> Record:
    number = pull["number"]
    shown = show_issue(repo, repo.issue(number))
    del shown["pull_request"]
    return shown | {
        "url": f"{repo.url}/pulls/{number}",
        "issue_url": f"{repo.url}/issues/{number}",
        "diff_url": f"{shown['html_url']}.diff",
        "draft": pull["draft"],
        "head": _show_branch(repo, pull["head"], head_sha(repo, pull)),
        "base": _show_branch(repo, pull["base"], _base_sha(repo, pull)),
        "merged_at": timestamp(pull["merged_at"]),
        "merge_commit_sha": pull["merge_sha"],
        "requested_reviewers": show_users(repo.hub, pull["reviewers"]),
        "requested_teams": [],
    }


def _show(repo: Repo, pull: Record) -> Record:
    """Show a pull with what only the answer for a single one has."""
    is_merged = pull["merged_at"] is not None
    is_mergeable = None
    state = "unknown"
    if not is_merged:
        is_mergeable = _merged_files(repo, pull) is not None
        state = "clean" if is_mergeable else "dirty"
    diffs, by = pull_diffs(repo, pull), pull["merged_by"]
    comments = {"repo": repo.id, "number": pull["number"]}
    return _show_in_list(repo, pull) | {
        "merged": is_merged,
        "mergeable": is_mergeable,
        "mergeable_state": state,
        "rebaseable": is_mergeable,
        "merged_by": show_user(repo.hub, by) if by else None,
        "review_comments": repo.hub.store.count("review_comments", comments),
        "commits": len(_commits(repo, pull)),
        "additions": sum(diff.additions for diff in diffs),
        "deletions": sum(diff.deletions for diff in diffs),
        "changed_files": len(diffs),
        "maintainer_can_modify": False,
    }


def _show_branch(repo: Repo, name: str, sha: str) -> Record:
    return {
        "label": f"{repo.owner}:{name}",
        "ref": name,
        "sha": sha,
        "user": show_user(repo.hub, repo.owner),
        "repo": show_repo(repo),
    }


ROUTES: Routes = {
    "GET /repos/{owner}/{repo}/pulls": list_pulls,
    "POST /repos/{owner}/{repo}/pulls": create_pull,
    "GET /repos/{owner}/{repo}/pulls/{number}": get_pull,
    "PATCH /repos/{owner}/{repo}/pulls/{number}": edit_pull,
    "GET /repos/{owner}/{repo}/pulls/{number}/files": list_files,
    "GET /repos/{owner}/{repo}/pulls/{number}/commits": list_commits,
    "GET /repos/{owner}/{repo}/pulls/{number}/merge": check_merged,
    "PUT /repos/{owner}/{repo}/pulls/{number}/merge": merge_pull,
    "POST /repos/{owner}/{repo}/pulls/{number}/requested_reviewers": request_reviewers,
}
