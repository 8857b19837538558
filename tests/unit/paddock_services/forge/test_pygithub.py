"""PyGithub, unchanged, against the stand-in on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from github import Auth, Github, GithubException, UnknownObjectException
from github.Repository import Repository

from unit.paddock_services.forge.asking import Asking, served


@pytest.fixture
def github(hub: Asking) -> Iterator[Github]:
    with served(hub.app) as url:
        client = Github(
            base_url=url,
            auth=Auth.Token("secret"),
            retry=None,
            seconds_between_requests=0,
            seconds_between_writes=0,
        )
        yield client
        client.close()


@pytest.fixture
def site(github: Github) -> Repository:
    return github.get_repo("acme/site")


def test_user_and_repositories(github: Github) -> None:
    assert github.get_user().login == "agent"
    assert [one.full_name for one in github.get_user().get_repos()] == ["acme/site", "acme/secret"]
    assert github.get_user("acme").login == "acme"
    made = github.get_user().create_repo("notes", auto_init=True, private=True)
    assert made.full_name == "agent/notes" and made.private
    assert made.get_contents("README.md").decoded_content == b"# notes\n"  # type: ignore[union-attr]
    made.edit(description="mine")
    assert github.get_repo("agent/notes").description == "mine"
    made.delete()
    with pytest.raises(UnknownObjectException):
        github.get_repo("agent/notes")


def test_issue_from_opened_to_closed(site: Repository) -> None:
    issue = site.create_issue("Crash", body="at night", labels=["bug", "night"], assignee="ada")
    assert issue.number == 3 and issue.user.login == "agent"
    assert {one.name for one in issue.labels} == {"bug", "night"}
    issue.add_to_labels("urgent")
    issue.remove_from_labels("night")
    issue.add_to_assignees("bob")
    issue.remove_from_assignees("ada")
    issue.edit(title="Crash at night", state="closed", state_reason="not_planned")
    again = site.get_issue(3)
    assert (again.title, again.state, again.state_reason) == (
        "Crash at night",
        "closed",
        "not_planned",
    )
    assert [one.name for one in again.get_labels()] == ["bug", "urgent"]
    assert [one.login for one in again.assignees] == ["bob"] and again.closed_at is not None


def test_issues_are_filtered_and_paged(site: Repository) -> None:
    for number in range(35):
        site.create_issue(f"issue {number}", labels=["many"] if number % 2 else [])
    assert site.get_issues(state="open").totalCount == 36
    assert len(list(site.get_issues(state="all"))) == 37
    assert [one.title for one in site.get_issues(state="closed")] == ["Old one"]
    assert len(list(site.get_issues(labels=["many"]))) == 17
    assert [one.title for one in site.get_issues(creator="ada")] == ["It is broken"]


def test_comments_are_made_changed_and_deleted(site: Repository) -> None:
    issue = site.get_issue(1)
    assert [one.body for one in issue.get_comments()] == ["really"]
    comment = issue.create_comment("yes")
    comment.edit("no")
    assert [one.body for one in issue.get_comments()] == ["really", "no"]
    assert site.get_issue(1).comments == 2
    comment.delete()
    assert [one.body for one in issue.get_comments()] == ["really"]


def test_labels_are_kept(site: Repository) -> None:
    site.create_label("area/ui", "ff0000", "the surface")
    assert site.get_label("area/ui").description == "the surface"
    with pytest.raises(UnknownObjectException):
        site.get_label("area/web")


def test_files_are_read_written_and_deleted(site: Repository) -> None:
    read = site.get_contents("src/app.py")
    assert not isinstance(read, list) and read.decoded_content == b"print(1)\n"
    folder = site.get_contents("src")
    assert isinstance(folder, list)
    assert [(one.type, one.path) for one in folder] == [("file", "src/app.py"), ("dir", "src/lib")]
    made = site.create_file("docs/a b.md", "docs: add", "hello ✓")
    site.update_file("docs/a b.md", "docs: change", "bye", made["content"].sha)
    again = site.get_contents("docs/a b.md")
    assert not isinstance(again, list) and again.decoded_content == b"bye"
    with pytest.raises(GithubException) as stale:
        site.update_file("docs/a b.md", "docs: too late", "x", made["content"].sha)
    assert stale.value.status == 409
    site.delete_file("docs/a b.md", "docs: remove", again.sha)
    with pytest.raises(UnknownObjectException):
        site.get_contents("docs/a b.md")
    messages = [one.commit.message for one in site.get_commits()]
    assert messages == ["docs: remove", "docs: change", "docs: add", "Initial commit"]
    assert [one.commit.message for one in site.get_commits(path="src/app.py")] == ["Initial commit"]


def test_pull_from_branch_to_merge(site: Repository) -> None:
    main = site.get_branch("main")
    site.create_git_ref("refs/heads/fix", main.commit.sha)
    app = site.get_contents("src/app.py", ref="fix")
    assert not isinstance(app, list)
    site.update_file("src/app.py", "Print two", "print(2)\n", app.sha, branch="fix")
    pull = site.create_pull(base="main", head="fix", title="Two", body="Fixes #1")
    assert pull.number == 3 and pull.mergeable and pull.commits == 1
    assert [(one.filename, one.status, one.additions) for one in pull.get_files()] == [
        ("src/app.py", "modified", 1)
    ]
    assert "+print(2)" in next(iter(pull.get_files())).patch
    assert [one.commit.message for one in pull.get_commits()] == ["Print two"]
    review = pull.create_review(body="fine", event="COMMENT")
    assert review.state == "COMMENTED" and [one.id for one in pull.get_reviews()] == [review.id]
    pull.create_issue_comment("ship it")
    assert [one.body for one in pull.get_issue_comments()] == ["ship it"]
    pull.add_to_labels("enhancement")
    assert not pull.is_merged()
    done = pull.merge(merge_method="squash")
    assert done.merged and site.get_branch("main").commit.sha == done.sha
    again = site.get_pull(3)
    assert again.merged and again.state == "closed" and again.is_merged()
    assert site.get_issue(1).state == "closed", "the body said that it fixes 1"
    merged = site.get_contents("src/app.py")
    assert not isinstance(merged, list) and merged.decoded_content == b"print(2)\n"
    site.get_git_ref("heads/fix").delete()
    assert [one.name for one in site.get_branches()] == ["main"]
    assert site.get_pulls(state="open").totalCount == 0
    assert [one.number for one in site.get_pulls(state="closed")] == [3]


def test_trees_and_commits(site: Repository) -> None:
    tree = site.get_git_tree("main", recursive=True)
    assert [one.path for one in tree.tree] == [
        "README.md", "src", "src/app.py", "src/lib", "src/lib/a.py",
    ]  # fmt: skip
    site.create_file("x", "more", "x")
    assert site.get_commit("main").files[0].status == "added"  # type: ignore[index]


def test_search_finds_by_words_and_qualifiers(github: Github) -> None:
    found = github.search_issues("broken repo:acme/site is:issue is:open label:bug")
    assert [one.title for one in found] == ["It is broken"] and found.totalCount == 1
    assert github.search_issues("is:closed author:acme").totalCount == 1
    assert github.search_issues("-label:bug repo:acme/site").totalCount == 1
    assert [one.full_name for one in github.search_repositories("user:acme site")] == ["acme/site"]


def test_rate_limit_counts_down(github: Github) -> None:
    before = github.get_rate_limit().resources.core.remaining
    github.get_repo("acme/site")
    assert github.get_rate_limit().resources.core.remaining == before - 1
