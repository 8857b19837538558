"""`paddock changes`: what a run changed against its sources, also when these moved on."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.main import _run
from paddock.run.changes import report_with_files
from paddock.state.home import Home
from unit.cli.conftest import Said
from unit.cli.recorded_files import TARGET, make_project, make_recorded

Say = Callable[..., Said]
SCRIPT = (
    f"cd {TARGET}; rm gone.txt; sed -i s/two/TWO/ a.txt; echo new > n; touch sub/b.txt;"
    "printf '\\000\\001' > bin; rm -r sub; mkdir sub; echo z > sub/z; mkdir made"
)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = _run("changes", list(words))
        except SystemExit as end:
            code = int(str(end.code))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("changes") / "project")


@pytest.fixture(scope="module")
def run(project: Path) -> str:
    return make_recorded(project, SCRIPT, hidden=(f"{TARGET}/n",)).name


def kinds(said: Said) -> dict[str, str]:
    return {one["path"]: one["kind"] for one in said.json["changes"]}


def test_every_change_is_listed_as_the_agent_saw_it(say: Say, run: str) -> None:
    assert kinds(say(run, "--json")) == {
        f"{TARGET}/a.txt": "modified",
        f"{TARGET}/bin": "added",
        f"{TARGET}/gone.txt": "deleted",
        f"{TARGET}/last.txt": "added",
        f"{TARGET}/made": "added",
        f"{TARGET}/n": "added",
        f"{TARGET}/sub/b.txt": "deleted",
        f"{TARGET}/sub/z": "added",
        "/home/user/note.txt": "added",
    }


def test_changes_at_a_step_are_those_before_it(say: Say, run: str) -> None:
    assert kinds(say(run, "--step", "1", "--json")) == {}
    assert say(run, "--step", "1").out.strip() == "nothing changed"
    assert f"{TARGET}/last.txt" not in kinds(say(run, "--step", "2", "--json"))


def test_diff_is_a_patch_and_says_elsewhere_what_is_not_in_it(say: Say, run: str) -> None:
    said = say(run, "--diff")
    assert said.out.startswith("diff --git a/a.txt b/a.txt\n--- a/a.txt\n")
    assert "\n-two\n+TWO\n" in said.out
    assert "\nGIT binary patch\nliteral 2\n" in said.out
    assert "b/n\n" not in said.out
    assert f"{TARGET}/n: " in said.err
    assert "changes of /home/user are not in the patch" in said.err


EVERYTHING = f"""cd {TARGET}
rm gone.txt; sed -i s/two/TWO/ a.txt; printf 'no end' > new; chmod +x sub/b.txt; touch empty
head -c 3000 /dev/urandom > 'a "binary" file'; printf '\\000\\001' > bytes; ln -s a.txt link
mv old renamed; rm -r tree; echo was a directory > tree; rm file; mkdir -p file/now
echo x > file/now/x
rm swap; ln -s elsewhere swap; mkdir 'with space'; echo y > 'with space/ünïcode'; mkfifo pipe
rm -rf replaced; mkdir replaced; echo 2 > replaced/two; printf 'a\\r\\nb\\fc' > crlf
"""


@pytest.mark.parametrize("prepare", ["git init -q .", "git init -q --object-format=sha256 .",
                                     "git init -q ..", ":"])  # fmt: skip
def test_git_applies_the_patch_and_makes_what_the_agent_made(
    say: Say, tmp_path: Path, prepare: str
) -> None:
    project = make_project(tmp_path / "top" / "project")
    for path in ("old", "file", "swap", "crlf", "tree/deep/one", "tree/two", "replaced/one"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(f"{path}\n" * 5)
    subprocess.run(prepare, shell=True, cwd=project, check=True)
    run = make_recorded(project, EVERYTHING).name
    said = say(run, "--diff")
    assert said.code == 1  # because of the pipe
    assert f"{TARGET}/pipe is no file" in said.err

    patch = said.out.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "-"], input=patch, cwd=project, check=True)

    left = {one["path"] for one in say(run, "--json").json["changes"] if one["type"] != "dir"}
    assert left == {"/home/user/note.txt", f"{TARGET}/pipe"}


def test_patch_says_what_it_undoes_in_a_source_that_moved_on(say: Say, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    run = make_recorded(project, SCRIPT).name
    (project / "a.txt").write_text("mine\n")
    assert "changed since, which the patch undoes" in say(run, "--diff").err


def test_directories_are_listed_and_no_report_counts_them(say: Say, run: str) -> None:
    lines = say(run).out.splitlines()
    assert f"added     {TARGET}/made/" in lines
    assert lines[-1] == "added 5, modified 1, deleted 2"
    files = report_with_files(Home.find().runs / run).files
    assert files is not None
    assert (files.changed, len(files.added)) == (8, 5)


def test_hidden_file_is_marked_as_never_written(say: Say, run: str) -> None:
    (one,) = [c for c in say(run, "--json").json["changes"] if c["path"] == f"{TARGET}/n"]
    assert "hidden" in one["refusal"]


def test_source_that_moved_on_is_said(say: Say, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    run = make_recorded(project, SCRIPT).name
    (project / "a.txt").write_text("mine\n")
    (project / "sub" / "b.txt").write_text("mine\n")
    conflicts = {c["path"] for c in say(run, "--json").json["changes"] if c["conflict"]}
    assert conflicts == {f"{TARGET}/a.txt", f"{TARGET}/sub/b.txt"}
    assert "changed since" in say(run).out


def test_source_that_is_gone_or_a_link_by_now_is_said(say: Say, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    run = make_recorded(project, SCRIPT).name
    shutil.rmtree(project)
    said = say(run, "--json")
    assert said.code == 0
    assert str(project) in said.json["remarks"][0]
    project.symlink_to("/etc")
    assert str(project) in say(run, "--json").json["remarks"][0]


def test_scratch_is_gone_afterwards(say: Say, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may use the same home meanwhile, so it is told by what this command makes."""
    make, made = tempfile.mkdtemp, []

    def noted(**options: Any) -> str:
        made.append(make(**options))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", noted)
    say(run)
    assert made and not any(map(os.path.exists, made))
