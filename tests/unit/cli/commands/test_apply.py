"""`paddock apply`: what is written back, what never is, and who is asked."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.cli.main import _run
from unit.cli.conftest import Said
from unit.cli.recorded_files import TARGET, make_project, make_recorded

Say = Callable[..., Said]
SCRIPT = f"cd {TARGET}; rm gone.txt; sed -i s/two/TWO/ a.txt; echo new > sub/n; echo e > .env"


class Terminal(io.StringIO):
    """A person's answer."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    def run(*words: str, answer: str | None = None) -> Said:
        monkeypatch.setattr(sys, "stdin", io.StringIO() if answer is None else Terminal(answer))
        capsys.readouterr()
        try:
            code = _run("apply", list(words))
        except SystemExit as end:
            code = int(str(end.code))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture
def run(project: Path) -> str:
    return make_recorded(project, SCRIPT, hidden=(f"{TARGET}/.env",)).name


def content(project: Path) -> dict[str, str]:
    found = (path for path in project.rglob("*") if path.is_file())
    return {path.relative_to(project).as_posix(): path.read_text() for path in found}


BEFORE = {"a.txt": "one\ntwo\nthree\n", "sub/b.txt": "b\n", "gone.txt": "gone\n"}
AFTER = {"a.txt": "one\nTWO\nthree\n", "sub/b.txt": "b\n", "sub/n": "new\n", "last.txt": "last\n"}


def test_all_changes_are_written_but_what_is_hidden(say: Say, run: str, project: Path) -> None:
    said = say(run, "--yes", "--json")
    assert content(project) == AFTER
    status = {one["path"]: one["status"] for one in said.json["applied"]}
    assert status.pop(f"{TARGET}/.env") == "refused"
    assert set(status.values()) == {"applied"}
    assert said.code == 1
    assert os.stat(project / "last.txt").st_uid == os.stat(project).st_uid


def test_nothing_is_written_twice(say: Say, run: str, project: Path) -> None:
    say(run, "--yes")
    (project / "last.txt").write_text("mine")
    said = say(run, "last.txt", "--yes")
    assert said.code == 1
    assert (project / "last.txt").read_text() == "mine"


def test_only_named_paths_are_written(say: Say, run: str, project: Path) -> None:
    assert say(run, "sub", f"{TARGET}/gone.txt", "--yes").code == 0
    assert content(project) == {"a.txt": BEFORE["a.txt"], "sub/b.txt": "b\n", "sub/n": "new\n"}


def test_step_chooses_the_moment(say: Say, run: str, project: Path) -> None:
    say(run, "--step", "2", "--yes")
    assert "last.txt" not in content(project)
    assert (project / "sub" / "n").exists()


def test_without_a_terminal_nothing_is_written_unless_yes(
    say: Say, run: str, project: Path
) -> None:
    said = say(run)
    assert said.code == 2
    assert "--yes" in said.err
    assert content(project) == BEFORE


@pytest.mark.parametrize(("answer", "is_written"), [("y\n", True), ("n\n", False), ("", False)])
def test_person_is_shown_the_list_and_asked(
    say: Say, run: str, project: Path, answer: str, *, is_written: bool
) -> None:
    said = say(run, "a.txt", answer=answer)
    assert f"{TARGET}/a.txt" in said.out
    assert str(project) in said.out
    assert ("TWO" in (project / "a.txt").read_text()) == is_written
    assert said.code == (0 if is_written else 1)


def test_source_that_changed_since_is_refused_and_named(say: Say, run: str, project: Path) -> None:
    (project / "a.txt").write_text("mine\n")
    before = content(project)
    said = say(run, "--yes")
    assert said.code == 1
    assert f"{TARGET}/a.txt" in said.err
    assert content(project) == before
    assert say(run, "sub/n", "--yes").code == 0
    assert say(run, "a.txt", "--yes", "--force").code == 0
    assert "TWO" in (project / "a.txt").read_text()


def test_link_in_the_place_of_the_source_is_not_followed(
    say: Say, run: str, project: Path, tmp_path: Path
) -> None:
    victim = make_project(tmp_path / "victim")
    shutil.rmtree(project)
    project.symlink_to(victim)
    say(run, "--yes")
    assert content(victim) == BEFORE


def test_link_that_leaves_the_source_is_refused(say: Say, project: Path) -> None:
    script = f"cd {TARGET}; ln -s /etc/passwd out; ln -s ../../up up; ln -s a.txt fine"
    run = make_recorded(project, script).name
    said = say(run, "--yes", "--json")
    status = {one["path"]: one["status"] for one in said.json["applied"]}
    assert status[f"{TARGET}/out"] == status[f"{TARGET}/up"] == "refused"
    assert status[f"{TARGET}/fine"] == "applied"
    assert not os.path.lexists(project / "out")


def test_directory_of_the_source_that_became_a_link_is_not_written_through(
    say: Say, run: str, project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(project / "sub")
    (project / "sub").symlink_to(outside)
    said = say(run, "sub/n", "--yes", "--force")
    assert said.code == 1
    assert os.listdir(outside) == []


def test_workspace_needs_a_place_to_go(say: Say, run: str, tmp_path: Path) -> None:
    assert say(run, "/home/user/note.txt", "--yes").code == 2
    to = tmp_path / "to"
    to.mkdir()
    assert say(run, "/home/user", "--to", str(to), "--yes").code == 0
    assert (to / "note.txt").read_text() == "home\n"
    assert say(run, "--to", str(to), "--yes").code == 2


def test_other_directory_gets_the_changes_and_the_source_nothing(
    say: Say, run: str, project: Path, tmp_path: Path
) -> None:
    to = make_project(tmp_path / "to")
    assert say(run, TARGET, "--to", str(to), "--yes").code == 0
    assert content(to) == {**AFTER, ".env": "e\n"}
    assert content(project) == BEFORE


def test_unknown_path_is_named(say: Say, run: str) -> None:
    said = say(run, "nowhere", "--yes")
    assert (said.code, "nowhere" in said.err) == (2, True)


def test_journal_from_elsewhere_does_not_choose_what_is_written(
    say: Say, run: str, project: Path, tmp_path: Path
) -> None:
    from paddock.state.home import Home

    copy = tmp_path / "copy"
    shutil.copytree(Home.find().runs / run, copy)
    said = say(str(copy), "--yes")
    assert (said.code, "--to" in said.err) == (2, True)
    assert content(project) == BEFORE


OBEYED = f"cd {TARGET}; echo evil > paddock.yaml; echo evil > Makefile; echo fine > fine.txt"


@pytest.fixture
def obeyed(project: Path) -> str:
    return make_recorded(project, OBEYED).name


def test_files_that_tools_obey_are_held_with_yes(say: Say, obeyed: str, project: Path) -> None:
    said = say(obeyed, "--yes", "--json")
    status = {one["path"]: one["status"] for one in said.json["applied"]}
    assert status[f"{TARGET}/paddock.yaml"] == status[f"{TARGET}/Makefile"] == "held"
    assert status[f"{TARGET}/fine.txt"] == "applied"
    assert said.code == 1
    assert not (project / "paddock.yaml").exists()
    assert not (project / "Makefile").exists()


def test_files_that_tools_obey_are_written_when_named(say: Say, obeyed: str, project: Path) -> None:
    assert say(obeyed, "paddock.yaml", "Makefile", "--yes").code == 0
    assert (project / "paddock.yaml").read_text() == "evil\n"
    assert (project / "Makefile").read_text() == "evil\n"


def test_to_name_the_project_does_not_name_its_paddock_file(
    say: Say, obeyed: str, project: Path
) -> None:
    said = say(obeyed, TARGET, "--yes")
    assert said.code == 1
    assert "held" in said.out
    assert not (project / "paddock.yaml").exists()


@pytest.mark.parametrize("answer", ["y\ny\n", "y\nn\n"])
def test_person_is_asked_about_tools_apart(
    say: Say, obeyed: str, project: Path, answer: str
) -> None:
    said = say(obeyed, answer=answer)
    assert "a build tool obeys it" in said.out
    assert (project / "fine.txt").exists()
    assert (project / "Makefile").exists() == (answer == "y\ny\n")
    assert not (project / "paddock.yaml").exists()
    assert said.code == 1
