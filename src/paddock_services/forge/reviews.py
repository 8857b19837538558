"""Reviews of pull requests, and comments on lines of their diff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.world.kit import Reply
from paddock_services.forge.call import GithubCall, Routes, required_text, text_field
from paddock_services.forge.diff import DiffLine, FileDiff, diff_lines
from paddock_services.forge.errors import GithubError, invalid
from paddock_services.forge.hub import Record, Repo
from paddock_services.forge.pulls import head_sha, pull_diffs
from paddock_services.forge.views import show_user, timestamp

_STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_MAX_COMMENTS = 100  # in one review
_REVIEW = "PullRequestReview"
_COMMENT = "PullRequestReviewComment"
_THREAD = "pull_request_review_thread"


def list_reviews(call: GithubCall) -> Reply:
    repo, pull = _pull(call)
    reviews = call.store.find("reviews", {"repo": repo.id, "number": pull["number"]})
    return call.page(reviews, lambda review: _show_review(call, repo, review))


def create_review(call: GithubCall) -> Reply:
    """Create a review with its comments, or nothing at all. It has no pending state."""
    repo, pull = _writable_pull(call)
    issue = repo.issue(pull["number"])
    body = text_field(call.body, "body", _REVIEW) or ""
    state = _review_state(call, issue)
    if state == "CHANGES_REQUESTED" and not body:
        raise invalid(_REVIEW, "body", "missing_field")
    comments = call.body.get("comments") or []
    if not isinstance(comments, list) or len(comments) > _MAX_COMMENTS:
        raise invalid(_REVIEW, "comments")
    review = _put(call, repo, pull, "reviews", {"body": body, "state": state})
    diffs = pull_diffs(repo, pull)
    for comment in comments:
        if not isinstance(comment, dict):
            raise invalid(_REVIEW, "comments")
        _put(call, repo, pull, "review_comments", _read_comment(comment, diffs))
    repo.put_issue({**issue, "updated_at": review["time"]})
    return Reply(_show_review(call, repo, review))


def list_review_comments(call: GithubCall) -> Reply:
    repo, pull = _pull(call)
    where = {"repo": repo.id, "number": pull["number"]}
    comments = call.store.find("review_comments", where)
    return call.page(comments, lambda comment: _show_comment(call, repo, comment))


def create_review_comment(call: GithubCall) -> Reply:
    repo, pull = _writable_pull(call)
    required_text(call.body, "commit_id", _COMMENT)
    fields = _read_comment(call.body, pull_diffs(repo, pull))
    comment = _put(call, repo, pull, "review_comments", fields)
    return Reply(_show_comment(call, repo, comment), 201)


def _pull(call: GithubCall) -> tuple[Repo, Record]:
    repo = call.repo()
    return repo, repo.pull(call.params["number"])


def _writable_pull(call: GithubCall) -> tuple[Repo, Record]:
    repo = call.writable_repo()
    return repo, repo.pull(call.params["number"])


def _review_state(call: GithubCall, issue: Record) -> str:
    event = call.body.get("event")
    if not isinstance(event, str) or event not in _STATES:
        raise invalid(_REVIEW, "event")
    if issue["user"] == call.login and event != "COMMENT":
        verb = "approve" if event == "APPROVE" else "request changes on"
        raise GithubError(422, f"Review Can not {verb} your own pull request")
    return _STATES[event]


def _put(call: GithubCall, repo: Repo, pull: Record, kind: str, fields: Record) -> Record:
    record = {
        "id": call.hub.new_id(),
        "repo": repo.id,
        "number": pull["number"],
        "user": call.login,
        "commit": head_sha(repo, pull),
        "time": call.hub.tick(),
        **fields,
    }
    call.store.put(kind, str(record["id"]), record)
    return record


def _read_comment(body: Mapping[str, Any], diffs: list[FileDiff]) -> Record:
    """Read a comment and check that it is on a line of the diff."""
    text = required_text(body, "body", _COMMENT)
    path = required_text(body, "path", _COMMENT)
    diff = next((diff for diff in diffs if diff.path == path), None)
    if diff is None:
        raise _outside("path")
    fields: Record = {"body": text, "path": path, "side": None, "line": None, "position": None,
                      "start_line": None, "diff_hunk": ""}  # fmt: skip
    if body.get("subject_type") == "file":
        return fields
    lines = diff_lines(diff.patch or "")
    if body.get("line") is None and body.get("position") is not None:
        line = next((line for line in lines if line.position == body["position"]), None)
        side = "LEFT" if line is not None and line.right is None else "RIGHT"
        if line is None:
            raise _outside("position")
    else:
        side = body.get("side") or "RIGHT"
        line = _find_line(lines, side, body.get("line"))
        if line is None:
            raise _outside("line")
    _check_start(body, lines, line, side)
    hunk = (diff.patch or "").split("\n")[line.hunk : line.position + 1]
    return fields | {
        "side": side,
        "line": line.left if side == "LEFT" else line.right,
        "position": line.position,
        "start_line": body.get("start_line"),
        "diff_hunk": "\n".join(hunk),
    }


def _find_line(lines: list[DiffLine], side: Any, number: Any) -> DiffLine | None:
    if side not in ("LEFT", "RIGHT"):
        raise invalid(_COMMENT, "side")
    if not isinstance(number, int) or isinstance(number, bool):
        raise invalid(_COMMENT, "line")
    for line in lines:
        if number == (line.left if side == "LEFT" else line.right):
            return line
    return None


def _check_start(body: Mapping[str, Any], lines: list[DiffLine], end: DiffLine, side: str) -> None:
    """Check the first line of a comment on several lines."""
    if body.get("start_line") is None:
        return
    start = _find_line(lines, body.get("start_side") or side, body["start_line"])
    if start is None or start.hunk != end.hunk:
        raise _outside("start_line", "must be part of the same hunk as the line.")
    if start.position >= end.position:
        raise _outside("start_line", "must precede the end line.")


def _outside(field: str, problem: str = "must be part of the diff") -> GithubError:
    name = f"{_THREAD}.{field}"
    return invalid(_COMMENT, name, "custom", f"{name} {problem}")


def _show_review(call: GithubCall, repo: Repo, review: Record) -> Record:
    page = f"{repo.page}/pull/{review['number']}"
    return {
        "id": review["id"],
        "user": show_user(repo.hub, review["user"]),
        "body": review["body"],
        "state": review["state"],
        "commit_id": review["commit"],
        "html_url": f"{page}#pullrequestreview-{review['id']}",
        "pull_request_url": f"{repo.url}/pulls/{review['number']}",
        "author_association": "MEMBER",
        "submitted_at": timestamp(review["time"]),
    }


def _show_comment(call: GithubCall, repo: Repo, comment: Record) -> Record:
    pulls = f"{repo.url}/pulls"
    page = f"{repo.page}/pull/{comment['number']}"
    position = ("path", "side", "line", "start_line", "position", "diff_hunk")
    return {
        "id": comment["id"],
        "url": f"{pulls}/comments/{comment['id']}",
        "html_url": f"{page}#discussion_r{comment['id']}",
        "pull_request_url": f"{pulls}/{comment['number']}",
        "user": show_user(repo.hub, comment["user"]),
        "body": comment["body"],
        **{name: comment[name] for name in position},
        "original_line": comment["line"],
        "original_position": comment["position"],
        "commit_id": comment["commit"],
        "original_commit_id": comment["commit"],
        "author_association": "MEMBER",
        "created_at": timestamp(comment["time"]),
        "updated_at": timestamp(comment["time"]),
    }


ROUTES: Routes = {
    "GET /repos/{owner}/{repo}/pulls/{number}/reviews": list_reviews,
    "POST /repos/{owner}/{repo}/pulls/{number}/reviews": create_review,
    "GET /repos/{owner}/{repo}/pulls/{number}/comments": list_review_comments,
    "POST /repos/{owner}/{repo}/pulls/{number}/comments": create_review_comment,
}
