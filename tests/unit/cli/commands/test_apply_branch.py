"""`paddock apply --branch`: what an agent committed, as a branch of the user's repository."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.cli.main import _run
from unit.cli.conftest import Said
from unit.cli.recorded_files import TARGET, make_project, make_recorded

Say = Callable[..., Said]
AGENT = f"cd {TARGET}; git config user.name agent; git config user.email a@example.com; "
TWO = f"{AGENT} echo 1 > 1; git add 1; git commit -qm first; git mv 1 2; git commit -qm 2nd"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*words: str) -> Said:
        capsys.readouterr()
        code = _run(words[0], list(words[1:]))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


def git(place: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=me", "-c", "user.email=me@example.com", *words]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_repository(place: Path, *options: str) -> Path:
    make_project(place)
    git(place, "init", "-q", "-b", "main", *options)
    git(place, "add", ".")
    git(place, "commit", "-qm", "base")
    return place


def test_commits_are_listed_as_one_line_and_brought_as_a_branch(say: Say, tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    (project / "mine.txt").write_text("not committed")
    before = git(project, "rev-parse", "HEAD")
    run = make_recorded(project, TWO).name

    [line] = [one for one in say("changes", run).out.splitlines() if "/.git" in one]
    assert line.startswith(f"modified  {TARGET}/.git (")
    assert "files: 2 commits on main; as a branch: paddock apply" in line
    said = say("apply", run, "--branch", "agent")
    assert said.code == 0, said.err
    assert f"2 commits of the agent on the new branch agent of {project}" in said.out
    assert git(project, "log", "--format=%s", "agent") == "2nd\nfirst\nbase"
    assert git(project, "rev-parse", "HEAD", "agent~2") == f"{before}\n{before}"
    assert git(project, "status", "--short") == "?? mine.txt"

    again = say("apply", run, "--branch", "agent")
    assert (again.code, "there is a branch agent already" in again.err) == (1, True)
    forced = say("apply", run, "--branch", "agent", "--force", "--json").json
    assert [one["subject"] for one in forced["commits"]] == ["2nd", "first"]
    assert forced["repository"] == str(project)


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ("git gc -q", ()),
        ("git checkout -q --detach; git branch -qD main", ()),
        ("git pack-refs --all", ()),
        ("git repack -adq", ("--object-format=sha256",)),
    ],
)
def test_packs_detached_heads_and_both_hashes_are_taken(
    say: Say, tmp_path: Path, more: str, options: tuple[str, ...]
) -> None:
    project = make_repository(tmp_path / "project", *options)
    run = make_recorded(project, f"{TWO}; {more}").name

    assert say("apply", run, "--branch", "agent").code == 0
    assert git(project, "log", "--format=%s", "agent") == "2nd\nfirst\nbase"
    git(project, "fsck", "--strict")


def test_another_branch_of_the_agent_is_named(say: Say, tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    there = make_repository(tmp_path / "there")
    git(there, "commit", "--amend", "-qm", "another base")
    git(there, "reflog", "expire", "--expire=now", "--all")
    git(there, "gc", "-q", "--prune=now")
    script = f"{AGENT} git checkout -qb side; {TWO}; git checkout -q main"
    run = make_recorded(project, script).name

    said = say("apply", run, "--branch", "agent")
    assert said.code == 1
    assert "no commit on main that your repository does not have" in said.err
    assert "side; name one with --from" in said.err
    assert say("apply", run, "--branch", "agent", "--from", "side").code == 0
    elsewhere = say("apply", run, "--branch", "agent", "--from", "side", "--to", str(there))
    assert elsewhere.code == 1  # it does not have what the commits build on
    assert "the agent's commits" in elsewhere.err
    assert git(there, "branch", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"echo x > {TARGET}/x", ".git of the project is as it was"),
        (f"cd {TARGET}; git status -q; touch .git/x", "no commit on main"),
        (f"rm -rf {TARGET}/.git", "left no .git"),
        (f"cd {TARGET}; git checkout -q --orphan new", "its branch is empty"),
    ],
)
def test_agent_without_commits_is_said(say: Say, tmp_path: Path, script: str, message: str) -> None:
    project = make_repository(tmp_path / "project")
    said = say("apply", make_recorded(project, script).name, "--branch", "agent")

    assert said.code == 1
    assert message in said.err
    assert git(project, "branch", "--format=%(refname:short)") == "main"


def test_project_without_a_repository_gets_no_branch(say: Say, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")  # further up, and not meant
    project = make_project(tmp_path / "project")
    run = make_recorded(project, f"cd {TARGET}; git init -q .; {TWO}").name
    said = say("apply", run, "--branch", "agent")

    assert said.code == 2
    assert f"{project} is no git repository" in said.err


def test_name_that_git_refuses_is_refused(say: Say, tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    run = make_recorded(project, TWO).name
    for name in ("a..b", "-d", "HEAD", "x y", ""):
        said = say("apply", run, f"--branch={name}")
        assert said.code == 2
        assert "is no name for a branch" in said.err
