"""Pull requests: proposed, looked at, merged or not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paddock_services.forge import views
from paddock_services.forge.desk import Desk, Record
from paddock_services.forge.diff import file_changes
from paddock_services.forge.git import Files, NewCommit, merge
from paddock_services.forge.issues import Issues
from paddock_services.forge.wire import (
    Call,
    Failed,
    Reply,
    Router,
    invalid,
    names_of,
    not_found,
    paged,
    text,
)

_CLOSES = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\s{1,4}#(\d{1,9})\b", re.IGNORECASE
)
_METHODS = ("merge", "squash", "rebase")


class Pulls:
    """The pull requests of each repository."""

    def __init__(self, desk: Desk, issues: Issues, router: Router) -> None:
        self._desk = desk
        self._issues = issues
        base = "/repos/{owner}/{repo}/pulls"
        router.add("GET", base, self.listed)
        router.add("POST", base, self.create)
        router.add("GET", f"{base}/{{number}}", self.get)
        router.add("PATCH", f"{base}/{{number}}", self.edit)
        router.add("GET", f"{base}/{{number}}/files", self.files)
        router.add("GET", f"{base}/{{number}}/commits", self.commits)
        router.add("GET", f"{base}/{{number}}/merge", self.is_merged)
        router.add("PUT", f"{base}/{{number}}/merge", self.merge)
        router.add("GET", f"{base}/{{number}}/requested_reviewers", self.reviewers)
        router.add("POST", f"{base}/{{number}}/requested_reviewers", self.request)
        router.add("DELETE", f"{base}/{{number}}/requested_reviewers", self.unrequest)

    def show(self, call: Call, repo: Record, pull: Record, *, is_full: bool = True) -> Record:
        issue = self._desk.issue(repo, pull["number"])
        shown = self._issues.show(call, repo, issue)
        del shown["pull_request"]
        url = f"{views.repo_url(call, repo)}/pulls/{pull['number']}"
        shown |= {
            "node_id": views.node_id("PullRequest", issue["id"]),
            "url": url,
            "issue_url": f"{views.repo_url(call, repo)}/issues/{pull['number']}",
            "commits_url": f"{url}/commits",
            "review_comments_url": f"{url}/comments",
            "diff_url": f"{shown['html_url']}.diff",
            "patch_url": f"{shown['html_url']}.patch",
            "draft": pull["draft"],
            "head": self._end(call, repo, pull["head"], self._head(repo, pull)),
            "base": self._end(call, repo, pull["base"], self._base(repo, pull)),
            "merged_at": views.stamp(pull["merged_at"]),
            "merge_commit_sha": pull.get("merge_sha"),
            "requested_reviewers": [views.user(call, one) for one in pull["reviewers"]],
            "requested_teams": [],
            "auto_merge": None,
            "_links": {"self": {"href": url}, "html": {"href": shown["html_url"]}},
        }
        return shown | self._rest(call, repo, pull) if is_full else shown

    def _end(self, call: Call, repo: Record, name: str, sha: str | None) -> Record:
        owner = repo["full_name"].partition("/")[0]
        return {
            "label": f"{owner}:{name}",
            "ref": name,
            "sha": sha,
            "user": views.user(call, owner),
            "repo": views.repo(call, repo, self._desk.open_issues(repo)),
        }

    def _rest(self, call: Call, repo: Record, pull: Record) -> Record:
        is_merged = pull["merged_at"] is not None
        is_possible = not is_merged and self._merged(repo, pull) is not None
        files = self._changes(call, repo, pull)
        by = pull.get("merged_by")
        reviews = {"repo": repo["id"], "number": pull["number"], "is_comment": True}
        return {
            "merged": is_merged,
            "mergeable": None if is_merged else is_possible,
            "mergeable_state": "unknown" if is_merged else "clean" if is_possible else "dirty",
            "rebaseable": None if is_merged else is_possible,
            "merged_by": views.user(call, by) if by else None,
            "review_comments": self._desk.store.count("reviews", reviews),
            "commits": len(self._own_commits(repo, pull)),
            "additions": sum(one["additions"] for one in files),
            "deletions": sum(one["deletions"] for one in files),
            "changed_files": len(files),
            "maintainer_can_modify": False,
        }

    # Both ends. A pull that is closed keeps those that it had.

    def _head(self, repo: Record, pull: Record) -> str | None:
        branch = self._desk.git.ref(repo["id"], f"refs/heads/{pull['head']}")
        return pull["head_sha"] if pull["merged_at"] is not None else branch or pull["head_sha"]

    def _base(self, repo: Record, pull: Record) -> str | None:
        branch = self._desk.git.ref(repo["id"], f"refs/heads/{pull['base']}")
        return pull["base_sha"] if pull["merged_at"] is not None else branch or pull["base_sha"]

    def _sides(self, repo: Record, pull: Record) -> tuple[Files, Files, Files]:
        """The files where the two went apart, those of the base, those of the head."""
        git, id = self._desk.git, repo["id"]
        base, head = self._base(repo, pull) or "", self._head(repo, pull) or ""
        root = git.merge_base(id, base, head)
        return git.files(id, root) if root else {}, git.files(id, base), git.files(id, head)

    def _merged(self, repo: Record, pull: Record) -> Files | None:
        return merge(*self._sides(repo, pull))

    def _changes(self, call: Call, repo: Record, pull: Record) -> list[Record]:
        root, _, head = self._sides(repo, pull)
        sha = self._head(repo, pull) or ""
        return file_changes(call, repo, self._desk.git, root, head, sha)

    def _own_commits(self, repo: Record, pull: Record) -> list[Record]:
        base, head = self._base(repo, pull) or "", self._head(repo, pull) or ""
        return self._desk.git.between(repo["id"], base, head)

    def listed(self, call: Call) -> Reply:
        repo, query = self._desk.repo(call), call.query
        state = query.get("state", "open")
        if state not in ("open", "closed", "all"):
            raise invalid("PullRequest", "state")
        head = query.get("head", "").rpartition(":")[2]
        found = [
            one
            for one in self._desk.store.find("pulls", {"repo": repo["id"]})
            if state in ("all", self._desk.issue(repo, one["number"])["state"])
            and query.get("base", one["base"]) == one["base"]
            and (not head or head == one["head"])
        ]
        is_down = query.get("direction", "desc") != "asc"
        found.sort(key=lambda one: int(one["number"]), reverse=is_down)
        return paged(call, found, lambda one: self.show(call, repo, one, is_full=False))

    def create(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        pull = self.make(repo, call.login, body)
        return Reply(self.show(call, repo, pull), 201)

    def make(self, repo: Record, login: str, body: Mapping[str, Any]) -> Record:
        """A new pull request. Raises Failed."""
        head = (text(body, "head", "PullRequest", required=True) or "").rpartition(":")[2]
        base = text(body, "base", "PullRequest", required=True) or ""
        git, id = self._desk.git, repo["id"]
        ends = [git.ref(id, f"refs/heads/{name}") for name in (head, base)]
        for sha, field in zip(ends, ("head", "base"), strict=True):
            if sha is None:
                raise invalid("PullRequest", field)
        head_sha, base_sha = str(ends[0]), str(ends[1])
        if not git.between(id, base_sha, head_sha):
            message = f"No commits between {base} and {head}"
            raise invalid("PullRequest", "head", "custom", message)
        self._check_new(repo, head, base)
        issue = self._issues.make(repo, login, body, "PullRequest", is_pull=True)
        pull = {
            "repo": id,
            "number": issue["number"],
            "head": head,
            "base": base,
            "head_sha": head_sha,
            "base_sha": base_sha,
            "draft": body.get("draft") is True,
            "reviewers": [],
            "merged_at": None,
        }
        self._desk.put_pull(repo, pull)
        return pull

    def _check_new(self, repo: Record, head: str, base: str) -> None:
        same = self._desk.store.find("pulls", {"repo": repo["id"], "head": head, "base": base})
        if any(self._desk.issue(repo, one["number"])["state"] == "open" for one in same):
            message = f"A pull request already exists for {head}."
            raise invalid("PullRequest", "head", "custom", message)

    def get(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        return Reply(self.show(call, repo, self._desk.pull(repo, call.names["number"])))

    def edit(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        pull = self._desk.pull(repo, call.names["number"])
        base = text(body, "base", "PullRequest")
        if base is not None:
            if self._desk.git.ref(repo["id"], f"refs/heads/{base}") is None:
                raise invalid("PullRequest", "base")
            pull["base"] = base
        issue = self._desk.issue(repo, pull["number"])
        known: dict[str, Any] = {
            name: body[name] for name in ("title", "body", "state") if name in body
        }
        self._issues.change(repo, issue, known, call.login, "PullRequest")
        self._desk.put_pull(repo, pull)
        return Reply(self.show(call, repo, pull))

    def files(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        pull = self._desk.pull(repo, call.names["number"])
        return paged(call, self._changes(call, repo, pull), lambda one: one)

    def commits(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._own_commits(repo, self._desk.pull(repo, call.names["number"]))
        return paged(call, found, lambda one: views.commit(call, repo, one))

    def is_merged(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        if self._desk.pull(repo, call.names["number"])["merged_at"] is None:
            raise not_found()
        return Reply(None, 204)

    def merge(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        pull = self._desk.pull(repo, call.names["number"])
        issue = self._desk.issue(repo, pull["number"])
        head, base = self._head(repo, pull) or "", self._base(repo, pull) or ""
        method = body.get("merge_method", "merge")
        if method not in _METHODS:
            raise invalid("PullRequest", "merge_method")
        if body.get("sha") not in (None, head):
            raise Failed(409, "Head branch was modified. Review and try the merge again.")
        files = self._merged(repo, pull)
        if issue["state"] != "open" or pull["draft"] or files is None:
            raise Failed(405, "Pull Request is not mergeable")
        moment = self._desk.tick()
        message = _message(body, method, repo, pull, issue)
        parents = (base, head) if method == "merge" else (base,)
        new = NewCommit(files, message, parents, self._desk.person(call.login), moment)
        sha = self._desk.git.commit(repo["id"], new)
        self._desk.git.set_ref(repo["id"], f"refs/heads/{pull['base']}", sha)
        pull |= {"merged_at": moment, "merged_by": call.login, "merge_sha": sha,
                 "head_sha": head, "base_sha": base}  # fmt: skip
        self._desk.put_pull(repo, pull)
        self._issues.close(issue, call.login, moment, None)
        self._desk.put_issue(repo, issue)
        if pull["base"] == repo["default_branch"]:
            self._close_mentioned(repo, issue, call.login, moment)
        return Reply({"sha": sha, "merged": True, "message": "Pull Request successfully merged"})

    def _close_mentioned(self, repo: Record, pull: Record, login: str, moment: float) -> None:
        """`Fixes #3` in a pull that is merged closes 3."""
        for number in _CLOSES.findall(f"{pull['title']}\n{pull['body'] or ''}"[:100_000]):
            found = self._desk.store.get("issues", f"{repo['id']}#{int(number)}")
            if found is not None and found["state"] == "open" and not found["is_pull"]:
                self._issues.close(found, login, moment, "completed")
                self._desk.put_issue(repo, found)

    def reviewers(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        pull = self._desk.pull(repo, call.names["number"])
        return Reply({"users": [views.user(call, one) for one in pull["reviewers"]], "teams": []})

    def request(self, call: Call) -> Reply:
        return self._set_reviewers(call, is_wanted=True)

    def unrequest(self, call: Call) -> Reply:
        return self._set_reviewers(call, is_wanted=False)

    def _set_reviewers(self, call: Call, *, is_wanted: bool) -> Reply:
        repo, logins = self._desk.writable(call), names_of(call.body(), "reviewers", "PullRequest")
        pull = self._desk.pull(repo, call.names["number"])
        self._desk.check_people(logins, "PullRequest", "reviewers")
        left = [one for one in pull["reviewers"] if one not in logins]
        pull["reviewers"] = [*left, *dict.fromkeys(logins)] if is_wanted else left
        self._desk.tick()
        self._desk.put_pull(repo, pull)
        return Reply(self.show(call, repo, pull), 201 if is_wanted else 200)


def _message(
    body: Mapping[str, Any], method: str, repo: Record, pull: Record, issue: Record
) -> str:
    owner = repo["full_name"].partition("/")[0]
    title = text(body, "commit_title", "PullRequest")
    if title is None and method == "merge":
        title = f"Merge pull request #{pull['number']} from {owner}/{pull['head']}"
    rest = text(body, "commit_message", "PullRequest")
    rest = issue["title"] if rest is None and method == "merge" else rest
    first = title or f"{issue['title']} (#{pull['number']})"
    return f"{first}\n\n{rest}" if rest else first
