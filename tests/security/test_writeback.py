"""`changes().apply()`: the one door through which an agent's files reach the caller's directory."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import background, shell
from security.conftest import MakeBox

SET_ID = stat.S_ISUID | stat.S_ISGID


@pytest.fixture
def overlaid(make_box: MakeBox, source: Path) -> Sandbox:
    (source / "kept").write_text("good")
    (source / "directory").mkdir()
    (source / "directory" / "inner").write_text("good")
    return make_box(mounts=[{"source": str(source), "target": "/w", "mode": "overlay"}])


def results(box: Sandbox) -> dict[str, str]:
    return {applied.path: applied.status for applied in box.changes().apply()}


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside/key", "../../../../etc/passwd",
                                    "directory/../../outside/key", "/proc/self/cwd/x"])  # fmt: skip
def test_link_that_leaves_the_tree_is_refused(
    overlaid: Sandbox, source: Path, secret_file: Path, target: str
) -> None:
    overlaid.commands.run(["ln", "-s", target, "/w/link"])
    assert results(overlaid)["link"] == "refused"
    assert not os.path.lexists(source / "link")


def test_file_behind_an_agents_link_is_not_written(
    overlaid: Sandbox, source: Path, secret_file: Path, secret: str
) -> None:
    """A link to a directory outside, then a file `below` it: the classic archive trick."""
    overlaid.commands.run(f"cd /w; ln -s {secret_file.parent} out; ln -s ../outside rel; true")
    assert results(overlaid) == {"out": "refused", "rel": "refused"}
    assert secret_file.read_text() == secret


def test_two_links_that_are_harmless_alone_do_not_leave_together(
    overlaid: Sandbox, source: Path, secret_file: Path
) -> None:
    overlaid.commands.run("cd /w; ln -s directory a; ln -s a/../../outside b; ln -s b/key c; true")
    results(overlaid)
    for name in ("a", "b", "c"):
        real = os.path.realpath(source / name)
        assert real.startswith(str(source)) or not os.path.lexists(source / name), name


def test_link_in_the_target_is_not_written_through(
    overlaid: Sandbox, source: Path, secret_file: Path, secret: str
) -> None:
    """The caller (or another agent) has a link there by now, where the agent saw a directory."""
    overlaid.commands.run("echo evil > /w/directory/key")
    changes = overlaid.changes()
    (source / "directory" / "inner").unlink()
    (source / "directory").rmdir()
    (source / "directory").symlink_to(secret_file.parent)
    assert {applied.status for applied in changes.apply()} == {"refused"}
    assert secret_file.read_text() == secret
    assert sorted(os.listdir(secret_file.parent)) == ["key"]


def test_file_replaced_by_a_link_in_the_layer_gives_nothing_of_the_host(
    overlaid: Sandbox, source: Path, secret_file: Path, secret: str
) -> None:
    """Between listing and applying the agent swaps its file for a link to the host's secret."""
    overlaid.commands.run("echo harmless > /w/report; mkdir /w/new; echo x > /w/new/key")
    changes = overlaid.changes()
    overlaid.commands.run(
        f"cd /w; rm -r report new; ln -s {secret_file} report; ln -s {secret_file.parent} new"
    )
    applied = {result.path: result.status for result in changes.apply()}
    assert set(applied.values()) == {"refused"}
    for path in source.rglob("*"):
        assert path.is_symlink() or path.is_dir() or secret not in path.read_text()


def test_special_files_are_refused(overlaid: Sandbox, source: Path) -> None:
    shell(
        overlaid,
        "cd /w; mkfifo fifo; rm kept; mkfifo kept;"
        " python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"",
    )
    applied = results(overlaid)
    assert {applied["fifo"], applied["socket"], applied["kept"]} == {"refused"}
    assert (source / "kept").read_text() == "good"
    assert not os.path.lexists(source / "fifo")


def test_set_id_bits_and_attributes_are_not_written_back(overlaid: Sandbox, source: Path) -> None:
    (source / "tool").write_bytes(b"#!/bin/sh\n")
    shell(overlaid, "cp /bin/true /w/new; chmod 0777 /w/new; setfattr -n user.evil -v 1 /w/new")
    results(overlaid)
    for path in source.rglob("*"):
        assert not path.lstat().st_mode & SET_ID
    assert "security.capability" not in os.listxattr(source / "new")


def test_set_id_bit_of_the_source_is_not_copied_with_the_agents_content(
    make_box: MakeBox, source: Path
) -> None:
    """Copy-up keeps the mode of the caller's set-id program; the agent's version must lose it."""
    (source / "program").write_bytes(b"good")
    (source / "program").chmod(0o4755)
    box = make_box(mounts=[{"source": str(source), "target": "/w", "mode": "overlay"}])
    box.commands.run("cp /bin/true /tmp/evil; cat /tmp/evil > /w/program")
    box.changes().apply()
    assert (source / "program").read_bytes() != b"good"
    assert not (source / "program").stat().st_mode & SET_ID


def test_what_is_written_back_belongs_to_the_owner_of_the_source(
    overlaid: Sandbox, source: Path
) -> None:
    overlaid.commands.run("cd /w; mkdir -p d/e; echo x > d/e/f; ln -s e d/g; echo more >> kept")
    assert set(results(overlaid).values()) == {"applied"}
    owner = source.stat()
    for path in source.rglob("*"):
        info = path.lstat()
        assert (info.st_uid, info.st_gid) == (owner.st_uid, owner.st_gid), path


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b]0;x\x07", "-rf", "x" * 255, "\udcff\udcfe", " ", "~"]
)
def test_odd_names_are_written_as_they_are_and_no_further(
    overlaid: Sandbox, source: Path, name: str
) -> None:
    overlaid.files.write(f"/w/{name}", "x")
    assert results(overlaid) == {name: "applied"}
    assert (source / name).read_text() == "x"


def test_path_that_the_caller_did_not_get_from_changes_is_refused(overlaid: Sandbox) -> None:
    overlaid.commands.run("echo x > /w/new")
    for path in ("/w/../etc/passwd", "/etc/passwd", "/w/kept", "", "/w/new/..", "new"):
        with pytest.raises(ValueError, match="not among the changes"):
            overlaid.changes().apply([path])


def test_swapping_directories_during_apply_writes_nothing_outside(
    overlaid: Sandbox, source: Path, secret_file: Path, secret: str
) -> None:
    """A process of the host (or another sandbox's write mount) races on the target's side."""
    overlaid.commands.run("mkdir -p /w/d/e; for i in $(seq 200); do echo evil > /w/d/e/key$i; done")
    outside, stop = secret_file.parent, threading.Event()

    def swap() -> None:
        real, away = source / "d", source / "d-away"
        while not stop.is_set():
            try:
                real.rename(away)
                real.symlink_to(outside)
                real.unlink()
                away.rename(real)
            except OSError:
                continue

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(5):
            overlaid.changes().apply()
    finally:
        stop.set()
        thread.join()
    assert sorted(os.listdir(outside)) == ["key"]
    assert secret_file.read_text() == secret


def test_swapping_links_in_the_layer_during_apply_takes_nothing_of_the_host(
    overlaid: Sandbox, source: Path, secret_file: Path, secret: str
) -> None:
    """The agent goes on while the caller applies: it swaps directories and files for links."""
    overlaid.commands.run(
        "mkdir -p /w/d; printf %9s x > /w/d/key; for i in $(seq 100); do cp /w/d/key /w/d/k$i; done"
    )
    program = """
    os.chdir("/w")
    print("up", flush=True)
    end = time.time() + 20
    while time.time() < end:
        try:
            os.rename("d", "away")
            os.symlink(sys.argv[1], "d")
            os.unlink("d")
            os.rename("away", "d")
            os.rename("d/key", "d/hidden")
            os.symlink(sys.argv[2], "d/key")
            os.unlink("d/key")
            os.rename("d/hidden", "d/key")
        except OSError:
            pass
    """
    handle = background(overlaid, program, str(secret_file.parent), str(secret_file))
    for _ in range(8):
        try:
            overlaid.changes().apply()
        except Exception as refusal:  # a tree that moves may be refused as a whole
            assert "moved" in str(refusal) or "chang" in str(refusal)
    handle.kill()
    for path in source.rglob("*"):
        assert not path.is_symlink(), path
        assert path.is_dir() or secret not in path.read_text()


def test_workspace_written_elsewhere_stays_below_the_given_directory(
    box: Sandbox, tmp_path: Path, secret_file: Path, secret: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    box.commands.run(
        f"echo x > file; ln -s {secret_file.parent} out; ln -s / root; mkdir d; ln -s ../.. d/up"
    )
    applied = {r.path: r.status for r in box.changes().apply(to=target)}
    assert applied["file"] == "applied"
    assert {applied["out"], applied["root"], applied["d/up"]} == {"refused"}
    assert secret_file.read_text() == secret


def test_agent_gives_no_orders_to_tools_through_the_sdk(overlaid: Sandbox, source: Path) -> None:
    """A paddock file, a repository out of nothing, and a Makefile: none is written unasked."""
    overlaid.commands.run(
        "cd /w; echo 'version: 1' > paddock.yaml; mkdir -p directory/.git; echo x > Makefile;"
        " mkdir -p bare/objects bare/refs; echo ref: > bare/HEAD; echo x > bare/config;"
        " touch bare/objects/o bare/refs/r; echo x > directory/.git/config; echo ok > kept"
    )
    done = results(overlaid)
    assert {path for path, status in done.items() if status == "applied"} == {"bare", "kept"}
    assert (source / "kept").read_text() == "ok\n"
    assert os.listdir(source / "bare") == []
    changes = overlaid.changes()
    named = {one.path: one.status for one in changes.apply(["/w/Makefile"])}
    assert named == {"Makefile": "applied"}
