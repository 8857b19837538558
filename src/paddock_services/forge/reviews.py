"""Reviews of pull requests, and comments on their lines."""

from __future__ import annotations

from typing import Any

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

_STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_PENDING = "PENDING"


class Reviews:
    """What reviewers say. A comment on a line is kept beside them, marked as one."""

    def __init__(self, desk: Desk, router: Router) -> None:
        self._desk = desk
        base = "/repos/{owner}/{repo}/pulls/{number}"
        router.add("GET", f"{base}/reviews", self.listed)
        router.add("POST", f"{base}/reviews", self.create)
        router.add("GET", f"{base}/reviews/{{id}}", self.get)
        router.add("POST", f"{base}/reviews/{{id}}/events", self.submit)
        router.add("PUT", f"{base}/reviews/{{id}}/dismissals", self.dismiss)
        router.add("GET", f"{base}/comments", self.comments)
        router.add("POST", f"{base}/comments", self.comment)

    def _show(self, call: Call, repo: Record, one: Record) -> Record:
        url = f"{views.repo_url(call, repo)}/pulls/{one['number']}"
        html = f"{call.html}/{repo['full_name']}/pull/{one['number']}"
        shown = {
            "id": one["id"],
            "node_id": views.node_id("PullRequestReview", one["id"]),
            "user": views.user(call, one["user"]),
            "body": one["body"],
            "commit_id": one["commit"],
            "pull_request_url": url,
            "author_association": "MEMBER",
        }
        if not one["is_comment"]:
            html = f"{html}#pullrequestreview-{one['id']}"
            return {**shown, "state": one["state"], "html_url": html,
                    "submitted_at": views.stamp(one["at"])}  # fmt: skip
        return {
            **shown,
            "url": f"{views.repo_url(call, repo)}/pulls/comments/{one['id']}",
            "html_url": f"{html}#discussion_r{one['id']}",
            "path": one["path"],
            "line": one["line"],
            "original_line": one["line"],
            "position": one["line"],
            "original_position": one["line"],
            "original_commit_id": one["commit"],
            "diff_hunk": "",
            "side": "RIGHT",
            "created_at": views.stamp(one["at"]),
            "updated_at": views.stamp(one["at"]),
        }

    def _find(self, call: Call, *, is_comment: bool) -> list[Record]:
        repo = self._desk.repo(call)
        pull = self._desk.pull(repo, call.names["number"])
        where = {"repo": repo["id"], "number": pull["number"], "is_comment": is_comment}
        return self._desk.store.find("reviews", where)

    def _one(self, call: Call) -> Record:
        found = self._find(call, is_comment=False)
        for one in found:
            if str(one["id"]) == call.names["id"]:
                return one
        raise not_found()

    def listed(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._find(call, is_comment=False)
        return paged(call, found, lambda one: self._show(call, repo, one))

    def get(self, call: Call) -> Reply:
        return Reply(self._show(call, self._desk.repo(call), self._one(call)))

    def create(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        issue = self._desk.issue(repo, call.names["number"])
        state = self._state(body.get("event"), issue, call.login)
        said = text(body, "body", "PullRequestReview") or ""
        if state == "CHANGES_REQUESTED" and not said:
            raise invalid("PullRequestReview", "body", "missing_field")
        review = self._put(call, repo, {"body": said, "state": state, "is_comment": False})
        for one in body.get("comments") or ():
            if isinstance(one, dict):
                self._put_comment(call, repo, one)
        self._desk.put_issue(repo, {**issue, "updated_at": review["at"]})
        return Reply(self._show(call, repo, review))

    def _state(self, event: Any, issue: Record, login: str) -> str:
        if event in (None, ""):
            return _PENDING
        if event not in _STATES:
            raise invalid("PullRequestReview", "event")
        if issue["user"] == login and event == "APPROVE":
            raise Failed(422, "Review Can not approve your own pull request")
        if issue["user"] == login and event == "REQUEST_CHANGES":
            raise Failed(422, "Review Can not request changes on your own pull request")
        return _STATES[event]

    def _put(self, call: Call, repo: Record, fields: Record) -> Record:
        pull = self._desk.pull(repo, call.names["number"])
        branch = self._desk.git.ref(repo["id"], f"refs/heads/{pull['head']}")
        review = {
            "id": self._desk.new_id(),
            "repo": repo["id"],
            "number": pull["number"],
            "user": call.login,
            "commit": branch or pull["head_sha"],
            "at": self._desk.tick(),
            **fields,
        }
        self._desk.store.put("reviews", str(review["id"]), review)
        return review

    def submit(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        review = self._one(call)
        if review["state"] != _PENDING or body.get("event") not in _STATES:
            raise invalid("PullRequestReview", "event")
        issue = self._desk.issue(repo, review["number"])
        review["state"] = self._state(body["event"], issue, call.login)
        review["body"] = text(body, "body", "PullRequestReview") or review["body"]
        review["at"] = self._desk.tick()
        self._desk.store.put("reviews", str(review["id"]), review)
        return Reply(self._show(call, repo, review))

    def dismiss(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        review = self._one(call)
        text(call.body(), "message", "PullRequestReview", required=True)
        self._desk.tick()
        review["state"] = "DISMISSED"
        self._desk.store.put("reviews", str(review["id"]), review)
        return Reply(self._show(call, repo, review))

    def comments(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._find(call, is_comment=True)
        return paged(call, found, lambda one: self._show(call, repo, one))

    def comment(self, call: Call) -> Reply:
        repo = self._desk.writable(call)
        self._desk.pull(repo, call.names["number"])
        return Reply(self._show(call, repo, self._put_comment(call, repo, call.body())), 201)

    def _put_comment(self, call: Call, repo: Record, body: Record) -> Record:
        line = body.get("line", body.get("position"))
        if line is not None and (not isinstance(line, int) or isinstance(line, bool)):
            raise invalid("PullRequestReviewComment", "line")
        fields = {
            "body": text(body, "body", "PullRequestReviewComment", required=True),
            "path": text(body, "path", "PullRequestReviewComment", required=True),
            "line": line,
            "is_comment": True,
        }
        return self._put(call, repo, fields)
