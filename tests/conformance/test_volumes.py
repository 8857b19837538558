"""Volumes: they outlive sandboxes and processes, have a quota, and are not deleted under anyone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from conformance.conftest import MakeBox
from conformance.waiting import eventually
from paddock import (
    CommandExitException,
    Conflict,
    FileError,
    InvalidInput,
    NotFound,
    Sandbox,
    SandboxError,
    Volume,
)

MakeVolume = Callable[..., Volume]
MIB = 1 << 20


def _mount(volume: Volume, mode: str = "write") -> list[dict[str, str]]:
    return [{"volume": volume.name, "target": "/data", "mode": mode}]


def test_volume_outlives_the_sandboxes_that_mount_it(
    make_volume: MakeVolume, make_box: MakeBox
) -> None:
    volume = make_volume()
    with Sandbox.create(mounts=_mount(volume)) as first:
        first.files.write("/data/kept", "x")
    assert make_box(mounts=_mount(volume)).files.read("/data/kept") == "x"


def test_two_sandboxes_see_each_others_writes_at_once(
    make_volume: MakeVolume, make_box: MakeBox
) -> None:
    volume = make_volume()
    first, second = make_box(mounts=_mount(volume)), make_box(mounts=_mount(volume))
    first.commands.run("echo from-first > /data/f")
    assert second.commands.run("cat /data/f; echo from-second > /data/f").stdout == "from-first\n"
    assert first.files.read("/data/f") == "from-second\n"


def test_volume_mounted_for_reading_cannot_be_written(
    make_volume: MakeVolume, make_box: MakeBox
) -> None:
    volume = make_volume()
    make_box(mounts=_mount(volume)).files.write("/data/f", "x")
    reader = make_box(mounts=_mount(volume, "read"))
    assert reader.files.read("/data/f") == "x"
    with pytest.raises(FileError) as caught:
        reader.files.write("/data/f", "y")
    assert caught.value.code == "EROFS"
    with pytest.raises(CommandExitException):
        reader.commands.run("touch /data/new")


def test_volume_outlives_the_process_that_made_it(
    make_volume: MakeVolume, make_box: MakeBox
) -> None:
    volume = make_volume()
    program = (
        "import sys\nfrom paddock import Sandbox\n"
        "with Sandbox.create(mounts=[{'volume': sys.argv[1], 'target': '/data'}]) as box:\n"
        "    box.files.write('/data/from-another-process', 'x')\n"
    )
    subprocess.run([sys.executable, "-c", program, volume.name], check=True, timeout=60)
    box = make_box(mounts=_mount(volume))
    assert box.files.read("/data/from-another-process") == "x"


def test_quota_holds_whoever_writes(make_volume: MakeVolume, make_box: MakeBox) -> None:
    volume = make_volume(quota="16MiB")
    box = make_box(mounts=_mount(volume))
    with pytest.raises(CommandExitException) as caught:
        box.commands.run(
            "for i in $(seq 20); do head -c 4000000 /dev/urandom > /data/f$i || exit 1; sync;"
            " sleep 0.1; done",
            timeout=60,
        )
    assert caught.value.killed_by == "disk"
    eventually(lambda: volume.used_bytes() < 40 * MIB)


def test_full_volume_leaves_the_sandbox_usable_and_can_be_emptied(
    make_volume: MakeVolume, make_box: MakeBox
) -> None:
    volume = make_volume(quota="8MiB")
    box = make_box(mounts=_mount(volume))
    with pytest.raises(CommandExitException):
        box.commands.run("head -c 30000000 /dev/urandom > /data/big && sync && sleep 2 && exit 0")
    assert box.commands.run("echo alive > ~/f; cat ~/f").stdout == "alive\n"
    box.files.remove("/data/big")
    box.files.write("/data/small", "x" * 1000)
    assert box.files.read("/data/small") == "x" * 1000


def test_quota_of_one_volume_is_not_that_of_another(
    make_volume: MakeVolume, make_box: MakeBox
) -> None:
    small, large = make_volume(quota="4MiB"), make_volume(quota="64MiB")
    mounts = [
        {"volume": small.name, "target": "/small"},
        {"volume": large.name, "target": "/large"},
    ]
    box = make_box(mounts=mounts)
    box.commands.run("head -c 20000000 /dev/urandom > /large/f; sync; sleep 0.6")
    assert box.files.get_info("/large/f").size == 20_000_000


def test_used_bytes_follows_the_content(make_volume: MakeVolume, make_box: MakeBox) -> None:
    volume = make_volume()
    assert volume.used_bytes() < MIB
    make_box(mounts=_mount(volume)).commands.run("head -c 9000000 /dev/urandom > /data/f; sync")
    eventually(lambda: 9_000_000 <= volume.used_bytes() < 12_000_000)


def test_volume_can_be_found_and_listed(make_volume: MakeVolume) -> None:
    volume = make_volume(quota="10MB")
    assert Volume.get(volume.name) == volume
    assert volume in Volume.list()
    assert volume.quota_bytes == 10_000_000


def test_delete_removes_it_with_its_content(make_volume: MakeVolume, make_box: MakeBox) -> None:
    volume = make_volume()
    with Sandbox.create(mounts=_mount(volume)) as box:
        box.files.write("/data/f", "x")
    volume.delete()
    assert volume not in Volume.list()
    with pytest.raises(NotFound, match=volume.name):
        Volume.get(volume.name)
    with pytest.raises(NotFound):
        volume.delete()
    again = Volume.create(volume.name)
    assert make_box(mounts=_mount(again)).files.list("/data") == []


def test_delete_is_refused_while_a_sandbox_mounts_it(make_volume: MakeVolume) -> None:
    volume = make_volume()
    with Sandbox.create(mounts=_mount(volume)) as box:
        box.files.write("/data/f", "x")
        with pytest.raises(Conflict, match=box.sandbox_id):
            volume.delete()
        assert box.files.read("/data/f") == "x"
    volume.delete()


def test_delete_is_refused_while_another_process_mounts_it(make_volume: MakeVolume) -> None:
    volume = make_volume()
    program = (
        "import sys\nfrom paddock import Sandbox\n"
        "with Sandbox.create(mounts=[{'volume': sys.argv[1], 'target': '/data'}]) as box:\n"
        "    print(box.sandbox_id, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, volume.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        sandbox_id = other.stdout.readline().strip()
        with pytest.raises(Conflict, match=sandbox_id):
            volume.delete()
        other.communicate(timeout=30)
    volume.delete()


def test_fork_mounts_the_same_volume(make_volume: MakeVolume, make_box: MakeBox) -> None:
    volume = make_volume()
    box = make_box(mounts=_mount(volume))
    with box.fork() as child:
        child.files.write("/data/shared", "x")
        assert box.files.read("/data/shared") == "x"
        with pytest.raises(Conflict):
            volume.delete()


def test_name_that_is_taken_is_a_conflict(make_volume: MakeVolume) -> None:
    volume = make_volume()
    with pytest.raises(Conflict, match=volume.name):
        Volume.create(volume.name)


def test_unknown_volume_is_an_error_that_names_it(make_box: MakeBox) -> None:
    with pytest.raises((NotFound, InvalidInput), match="no-such-volume"):
        make_box(mounts=[{"volume": "no-such-volume", "target": "/data"}])


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", 7, "x" * 200])
def test_name_that_is_none_is_invalid(name: object) -> None:
    with pytest.raises(InvalidInput, match="volume"):
        Volume.create(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("quota", [0, -1, "many", "5 parsecs", None])
def test_quota_that_is_none_is_invalid(quota: object) -> None:
    with pytest.raises(InvalidInput, match="quota"):
        Volume.create("never-made", quota)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        Volume.get("never-made")


def test_snapshot_leaves_volumes_out(make_volume: MakeVolume, make_box: MakeBox) -> None:
    volume = make_volume()
    box = make_box(mounts=_mount(volume))
    box.files.write("/data/f", "then")
    snapshot = box.snapshot()
    box.files.write("/data/f", "now")
    try:
        restored = make_box(mounts=_mount(volume), snapshot=snapshot)
    except SandboxError as error:
        pytest.fail(f"a snapshot of a sandbox with a volume must restore: {error}")
    assert restored.files.read("/data/f") == "now"
