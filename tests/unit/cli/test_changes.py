"""`paddock changes`: what a run changed against its sources, also when these moved on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.cli.main import _run
from paddock.run.touched import report_with_files
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


def test_diff_shows_lines_and_no_binary(say: Say, run: str) -> None:
    out = say(run, "--diff").out
    assert f"--- a{TARGET}/a.txt" in out
    assert "\n-two\n+TWO\n" in out
    assert "\n-gone\n" in out
    assert "\n+new\n" in out
    assert f"{TARGET}/bin: not text" in out
    assert "added 5, modified 1, deleted 2" in out


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


def test_scratch_is_gone_afterwards(say: Say, run: str) -> None:
    from paddock.state.home import Home

    say(run)
    assert list((Home.find().cache / "changes").iterdir()) == []
