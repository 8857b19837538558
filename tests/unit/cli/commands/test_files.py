"""`paddock files`: what it lists of a recorded run, at which step, and what it gives out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.cli.main import _run
from unit.cli.conftest import Said
from unit.cli.recorded_files import TARGET, make_project, make_recorded

Say = Callable[..., Said]


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Say:
    def run(*words: str) -> Said:
        capfd.readouterr()
        try:
            code = _run("files", list(words))
        except SystemExit as end:
            code = int(str(end.code))
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    project = make_project(tmp_path_factory.mktemp("files") / "project")
    script = f"cd {TARGET}; rm gone.txt; printf new > n; ln -s n l; printf '\\033[2J' > 'x\x1b'"
    return make_recorded(project, script).name


def test_list_has_what_the_agent_wrote_and_nothing_else(say: Say, run: str) -> None:
    said = say(run, "--json")
    assert said.code == 0
    kinds = {one["path"]: one["kind"] for one in said.json["files"]}
    assert kinds == {
        "/home/user": "dir",
        "/home/user/note.txt": "file",
        TARGET: "dir",
        f"{TARGET}/gone.txt": "whiteout",
        f"{TARGET}/l": "symlink",
        f"{TARGET}/last.txt": "file",
        f"{TARGET}/n": "file",
        f"{TARGET}/x\x1b": "file",
    }


def test_list_at_a_step_is_as_it_was_before_it(say: Say, run: str) -> None:
    first, second = say(run, "--step", "1", "--json"), say(run, "--step", "2", "--json")
    assert {one["path"] for one in first.json["files"]} == {"/home/user", TARGET}
    assert f"{TARGET}/last.txt" not in {one["path"] for one in second.json["files"]}


@pytest.mark.parametrize("command", ["files", "changes", "apply"])
def test_step_that_a_run_does_not_have_is_a_sentence(
    run: str, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _run(command, [run, "--step", "99"]) != 0
    assert "no step 99" in capfd.readouterr().err


def test_text_marks_what_was_deleted_and_cannot_act_on_a_terminal(say: Say, run: str) -> None:
    said = say(run)
    assert f"{TARGET}/gone.txt  (deleted)" in said.out
    assert f"{TARGET}/l -> n" in said.out
    assert "\x1b" not in said.out


def test_path_narrows_the_list(say: Say, run: str) -> None:
    found = say(run, "/home/user/", "--json").json["files"]
    assert [one["path"] for one in found] == ["/home/user", "/home/user/note.txt"]
    assert say(run, "/home/use").code == 1


def test_cat_gives_the_bytes_of_that_step(say: Say, run: str) -> None:
    assert say(run, f"{TARGET}/n", "--cat").out == "new"
    assert say(run, f"{TARGET}/n", "--cat", "--step", "1").code == 1


@pytest.mark.parametrize("path", [f"{TARGET}/gone.txt", f"{TARGET}/a.txt", TARGET, f"{TARGET}/l"])
def test_cat_of_what_is_no_recorded_file_is_a_sentence(say: Say, run: str, path: str) -> None:
    said = say(run, path, "--cat")
    assert said.code in (1, 2)
    assert said.err.startswith("paddock: ")


@pytest.mark.parametrize("path", ["n", "./n", "sub/../n"])
def test_path_without_a_slash_at_its_front_is_below_the_project(
    say: Say, run: str, path: str
) -> None:
    assert say(run, path, "--cat").out == "new"
    assert [one["path"] for one in say(run, path, "--json").json["files"]] == [f"{TARGET}/n"]


def test_path_below_the_project_of_a_run_without_one_is_a_sentence(
    say: Say, tmp_path: Path
) -> None:
    from paddock.state.home import Home
    from unit.cli.past import make_run

    make_run(Home.find().root, "no-project")
    said = say("no-project", "n", "--cat")
    assert said.code == 2
    assert "say the whole PATH" in said.err


def test_cat_needs_a_path(say: Say, run: str) -> None:
    assert say(run, "--cat").code == 2


def test_unknown_run_is_a_sentence(say: Say) -> None:
    said = say("no-such-run")
    assert (said.code, said.err.startswith("paddock: ")) == (1, True)


def test_damaged_store_is_a_sentence(say: Say, tmp_path: Path) -> None:
    from paddock.run.files import store_of, tree_at
    from paddock.state.home import Home

    directory = make_recorded(make_project(tmp_path / "project"), f"echo x > {TARGET}/unlike")
    store = store_of(Home.find())
    node = store.find(tree_at(directory), TARGET, "")
    Path(store.objects.path(node.digest)).write_bytes(b"0{}")
    said = say(directory.name)
    assert said.code == 1
    assert "changed or damaged" in said.err
