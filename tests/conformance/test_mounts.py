"""Directories of the caller's inside a sandbox: read, write and overlay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from paddock import CommandExitException, FileError, InvalidInput


def _mount(source: Path, mode: str, target: str = "/mnt/in") -> dict[str, str]:
    return {"source": str(source), "target": target, "mode": mode}


def test_read_mount_shows_the_files_and_takes_no_writes(
    make_box: MakeBox, shared_directory: Path
) -> None:
    (shared_directory / "sub").mkdir()
    (shared_directory / "sub" / "f").write_text("content")
    box = make_box(mounts=[_mount(shared_directory, "read")])
    assert box.files.read("/mnt/in/sub/f") == "content"
    for command in ("touch /mnt/in/new", "rm /mnt/in/sub/f", "echo x >> /mnt/in/sub/f"):
        with pytest.raises(CommandExitException, match="Read-only"):
            box.commands.run(command)
    with pytest.raises(FileError) as caught:
        box.files.write("/mnt/in/sub/f", "x")
    assert caught.value.code == "EROFS"


def test_mode_is_read_unless_told(make_box: MakeBox, shared_directory: Path) -> None:
    box = make_box(mounts=[{"source": str(shared_directory), "target": "/mnt/in"}])
    with pytest.raises(CommandExitException):
        box.commands.run("touch /mnt/in/new")


def test_what_is_written_through_a_write_mount_belongs_to_the_caller(
    make_box: MakeBox, shared_directory: Path
) -> None:
    box = make_box(mounts=[_mount(shared_directory, "write")])
    box.commands.run("mkdir /mnt/in/d; echo x > /mnt/in/d/f; ln -s f /mnt/in/d/link")
    for path in (shared_directory / "d", shared_directory / "d" / "f"):
        info = path.stat()
        assert (info.st_uid, info.st_gid) == (os.geteuid(), os.getegid())
    assert os.readlink(shared_directory / "d" / "link") == "f"


def test_writes_of_the_host_show_inside_at_once(make_box: MakeBox, shared_directory: Path) -> None:
    box = make_box(mounts=[_mount(shared_directory, "read")])
    (shared_directory / "later").write_text("x")
    assert box.files.read("/mnt/in/later") == "x"


def test_single_file_can_be_mounted(make_box: MakeBox, shared_directory: Path) -> None:
    file = shared_directory / "one"
    file.write_text("1")
    (shared_directory / "other").write_text("2")
    box = make_box(mounts=[_mount(file, "read", "/config/one")])
    assert box.files.read("/config/one") == "1"
    assert [e.name for e in box.files.list("/config")] == ["one"]


def test_source_in_a_closed_directory_can_be_mounted_and_nothing_beside_it_is_seen(
    make_box: MakeBox, shared_directory: Path
) -> None:
    closed = shared_directory / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "f").write_text("x")
    (closed / "beside").write_text("private")
    (closed / "inner").chmod(0o700)
    closed.chmod(0o700)
    box = make_box(mounts=[_mount(closed / "inner", "read")])
    assert box.files.read("/mnt/in/f") == "x"
    assert not box.files.exists("/mnt/in/../beside")


def test_relative_source_and_home_sign_are_the_callers(
    make_box: MakeBox, shared_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared_directory / "f").write_text("x")
    monkeypatch.chdir(shared_directory.parent)
    monkeypatch.setenv("HOME", str(shared_directory.parent))
    for source in (shared_directory.name, f"~/{shared_directory.name}", "."):
        box = make_box(mounts=[{"source": source, "target": "/mnt/in"}])
        assert box.files.exists("/mnt/in/f") or box.files.exists("/mnt/in/shared/f")


@pytest.mark.parametrize("targets", [("/mnt", "/mnt/inside"), ("/mnt/inside", "/mnt")])
def test_mount_inside_another_is_refused(
    make_box: MakeBox, shared_directory: Path, targets: tuple[str, str]
) -> None:
    """Its place would lie in the caller's own directory and have to be made there."""
    mounts = [_mount(shared_directory, "read", target) for target in targets]
    with pytest.raises(InvalidInput, match=r"mounts\.target.*inside"):
        make_box(mounts=mounts)


def test_mounts_side_by_side_are_apart(make_box: MakeBox, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    box = make_box(
        mounts=[
            _mount(tmp_path / "one", "read", "/mnt/one"),
            _mount(tmp_path / "two", "write", "/mnt/two"),
        ]
    )
    assert [e.name for e in box.files.list("/mnt", depth=2)] == ["one", "one", "two", "two"]
    box.files.write("/mnt/two/new", "x")
    assert (tmp_path / "two" / "new").read_text() == "x"


def test_mount_in_the_home_directory_works(make_box: MakeBox, shared_directory: Path) -> None:
    box = make_box(mounts=[_mount(shared_directory, "write", "/home/user/project")])
    box.commands.run("echo x > project/f", cwd="/home/user")
    assert (shared_directory / "f").read_text() == "x\n"


def test_odd_names_in_a_source_path(make_box: MakeBox, tmp_path: Path) -> None:
    source = tmp_path / "odd name,with:ünï\\and 'quotes'"
    source.mkdir()
    (source / "f").write_text("x")
    for mode in ("read", "write", "overlay"):
        assert make_box(mounts=[_mount(source, mode)]).files.read("/mnt/in/f") == "x"


def test_file_as_an_overlay_is_invalid(make_box: MakeBox, shared_directory: Path) -> None:
    (shared_directory / "f").write_text("x")
    with pytest.raises(InvalidInput, match=r"mounts\.source"):
        make_box(mounts=[_mount(shared_directory / "f", "overlay")])


def test_overlay_writes_count_against_the_disk_limit(
    make_box: MakeBox, shared_directory: Path
) -> None:
    box = make_box(mounts=[_mount(shared_directory, "overlay")], limits={"disk": "16MiB"})
    with pytest.raises(CommandExitException) as caught:
        box.commands.run("head -c 60000000 /dev/urandom > /mnt/in/f && sync && sleep 3")
    assert caught.value.killed_by == "disk"
    assert list(shared_directory.iterdir()) == []
