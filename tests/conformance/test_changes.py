"""What a sandbox changed, and writing chosen changes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from paddock import InvalidInput, Sandbox


@pytest.fixture
def project(shared_directory: Path) -> Path:
    """A small project of the caller's."""
    (shared_directory / "src").mkdir()
    (shared_directory / "src" / "main.py").write_text("print('old')\n")
    (shared_directory / "keep.txt").write_text("keep")
    (shared_directory / "drop.txt").write_text("drop")
    (shared_directory / "olddir").mkdir()
    (shared_directory / "olddir" / "a").write_text("a")
    return shared_directory


@pytest.fixture
def worker(project: Path, make_box: MakeBox) -> Sandbox:
    """A sandbox that has the project as an overlay and has worked on it."""
    box = make_box(mounts=[{"source": str(project), "target": "/project", "mode": "overlay"}])
    box.commands.run(
        "cd /project; echo \"print('new')\" > src/main.py; rm drop.txt; mkdir -p made/deep;"
        " echo x > made/deep/file; touch keep.txt; chmod 755 src/main.py"
    )
    return box


def test_overlay_leaves_the_source_untouched(worker: Sandbox, project: Path) -> None:
    assert (project / "src" / "main.py").read_text() == "print('old')\n"
    assert (project / "drop.txt").exists() and not (project / "made").exists()
    assert worker.files.read("/project/src/main.py") == "print('new')\n"


def test_changes_of_an_overlay_are_told_by_kind(worker: Sandbox) -> None:
    changes = worker.changes()
    assert "/project/made/deep/file" in changes.added
    assert changes.modified == ["/project/src/main.py"]
    assert changes.deleted == ["/project/drop.txt"]
    assert {c.kind for c in changes} == {"added", "modified", "deleted"}


def test_apply_writes_all_back(worker: Sandbox, project: Path) -> None:
    applied = worker.changes().apply()
    assert {a.status for a in applied} == {"applied"}
    assert (project / "src" / "main.py").read_text() == "print('new')\n"
    assert (project / "src" / "main.py").stat().st_mode & 0o777 == 0o755
    assert (project / "made" / "deep" / "file").read_text() == "x\n"
    assert not (project / "drop.txt").exists()
    assert (project / "keep.txt").read_text() == "keep"
    info = (project / "made" / "deep" / "file").stat()
    assert (info.st_uid, info.st_gid) == (os.geteuid(), os.getegid())


def test_apply_writes_only_what_was_chosen(worker: Sandbox, project: Path) -> None:
    worker.changes().apply(["/project/src/main.py"])
    assert (project / "src" / "main.py").read_text() == "print('new')\n"
    assert (project / "drop.txt").exists() and not (project / "made").exists()


def test_nothing_is_changed_after_all_was_applied(worker: Sandbox) -> None:
    worker.changes().apply()
    assert [str(c) for c in worker.changes() if c.path.startswith("/project/")] == []


def test_path_that_is_no_change_cannot_be_applied(worker: Sandbox) -> None:
    with pytest.raises(InvalidInput, match=r"keep\.txt"):
        worker.changes().apply(["/project/keep.txt"])


def test_directory_that_was_removed_and_made_anew_hides_its_old_content(
    worker: Sandbox, project: Path
) -> None:
    worker.commands.run("cd /project; rm -r olddir; mkdir olddir; echo b > olddir/b")
    changes = worker.changes()
    assert "/project/olddir/a" in changes.deleted and "/project/olddir/b" in changes.added
    changes.apply()
    assert [p.name for p in (project / "olddir").iterdir()] == ["b"]


def test_file_that_became_a_directory_and_the_other_way_round(
    worker: Sandbox, project: Path
) -> None:
    worker.commands.run(
        "cd /project; rm keep.txt; mkdir keep.txt; echo x > keep.txt/f;"
        " rm -r olddir; echo y > olddir"
    )
    applied = worker.changes().apply()
    assert {a.status for a in applied} == {"applied"}, applied
    assert (project / "keep.txt" / "f").read_text() == "x\n"
    assert (project / "olddir").read_text() == "y\n"


def test_link_that_leaves_the_tree_is_refused_and_told(worker: Sandbox, project: Path) -> None:
    worker.commands.run(
        "cd /project; ln -s /etc/passwd out; ln -s ../../up up; ln -s src/main.py in"
    )
    applied = {a.path: a for a in worker.changes().apply()}
    assert applied["out"].status == applied["up"].status == "refused"
    assert applied["out"].why
    assert not (project / "out").is_symlink() and not (project / "up").is_symlink()
    assert os.readlink(project / "in") == "src/main.py"


def test_special_files_are_refused(worker: Sandbox, project: Path) -> None:
    worker.commands.run("mkfifo /project/pipe")
    applied = {a.path: a.status for a in worker.changes().apply()}
    assert applied["pipe"] == "refused"
    assert not (project / "pipe").exists()


def test_changes_of_the_workspace_are_told_and_written_where_asked(
    box: Sandbox, tmp_path: Path
) -> None:
    box.commands.run("mkdir -p out; echo result > out/r; echo more > m")
    changes = box.changes()
    assert {"/home/user/out/r", "/home/user/m"} <= set(changes.added)
    with pytest.raises(InvalidInput, match="to="):
        changes.apply(["/home/user/m"])
    target = tmp_path / "target"
    target.mkdir()
    changes.apply(["/home/user/out/r"], to=target)
    assert (target / "out" / "r").read_text() == "result\n"
    assert not (target / "m").exists()


def test_fresh_sandbox_has_no_changes(box: Sandbox) -> None:
    assert len(box.changes()) == 0


def test_fork_tells_what_it_changed_itself(box: Sandbox) -> None:
    box.commands.run("echo 1 > of-parent; echo 1 > both")
    with box.fork() as child:
        assert len(child.changes()) == 0
        child.commands.run("echo 2 > of-child; echo 2 > both; rm of-parent")
        changes = child.changes()
        assert changes.added == ["/home/user/of-child"]
        assert changes.modified == ["/home/user/both"]
        assert changes.deleted == ["/home/user/of-parent"]


def test_restored_sandbox_tells_what_it_changed_since(box: Sandbox, make_box: MakeBox) -> None:
    box.files.write("saved", "1")
    restored = make_box(snapshot=box.snapshot())
    assert len(restored.changes()) == 0
    restored.files.write("added", "2")
    restored.files.remove("saved")
    assert restored.changes().added == ["/home/user/added"]
    assert restored.changes().deleted == ["/home/user/saved"]


def test_two_overlays_are_told_apart(make_box: MakeBox, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    mounts = [
        {"source": str(tmp_path / name), "target": f"/project/{name}", "mode": "overlay"}
        for name in ("a", "b")
    ]
    box = make_box(mounts=mounts)
    box.commands.run("echo a > /project/a/f; echo b > /project/b/f")
    assert sorted(box.changes().added) == ["/project/a/f", "/project/b/f"]
    box.changes().apply(["/project/b/f"])
    assert not (tmp_path / "a" / "f").exists()
    assert (tmp_path / "b" / "f").read_text() == "b\n"


def test_odd_names_are_told_and_applied(worker: Sandbox, project: Path) -> None:
    names = ["with space", "new\nline", "ünï", "caf\udce9"]
    for name in names:
        worker.files.write(f"/project/{name}", name.encode("utf-8", "surrogateescape"))
    changes = worker.changes()
    assert {f"/project/{name}" for name in names} <= set(changes.added)
    changes.apply([f"/project/{name}" for name in names])
    for name in names:
        assert (project / name).read_bytes() == name.encode("utf-8", "surrogateescape")
