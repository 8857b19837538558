"""Snapshots: the same files again, stored once, refused when they were tampered with."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from conformance.conftest import MakeBox
from conformance.inside import tree
from paddock import Conflict, IntegrityError, InvalidInput, NotFound, Sandbox
from repetition import times

pytestmark = pytest.mark.usefixtures("private_home")
MIB = 1 << 20
FILL = (
    "mkdir -p d/empty; for i in $(seq 50); do head -c 20000 /dev/urandom > d/f$i; done;"
    " ln -s f1 d/link; ln d/f1 d/hard; chmod 700 d/f2; truncate -s 30M d/holes; mkfifo d/pipe;"
    " touch -d 2020-01-01 d/f3; printf x > \"d/odd name\n\"; printf y > $(printf 'd/\\351')"
)


def _stored_bytes(home: Path) -> int:
    total = 0
    for base, _, files in os.walk(home / "snapshots"):
        total += sum(os.lstat(os.path.join(base, name)).st_size for name in files)
    return total


def test_restored_sandbox_has_an_identical_tree(make_box: MakeBox) -> None:
    box = make_box()
    box.commands.run(FILL)
    box.commands.run("echo t > /tmp/t")
    restored = make_box(snapshot=box.snapshot())
    assert tree(restored) == tree(box)
    assert restored.files.read("/tmp/t") == "t\n"
    assert restored.commands.run("stat -c %h d/f1").stdout == "2\n"


def test_snapshot_is_of_its_moment_and_can_be_used_often(make_box: MakeBox) -> None:
    box = make_box()
    box.files.write("f", "then")
    snapshot = box.snapshot()
    box.files.write("f", "now")
    first, second = make_box(snapshot=snapshot), make_box(snapshot=snapshot)
    first.files.write("f", "first")
    assert second.files.read("f") == "then"
    assert make_box(snapshot=snapshot).files.read("f") == "then"


def test_snapshot_outlives_its_sandbox(make_box: MakeBox) -> None:
    with Sandbox.create() as box:
        box.files.write("f", "kept")
        snapshot = box.snapshot()
    assert make_box(snapshot=snapshot).files.read("f") == "kept"


def test_same_files_have_the_same_snapshot(make_box: MakeBox) -> None:
    box = make_box()
    box.commands.run(FILL)
    assert box.snapshot() == box.snapshot()


def test_second_snapshot_adds_only_what_is_new(make_box: MakeBox, private_home: Path) -> None:
    box = make_box()
    box.commands.run("for i in $(seq 40); do head -c 200000 /dev/urandom > f$i; done")
    before = _stored_bytes(private_home)
    box.snapshot()
    first = _stored_bytes(private_home) - before
    box.commands.run("head -c 200000 /dev/urandom > extra; cp f1 copy-of-f1")
    box.snapshot()
    second = _stored_bytes(private_home) - before - first
    assert first > 7_900_000
    assert second < 400_000


def test_holes_take_no_room(make_box: MakeBox, private_home: Path) -> None:
    box = make_box()
    box.commands.run("truncate -s 500M holes")
    before = _stored_bytes(private_home)
    box.snapshot()
    assert _stored_bytes(private_home) - before < MIB


def _tamper(home: Path, content: bytes) -> None:
    """Changes one byte of whichever stored file has the content."""
    found = 0
    for base, _, files in os.walk(home / "snapshots"):
        for name in files:
            path = Path(base, name)
            data = path.read_bytes()
            if content in data:
                path.chmod(0o600)
                at = data.index(content)
                path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
                found += 1
    assert found == 1


def test_tampered_blob_is_refused(make_box: MakeBox, private_home: Path) -> None:
    box = make_box()
    content = os.urandom(100_000)
    box.files.write("victim", content)
    snapshot = box.snapshot()
    _tamper(private_home, content)
    with pytest.raises(IntegrityError, match="victim"):
        make_box(snapshot=snapshot)


def test_tampered_manifest_is_refused(make_box: MakeBox, private_home: Path) -> None:
    box = make_box()
    box.files.write("tamper-with-this-name", "x")
    snapshot = box.snapshot()
    _tamper(private_home, b"tamper-with-this-name")
    with pytest.raises(IntegrityError):
        make_box(snapshot=snapshot)


def test_missing_blob_is_refused(make_box: MakeBox, private_home: Path) -> None:
    box = make_box()
    content = os.urandom(100_000)
    box.files.write("lost", content)
    snapshot = box.snapshot()
    for path in (private_home / "snapshots").rglob("*"):
        if path.is_file() and path.read_bytes() == content:
            path.unlink()
    with pytest.raises(IntegrityError):
        make_box(snapshot=snapshot)


def test_failed_restore_leaves_nothing_and_the_next_one_works(
    make_box: MakeBox, private_home: Path
) -> None:
    box = make_box()
    content = os.urandom(100_000)
    box.files.write("broken", content)
    broken = box.snapshot()
    box.files.remove("broken")
    whole = box.snapshot()
    _tamper(private_home, content)
    before = sorted(os.listdir(private_home / "sandboxes"))
    with pytest.raises(IntegrityError):
        make_box(snapshot=broken)
    assert sorted(os.listdir(private_home / "sandboxes")) == before
    assert make_box(snapshot=whole).files.list(".") == []


def test_snapshot_restores_into_a_fresh_identity(make_box: MakeBox) -> None:
    box = make_box()
    restored = make_box(snapshot=box.snapshot())
    assert restored.commands.run("hostname").stdout != box.commands.run("hostname").stdout


def test_restored_sandbox_can_be_forked_and_saved_again(make_box: MakeBox) -> None:
    box = make_box()
    box.commands.run(FILL)
    snapshot = box.snapshot()
    restored = make_box(snapshot=snapshot)
    with restored.fork() as child:
        assert tree(child) == tree(box)
    assert restored.snapshot() == snapshot


def test_snapshot_keeps_what_an_overlay_changed(make_box: MakeBox, shared_directory: Path) -> None:
    (shared_directory / "gone").write_text("x")
    (shared_directory / "old").mkdir()
    (shared_directory / "old" / "inner").write_text("x")
    mounts = [{"source": str(shared_directory), "target": "/project", "mode": "overlay"}]
    box = make_box(mounts=mounts)
    box.commands.run(
        "rm /project/gone; rm -r /project/old; mkdir /project/old; echo n > /project/new"
    )
    restored = make_box(mounts=mounts, snapshot=box.snapshot())
    assert (
        restored.commands.run("ls -A /project /project/old").stdout
        == "/project:\nnew\nold\n\n/project/old:\n"
    )


@pytest.mark.parametrize("name", ["snap-" + "0" * 32, "nothing"])
def test_unknown_snapshot_is_not_found(make_box: MakeBox, name: str) -> None:
    with pytest.raises(NotFound, match=name):
        make_box(snapshot=name)


@pytest.mark.parametrize("name", ["../escape", "", "a/b", 7])
def test_name_that_is_none_is_invalid(make_box: MakeBox, name: object) -> None:
    with pytest.raises(InvalidInput, match="snapshot"):
        make_box(snapshot=name)


@pytest.mark.repeated
@for_each("freeze", [Sandbox.snapshot, Sandbox.changes, Sandbox.metrics])
def test_calls_wait_while_the_sandbox_stands_still(box: Sandbox, freeze: Any) -> None:
    """Three threads call at once; none of them paused it, so none is told that it is paused."""
    rounds = times(12, 100)
    works = [
        lambda: freeze(box),
        lambda: box.commands.run(["true"]),
        lambda: box.files.read(box.files.write("f", "x" * 100_000).path),
    ]
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(lambda w=w: [w() for _ in range(rounds)]) for w in works]:
            done.result()
    assert box.get_info().state == "running"


def test_paused_sandbox_refuses_calls_also_while_it_is_saved(box: Sandbox) -> None:
    box.pause()
    box.snapshot()
    with pytest.raises(Conflict, match="paused"):
        box.commands.run("true")
    box.resume()
    assert box.commands.run("echo on").stdout == "on\n"
