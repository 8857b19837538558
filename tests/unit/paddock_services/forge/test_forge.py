"""What the forge answers, refuses and remembers, in process."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from unit.paddock_services.forge.asking import SEED, Asking

SITE = "/repos/acme/site"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def branch(hub: Asking, name: str) -> None:
    head = hub.ask("GET", f"{SITE}/git/ref/heads/main").json["object"]["sha"]
    made = hub.ask("POST", f"{SITE}/git/refs", {"ref": f"refs/heads/{name}", "sha": head})
    assert made.status == 201, made.raw


def write(hub: Asking, path: str, text: str, name: str = "main") -> Any:
    old = hub.ask("GET", f"{SITE}/contents/{path}?ref={name}")
    body = {"message": f"write {path}", "content": encoded(text), "branch": name}
    if old.status == 200:
        body["sha"] = old.json["sha"]
    done = hub.ask("PUT", f"{SITE}/contents/{path}", body)
    assert done.status in (200, 201), done.raw
    return done.json


def pull(hub: Asking, head: str, **more: Any) -> Any:
    body = {"title": "Change", "head": head, "base": "main", **more}
    made = hub.ask("POST", f"{SITE}/pulls", body)
    assert made.status == 201, made.raw
    return made.json


def test_missing_things_are_not_found_in_the_forges_words(hub: Asking) -> None:
    for path in (
        f"{SITE}/issues/99",
        "/repos/acme/none",
        "/nothing",
        f"{SITE}/pulls/1",
        "/users/x",
    ):
        got = hub.ask("GET", path)
        assert (
            got.status == 404 and got.json["message"] == "Not Found" and got.json["status"] == "404"
        )


def test_validation_says_which_field(hub: Asking) -> None:
    got = hub.ask("POST", f"{SITE}/issues", {"body": "no title"})
    assert got.status == 422 and got.json["message"] == "Validation Failed"
    assert got.json["errors"] == [{"resource": "Issue", "field": "title", "code": "missing_field"}]


@pytest.mark.parametrize(
    "body",
    [
        {"title": ["x"]},
        {"title": "x", "labels": "bug" * 100},
        {"title": "x", "labels": [1]},
        {"title": "x", "assignees": {"a": 1}},
        {"title": "x", "body": {"a": 1}},
    ],
)
def test_odd_fields_are_refused_and_no_number_is_spent(hub: Asking, body: dict[str, Any]) -> None:
    assert hub.ask("POST", f"{SITE}/issues", body).status == 422
    assert hub.ask("POST", f"{SITE}/issues", {"title": "next"}).json["number"] == 3


@for_each(
    "body",
    [
        b"{",
        b"[]",
        b'"x"',
        b"\xff",
        b'{"title": "\\ud800"}',
        b'{"title": NaN}',
        b"[" * 99_999,
        b'{"title": ' + b"[" * 500 + b"]" * 500 + b"}",
    ],
)
def test_body_that_is_no_json_object_is_refused(hub: Asking, body: bytes) -> None:
    assert hub.ask("POST", f"{SITE}/issues", body).status == 400
    assert hub.store.changes() == []


def test_reading_needs_no_token_but_writing_does(hub: Asking) -> None:
    assert hub.ask("GET", SITE, auth=None).status == 200
    got = hub.ask("POST", f"{SITE}/issues", {"title": "x"}, auth=None)
    assert got.status == 401 and got.json["message"] == "Requires authentication"
    assert hub.ask("GET", "/user", auth=None).status == 401


def test_private_repository_is_not_found_without_a_token(hub: Asking) -> None:
    for path in ("", "/contents/key.txt", "/issues", "/branches"):
        assert hub.ask("GET", f"/repos/acme/secret{path}", auth=None).status == 404
    assert hub.ask("GET", "/search/issues?q=repo:acme/secret", auth=None).json["total_count"] == 0
    assert "acme/secret" not in str(hub.ask("GET", "/users/acme/repos", auth=None).json)
    assert hub.ask("GET", "/repos/acme/secret").status == 200


def test_only_the_token_of_the_file_is_accepted(tmp_path: Path) -> None:
    hub = Asking(tmp_path, token="right", user="robot")
    assert hub.ask("GET", "/user", auth="token wrong").status == 401
    assert hub.ask("GET", SITE, auth="Bearer wrong").json["message"] == "Bad credentials"
    for auth in ("token right", "Bearer right", "Basic " + encoded("any:right")):
        assert hub.ask("GET", "/user", auth=auth).json["login"] == "robot"
    assert hub.ask("GET", "/user", auth="Basic !!").status == 401
    hub.store.close()


def test_rate_limit_ends_it(tmp_path: Path) -> None:
    hub = Asking(tmp_path, rate_limit=2)
    assert hub.ask("GET", SITE).headers["x-ratelimit-remaining"] == "1"
    assert hub.ask("GET", SITE).headers["x-ratelimit-remaining"] == "0"
    over = hub.ask("POST", f"{SITE}/issues", {"title": "x"})
    assert over.status == 403 and "rate limit" in over.json["message"]
    assert hub.store.changes() == []
    hub.store.close()


@pytest.mark.parametrize(
    "options", [{"user": "a b"}, {"rate_limit": 0}, {"rate_limit": "1"}, {"token": 1}]
)
def test_options_without_sense_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Asking(tmp_path, **options)


def test_links_lead_through_all_pages(hub: Asking) -> None:
    for number in range(5):
        hub.ask("POST", f"{SITE}/issues", {"title": str(number)})
    got = hub.ask("GET", f"{SITE}/issues?per_page=2&page=2&state=all")
    links = dict(reversed(part.strip().split("; ")) for part in got.headers["link"].split(","))
    assert links['rel="next"'] == (
        "<https://api.github.com/repos/acme/site/issues?per_page=2&page=3&state=all>"
    )
    assert set(links) == {'rel="prev"', 'rel="next"', 'rel="last"', 'rel="first"'}
    assert "link" not in hub.ask("GET", f"{SITE}/issues?per_page=100").headers
    assert hub.ask("GET", f"{SITE}/issues?page=99").json == []
    assert hub.ask("GET", f"{SITE}/issues?page=-1&per_page=x").status == 200


def test_names_of_objects_are_those_that_git_gives(hub: Asking, tmp_path: Path) -> None:
    sha = hub.ask("GET", f"{SITE}/git/ref/heads/main").json["object"]["sha"]
    commit = hub.ask("GET", f"{SITE}/commits/{sha}").json["commit"]
    work = tmp_path / "work"
    (work / "src/lib").mkdir(parents=True)
    for path, text in SEED["repos"][0]["files"].items():
        (work / path).write_text(text)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-C", str(work)]
    subprocess.run([*git, "init", "-q"], check=True, env=env)
    subprocess.run([*git, "add", "."], check=True, env=env)
    tree = subprocess.run([*git, "write-tree"], check=True, env=env, capture_output=True, text=True)
    assert tree.stdout.strip() == commit["tree"]["sha"]


def test_file_that_is_there_needs_its_sha(hub: Asking) -> None:
    body = {"message": "m", "content": encoded("x")}
    assert hub.ask("PUT", f"{SITE}/contents/README.md", body).status == 422
    assert hub.ask("PUT", f"{SITE}/contents/README.md", {**body, "sha": "0" * 40}).status == 409
    assert hub.ask("DELETE", f"{SITE}/contents/README.md", {"message": "m"}).status == 422
    assert hub.ask("GET", f"{SITE}/contents/README.md").json["size"] == 7


@for_each(
    "path",
    [
        "../etc/passwd",
        "%2e%2e/x",
        "a//b",
        ".git/config",
        "a/.GIT/b",
        "README.md/x",
        "src",
        "a%00b",
    ],
)
def test_path_that_no_file_can_have_is_refused(hub: Asking, path: str) -> None:
    body = {"message": "m", "content": encoded("x")}
    assert hub.ask("PUT", f"{SITE}/contents/{path}", body).status == 422
    assert hub.store.changes() == []


def test_content_must_be_base64_and_message_must_be_there(hub: Asking) -> None:
    assert hub.ask("PUT", f"{SITE}/contents/x", {"message": "m", "content": "!!"}).status == 422
    assert hub.ask("PUT", f"{SITE}/contents/x", {"message": "m"}).status == 422
    assert hub.ask("PUT", f"{SITE}/contents/x", {"content": encoded("x")}).status == 422
    assert hub.store.changes() == []


def test_raw_content_is_the_file_itself(hub: Asking) -> None:
    headers = {"accept": "application/vnd.github.raw+json"}
    assert hub.ask("GET", f"{SITE}/contents/src/app.py", headers=headers).raw == b"print(1)\n"
    assert hub.ask("GET", f"{SITE}/readme", headers=headers).raw == b"# Site\n"


def test_first_file_of_an_empty_repository_makes_its_branch(hub: Asking) -> None:
    hub.ask("POST", "/user/repos", {"name": "new"})
    assert hub.ask("GET", "/repos/agent/new/contents/").status == 404
    assert hub.ask("GET", "/repos/agent/new/commits").status == 409
    body = {"message": "m", "content": encoded("x")}
    assert hub.ask("PUT", "/repos/agent/new/contents/a/b.txt", body).status == 201
    assert [one["name"] for one in hub.ask("GET", "/repos/agent/new/branches").json] == ["main"]


def test_conflicting_pull_is_not_mergeable_and_nothing_moves(hub: Asking) -> None:
    branch(hub, "one")
    write(hub, "README.md", "one\n", "one")
    made = pull(hub, "one")
    write(hub, "README.md", "two\n")
    got = hub.ask("GET", f"{SITE}/pulls/{made['number']}").json
    assert got["mergeable"] is False and got["mergeable_state"] == "dirty"
    head = hub.ask("GET", f"{SITE}/git/ref/heads/main").json
    refused = hub.ask("PUT", f"{SITE}/pulls/{made['number']}/merge")
    assert refused.status == 405 and hub.ask("GET", f"{SITE}/git/ref/heads/main").json == head
    assert hub.ask("GET", f"{SITE}/pulls/{made['number']}").json["state"] == "open"


def test_merge_keeps_what_both_sides_did(hub: Asking) -> None:
    branch(hub, "one")
    write(hub, "new.txt", "new\n", "one")
    made = pull(hub, "one")
    write(hub, "README.md", "main went on\n")
    merged = hub.ask("PUT", f"{SITE}/pulls/{made['number']}/merge").json
    assert merged["merged"] is True
    commit = hub.ask("GET", f"{SITE}/commits/{merged['sha']}").json
    assert len(commit["parents"]) == 2 and commit["commit"]["message"].startswith(
        "Merge pull request #3"
    )
    names = [one["name"] for one in hub.ask("GET", f"{SITE}/contents/").json]
    assert names == ["README.md", "new.txt", "src"]
    readme = hub.ask("GET", f"{SITE}/contents/README.md").json["content"]
    assert base64.b64decode(readme) == b"main went on\n"


def test_pull_is_merged_once_and_stays_closed(hub: Asking) -> None:
    branch(hub, "one")
    write(hub, "new.txt", "new\n", "one")
    number = pull(hub, "one")["number"]
    assert hub.ask("PUT", f"{SITE}/pulls/{number}/merge").status == 200
    assert hub.ask("PUT", f"{SITE}/pulls/{number}/merge").status == 405
    for what in ("pulls", "issues"):
        assert hub.ask("PATCH", f"{SITE}/{what}/{number}", {"state": "open"}).status == 422
    assert hub.ask("GET", f"{SITE}/pulls/{number}").json["state"] == "closed"


def test_merge_of_another_head_than_was_seen_is_refused(hub: Asking) -> None:
    branch(hub, "one")
    write(hub, "new.txt", "new\n", "one")
    made = pull(hub, "one")
    write(hub, "new.txt", "newer\n", "one")
    seen = {"sha": made["head"]["sha"]}
    assert hub.ask("PUT", f"{SITE}/pulls/{made['number']}/merge", seen).status == 409


def test_pull_needs_branches_with_a_difference(hub: Asking) -> None:
    branch(hub, "same")
    for head, base in (("same", "main"), ("none", "main"), ("same", "none")):
        body = {"title": "x", "head": head, "base": base}
        assert hub.ask("POST", f"{SITE}/pulls", body).status == 422
    write(hub, "x", "x", "same")
    pull(hub, "same")
    again = hub.ask("POST", f"{SITE}/pulls", {"title": "x", "head": "acme:same", "base": "main"})
    assert again.status == 422 and "already exists" in again.json["errors"][0]["message"]


def test_issues_and_pulls_share_their_numbers(hub: Asking) -> None:
    branch(hub, "one")
    write(hub, "x", "x", "one")
    assert pull(hub, "one")["number"] == 3
    assert hub.ask("POST", f"{SITE}/issues", {"title": "x"}).json["number"] == 4
    listed = hub.ask("GET", f"{SITE}/issues").json
    assert [("pull_request" in one, one["number"]) for one in listed] == [
        (False, 4), (True, 3), (False, 1),
    ]  # fmt: skip


def test_own_pull_cannot_be_approved(hub: Asking) -> None:
    branch(hub, "one")
    write(hub, "x", "x", "one")
    number = pull(hub, "one")["number"]
    got = hub.ask("POST", f"{SITE}/pulls/{number}/reviews", {"event": "APPROVE"})
    assert got.status == 422
    sent = hub.ask("POST", f"{SITE}/pulls/{number}/reviews", {"event": "COMMENT", "body": "x"})
    assert sent.json["state"] == "COMMENTED"


def long_pull(hub: Asking) -> str:
    """The path of a pull that changes the second of twenty lines and removes the fourth."""
    lines = [f"line {number}" for number in range(1, 21)]
    write(hub, "long.txt", "\n".join(lines))
    branch(hub, "one")
    lines[1] = "changed"
    del lines[3]
    write(hub, "long.txt", "\n".join(lines), "one")
    return f"{SITE}/pulls/{pull(hub, 'one')['number']}"


def test_review_comment_is_kept_with_the_hunk_that_it_is_on(hub: Asking) -> None:
    path = long_pull(hub)
    head = hub.ask("GET", path).json["head"]["sha"]
    comment = {"body": "why?", "path": "long.txt", "line": 2, "commit_id": head}
    made = hub.ask("POST", f"{path}/comments", comment)
    assert made.status == 201, made.raw
    assert (made.json["side"], made.json["line"]) == ("RIGHT", 2)
    assert made.json["diff_hunk"].splitlines()[-1] == "+changed"
    removed = {**comment, "line": 4, "side": "LEFT"}
    assert hub.ask("POST", f"{path}/comments", removed).json["diff_hunk"].endswith("-line 4")
    by_position = {**comment, "line": None, "position": 2}
    assert hub.ask("POST", f"{path}/comments", by_position).json["line"] == 2
    several = {**comment, "start_line": 1, "line": 2}
    assert hub.ask("POST", f"{path}/comments", several).json["start_line"] == 1
    assert hub.ask("GET", path).json["review_comments"] == 4


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"line": 15}, "pull_request_review_thread.line"),
        ({"line": 99}, "pull_request_review_thread.line"),
        ({"line": 2, "side": "LEFT", "path": "README.md"}, "pull_request_review_thread.path"),
        ({"path": "none.txt"}, "pull_request_review_thread.path"),
        ({"line": None, "position": 50}, "pull_request_review_thread.position"),
        ({"start_line": 15}, "pull_request_review_thread.start_line"),
        ({"start_line": 3}, "pull_request_review_thread.start_line"),
        ({"side": "MIDDLE"}, "side"),
        ({"commit_id": None}, "commit_id"),
    ],
)
def test_review_comment_outside_the_diff_is_refused(
    hub: Asking, change: dict[str, Any], field: str
) -> None:
    path = long_pull(hub)
    head = hub.ask("GET", path).json["head"]["sha"]
    comment = {"body": "why?", "path": "long.txt", "line": 2, "commit_id": head, **change}
    refused = hub.ask("POST", f"{path}/comments", comment)
    assert (refused.status, refused.json["errors"][0]["field"]) == (422, field)
    assert hub.ask("GET", f"{path}/comments").json == []


def test_review_with_one_comment_outside_the_diff_is_refused_whole(hub: Asking) -> None:
    path = long_pull(hub)
    inside = {"body": "a", "path": "long.txt", "line": 2}
    outside = {**inside, "line": 15}
    review = {"event": "COMMENT", "body": "x", "comments": [inside, outside]}
    assert hub.ask("POST", f"{path}/reviews", review).status == 422
    assert hub.ask("GET", f"{path}/reviews").json == []
    assert hub.ask("GET", f"{path}/comments").json == []
    assert hub.ask("POST", f"{path}/reviews", {**review, "comments": [inside]}).status == 200
    assert len(hub.ask("GET", f"{path}/comments").json) == 1


def test_default_branch_is_not_deleted(hub: Asking) -> None:
    assert hub.ask("DELETE", f"{SITE}/git/refs/heads/main").status == 422
    assert hub.ask("DELETE", f"{SITE}/git/refs/heads/none").status == 422


@pytest.mark.parametrize(
    "ref",
    ["main", "refs/heads/", "refs/heads/a b", "refs/heads/a..b", "refs/x/a", "refs/heads/a.lock"],
)
def test_odd_reference_is_refused(hub: Asking, ref: str) -> None:
    sha = hub.ask("GET", f"{SITE}/git/ref/heads/main").json["object"]["sha"]
    assert hub.ask("POST", f"{SITE}/git/refs", {"ref": ref, "sha": sha}).status == 422


def test_label_needs_a_colour_that_is_one(hub: Asking) -> None:
    assert hub.ask("POST", f"{SITE}/labels", {"name": "x", "color": "red"}).status == 422
    assert hub.ask("POST", f"{SITE}/labels", {"name": "bug"}).status == 422


def test_labels_may_come_as_a_bare_list(hub: Asking) -> None:
    got = hub.ask("POST", f"{SITE}/issues/1/labels", ["wontfix"])
    assert [one["name"] for one in got.json] == ["bug", "wontfix"]
    assert hub.ask("PUT", f"{SITE}/issues/1/labels", []).json == []
    assert hub.ask("DELETE", f"{SITE}/issues/1/labels/none").status == 404


def test_locked_issue_takes_no_comment(hub: Asking) -> None:
    hub.ask("PUT", f"{SITE}/issues/1/lock")
    assert hub.ask("POST", f"{SITE}/issues/1/comments", {"body": "x"}).status == 403


def test_issue_is_locked_for_one_of_githubs_reasons(hub: Asking) -> None:
    path = f"{SITE}/issues/1"
    assert hub.ask("PUT", f"{path}/lock", {"lock_reason": "boring"}).status == 422
    assert hub.ask("GET", path).json["locked"] is False
    assert hub.ask("PUT", f"{path}/lock", {"lock_reason": "too heated"}).status == 204
    assert hub.ask("GET", path).json["active_lock_reason"] == "too heated"
    assert hub.ask("DELETE", f"{path}/lock").status == 204
    assert hub.ask("GET", path).json["active_lock_reason"] is None


def test_archived_repository_takes_no_write(hub: Asking) -> None:
    hub.ask("PATCH", SITE, {"archived": True})
    assert hub.ask("POST", f"{SITE}/issues", {"title": "x"}).status == 403
    assert hub.ask("GET", f"{SITE}/issues").status == 200


def test_where_people_are_known_others_cannot_be_assigned(tmp_path: Path) -> None:
    hub = Asking(tmp_path, {"users": [{"login": "Ada"}], "repos": [{"full_name": "acme/site"}]})
    assert hub.ask("POST", f"{SITE}/issues", {"title": "x", "assignees": ["bob"]}).status == 422
    assert hub.ask("POST", f"{SITE}/issues", {"title": "x", "assignees": ["ada"]}).status == 201
    hub.store.close()


def test_name_of_a_repository_may_be_in_any_case(hub: Asking) -> None:
    assert hub.ask("GET", "/repos/ACME/Site").json["full_name"] == "acme/site"
    assert hub.ask("POST", "/orgs/acme/repos", {"name": "SITE"}).status == 422


def test_self_hosted_path_is_understood(hub: Asking) -> None:
    got = hub.ask("GET", f"/api/v3{SITE}").json
    assert got["url"] == "https://api.github.com/api/v3/repos/acme/site"


@pytest.mark.parametrize("query", ["", "q=", "q=" + "a" * 300])
def test_search_without_words_is_refused(hub: Asking, query: str) -> None:
    assert hub.ask("GET", f"/search/issues?{query}").status == 422


def test_seed_of_pulls_and_branches(tmp_path: Path) -> None:
    seed = {
        "repos": [
            {
                "full_name": "acme/site",
                "files": {"a": "1\n", "b": {"base64": "AAE="}},
                "branches": {"old": {"a": None}},
                "pulls": [{"title": "Change a", "head": "change", "files": {"a": "2\n"}}],
            }
        ]
    }
    hub = Asking(tmp_path, seed)
    got = hub.ask("GET", f"{SITE}/pulls/1").json
    assert got["mergeable"] is True and got["changed_files"] == 1
    assert [one["name"] for one in hub.ask("GET", f"{SITE}/contents/?ref=old").json] == ["b"]
    hub.store.close()


@pytest.mark.parametrize(
    "seed",
    [
        {"issues": []},
        {"repos": [{"full_name": "nonsense"}]},
        {"repos": [{"full_name": "a/b", "stars": 1}]},
        {"repos": [{"full_name": "a/b"}, {"full_name": "A/B"}]},
        {"repos": [{"full_name": "a/b", "files": {"../x": "y"}}]},
        {"repos": [{"full_name": "a/b", "issues": [{"body": "no title"}]}]},
        {"repos": [{"full_name": "a/b", "pulls": [{"title": "x", "head": "none"}]}]},
        {"users": [{"name": "nobody"}]},
    ],
)
def test_seed_without_sense_is_refused(tmp_path: Path, seed: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Asking(tmp_path, seed)


def test_the_same_requests_leave_the_same_state(tmp_path: Path) -> None:
    digests = set()
    for turn in ("one", "two"):
        (tmp_path / turn).mkdir()
        hub = Asking(tmp_path / turn)
        branch(hub, "one")
        write(hub, "x", "x", "one")
        hub.ask("PUT", f"{SITE}/pulls/{pull(hub, 'one')['number']}/merge")
        hub.ask("POST", f"{SITE}/issues/1/comments", {"body": "x"})
        digests.add((hub.store.digest(), hub.ask("GET", f"{SITE}/commits").raw))
        hub.store.reset()
        assert hub.ask("GET", f"{SITE}/pulls?state=all").json == []
        hub.store.close()
    assert len(digests) == 1


def test_broken_promise_is_reported(tmp_path: Path) -> None:
    hub = Asking(tmp_path)
    branch(hub, "one")
    write(hub, "x", "x", "one")
    number = pull(hub, "one")["number"]
    hub.ask("PUT", f"{SITE}/pulls/{number}/merge")
    repo = hub.store.find("repos")[0]
    issue = hub.store.get("issues", f"{repo['id']}#{number}")
    assert issue is not None
    hub.store.put("issues", f"{repo['id']}#{number}", {**issue, "state": "open"})
    assert hub.forge.invariants() == [f"acme/site#{number} is merged, but not closed"]
    hub.store.close()
