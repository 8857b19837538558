"""Parts of a source that a sandbox does not see, in mounts for reading and in overlays."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import for_each
from conformance.conftest import MakeBox
from paddock import CommandExitException, InvalidInput, Sandbox

SECRET = "the-secret-itself"
HIDDEN = [".env", "conf/.env", ".aws", "closed/id_rsa"]


@pytest.fixture
def project(shared_directory: Path) -> Path:
    """A directory with secrets among what is needed."""
    for name in ("conf", ".aws", "closed", "plain"):
        (shared_directory / name).mkdir()
    for name in (".env", "conf/.env", ".aws/credentials", "closed/id_rsa"):
        (shared_directory / name).write_text(SECRET)
    for name in ("agent.py", "conf/settings.toml", "closed/notes", "plain/file"):
        (shared_directory / name).write_text("needed")
    (shared_directory / "closed").chmod(0o555)
    return shared_directory


def mount(source: Path, mode: str, hidden: list[str] | None = None) -> dict[str, object]:
    hidden = HIDDEN if hidden is None else hidden
    return {"source": str(source), "target": "/root/project", "mode": mode, "hidden": hidden}


def paths(box: Sandbox) -> set[str]:
    found = box.commands.run("cd /root/project && find . -mindepth 1").stdout.split()
    return {path.removeprefix("./") for path in found}


@pytest.mark.parametrize("mode", ["read", "overlay"])
def test_hidden_names_are_not_there_and_everything_else_is(
    make_box: MakeBox, project: Path, mode: str
) -> None:
    box = make_box(mounts=[mount(project, mode)])
    assert paths(box) == {
        "agent.py", "conf", "conf/settings.toml", "closed", "closed/notes", "plain", "plain/file"
    }  # fmt: skip
    for name in (".env", "conf/.env", ".aws/credentials", "closed/id_rsa"):
        assert not box.files.exists(f"/root/project/{name}")
        with pytest.raises(CommandExitException, match="No such file"):
            box.commands.run(f"cat /root/project/{name}")


@pytest.mark.parametrize("mode", ["read", "overlay"])
def test_directories_on_the_way_look_as_they_do_in_the_source(
    make_box: MakeBox, project: Path, mode: str
) -> None:
    box = make_box(mounts=[mount(project, mode)])
    shown = box.commands.run("stat -c '%a %Y %U' /root/project/closed /root/project/conf").stdout
    stats = [(project / name).stat() for name in ("closed", "conf")]
    expected = [f"{s.st_mode & 0o777:o} {int(s.st_mtime)} user" for s in stats]
    assert shown.splitlines() == expected


def test_mount_for_reading_that_hides_something_takes_no_writes(
    make_box: MakeBox, project: Path
) -> None:
    box = make_box(mounts=[mount(project, "read")])
    for command in ("touch new", "echo x > .env", "rm agent.py", "mkdir .aws"):
        with pytest.raises(CommandExitException, match="Read-only"):
            box.commands.run(command, cwd="/root/project")


def test_sandbox_that_changes_nothing_has_no_changes(make_box: MakeBox, project: Path) -> None:
    box = make_box(mounts=[mount(project, "overlay")])
    touched = "chmod 755 closed; touch closed/x; rm closed/x; chmod 555 closed; cat agent.py"
    box.commands.run(touched, cwd="/root/project")
    assert list(box.changes()) == []


def test_own_file_of_a_hidden_name_is_new_and_is_never_written_back(
    make_box: MakeBox, project: Path
) -> None:
    box = make_box(mounts=[mount(project, "overlay")])
    box.commands.run("echo mine > .env; mkdir .aws; echo mine > .aws/credentials; echo new > ok",
                     cwd="/root/project")  # fmt: skip
    changes = box.changes()
    assert changes.modified == changes.deleted == []
    assert set(changes.added) == {
        f"/root/project/{name}" for name in (".env", ".aws", ".aws/credentials", "ok")
    }
    applied = {one.path: one.status for one in changes.apply()}
    assert applied == {".env": "refused", ".aws": "refused", ".aws/credentials": "refused",
                       "ok": "applied"}  # fmt: skip
    assert (project / ".env").read_text() == (project / ".aws/credentials").read_text() == SECRET


@pytest.mark.parametrize(
    "command",
    ["rm -rf conf", "rm -rf conf && mkdir conf", "rm -rf conf && touch conf",
     "rm -rf conf && ln -s plain conf", "rm -rf conf && mkdir -p conf/.env/x"],
)  # fmt: skip
def test_hidden_file_survives_what_is_done_to_its_directory(
    make_box: MakeBox, project: Path, command: str
) -> None:
    box = make_box(mounts=[mount(project, "overlay")])
    box.commands.run(command, cwd="/root/project")
    changes = box.changes()
    assert "/root/project/conf/.env" not in changes.deleted
    changes.apply()
    assert (project / "conf" / ".env").read_text() == SECRET


def test_fork_hides_the_same_and_keeps_what_its_parent_wrote(
    make_box: MakeBox, project: Path
) -> None:
    box = make_box(mounts=[mount(project, "overlay")])
    box.commands.run("echo mine > conf/.env; echo x > conf/new", cwd="/root/project")
    with box.fork() as child:
        assert child.files.read("/root/project/conf/.env") == "mine\n"
        assert child.files.exists("/root/project/conf/new")
        assert not child.files.exists("/root/project/.env")
        child.commands.run("rm conf/.env", cwd="/root/project")
        assert not child.files.exists("/root/project/conf/.env")
        with child.fork() as grandchild:
            assert not grandchild.files.exists("/root/project/conf/.env")


def test_snapshot_restored_with_another_list_hides_by_that_list(
    make_box: MakeBox, project: Path
) -> None:
    box = make_box(mounts=[mount(project, "overlay")])
    snapshot = box.snapshot()
    other = make_box(mounts=[mount(project, "overlay", ["agent.py"])], snapshot=snapshot)
    assert not other.files.exists("/root/project/agent.py")
    assert other.files.exists("/root/project/conf/.env")


def test_hidden_name_that_comes_to_be_later_is_not_seen(make_box: MakeBox, project: Path) -> None:
    box = make_box(mounts=[mount(project, "overlay", ["later", "made/later/.env", "agent.py/x"])])
    (project / "later").write_text(SECRET)
    (project / "made" / "later").mkdir(parents=True)
    (project / "made" / "later" / ".env").write_text(SECRET)
    assert not {"later", "made/later/.env"} & paths(box)


def test_file_that_is_replaced_in_the_source_stays_hidden(make_box: MakeBox, project: Path) -> None:
    box = make_box(mounts=[mount(project, "overlay")])
    (project / ".env-new").write_text(SECRET)
    (project / ".env-new").replace(project / ".env")
    assert not box.files.exists("/root/project/.env")


@for_each(
    "words",
    [{"mode": "write", "hidden": [".env"]}, {"hidden": ["/etc"]}, {"hidden": ["../x"]},
     {"hidden": ["a//b"]}, {"hidden": ["./a"]}, {"hidden": [""]}, {"hidden": ["a/"]},
     {"hidden": ".env"}, {"hidden": [7]}, {"hidden": ["a\0b"]}, {"hidden": ["a/" * 200 + "b"]}],
)  # fmt: skip
def test_senseless_list_is_refused(
    make_box: MakeBox, project: Path, words: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput, match="hidden"):
        make_box(mounts=[{**mount(project, "overlay"), **words}])


def test_file_has_nothing_in_it_to_hide(make_box: MakeBox, project: Path) -> None:
    with pytest.raises(InvalidInput, match="hidden"):
        make_box(mounts=[mount(project / "agent.py", "read", ["x"])])


def test_what_lies_in_something_hidden_need_not_be_named(make_box: MakeBox, project: Path) -> None:
    box = make_box(mounts=[mount(project, "overlay", [".aws/credentials", ".aws", ".aws/other"])])
    assert ".aws" not in paths(box)


def test_root_itself_is_no_target_and_what_lies_below_it_is(
    make_box: MakeBox, project: Path
) -> None:
    with pytest.raises(InvalidInput, match="/root"):
        make_box(mounts=[{"source": str(project), "target": "/root"}])
    assert make_box(mounts=[{"source": str(project), "target": "/root/a/b"}]).files.exists(
        "/root/a/b/agent.py"
    )
