"""Moving a mount: a link planted where the next sandbox's mount will go, or where it comes from.

Forks, snapshots, volumes and write mounts keep what an agent made. Its links must not decide where
Paddock mounts, nor what.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock import Sandbox, Volume
from paddock.model.errors import PaddockError
from security.attack import probe, shell
from security.conftest import MakeBox

# Pid 1 of a sandbox whose guest was replaced by this would run it before any filter is on.
EVIL_GUEST = """
def serve(channel, boot):
    with open("/.paddock/guest/owned", "w") as file:
        file.write(open("/proc/self/status").read())
"""


@pytest.fixture
def victim() -> Iterator[Path]:
    """A directory of the host that everybody may enter and write, far from all that is mounted."""
    directory = Path(tempfile.mkdtemp(prefix="pdk-victim-"))
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


def fork_or_refusal(box: Sandbox) -> Sandbox | None:
    try:
        return box.fork()
    except PaddockError:
        return None


@pytest.mark.parametrize("root", ["/oldroot", "", "/proc/1/root"])
def test_link_in_a_forked_home_makes_nothing_on_the_host(
    make_box: MakeBox, source: Path, victim: Path, root: str
) -> None:
    """bubblewrap makes missing mount points; a link on the way would let it make them anywhere."""
    box = make_box(mounts=[{"source": str(source), "target": "/home/user/a/b", "mode": "read"}])
    box.commands.run(f"mv a away && ln -s {root}{victim} a")
    child = fork_or_refusal(box)
    if child is not None:
        child.kill()
    assert list(victim.iterdir()) == []


def test_link_in_a_forked_home_does_not_move_a_mount_over_the_guest(
    make_box: MakeBox, source: Path
) -> None:
    (source / "main.py").write_text(EVIL_GUEST)
    box = make_box(mounts=[{"source": str(source), "target": "/home/user/a/b", "mode": "write"}])
    box.commands.run("mv a away && mkdir a && ln -s /newroot/.paddock/guest a/b")
    child = fork_or_refusal(box)
    if child is not None:
        child.kill()
    owned = source / "owned"
    assert not owned.exists(), owned.read_text()


def test_link_in_a_forked_home_does_not_move_a_mount_over_the_system(
    make_box: MakeBox, source: Path
) -> None:
    (source / "passwd").write_text("evil:x:1000:1000::/:/bin/sh\n")
    box = make_box(mounts=[{"source": str(source), "target": "/home/user/a/b", "mode": "read"}])
    box.commands.run("mv a away && mkdir a && ln -s /newroot/etc a/b")
    child = fork_or_refusal(box)
    if child is None:
        return
    try:
        assert "evil" not in child.files.read("/etc/passwd")
    finally:
        child.kill()


def test_link_in_tmp_does_not_move_a_mount_of_a_fork(
    make_box: MakeBox, source: Path, victim: Path
) -> None:
    box = make_box(mounts=[{"source": str(source), "target": "/tmp/a/b", "mode": "read"}])
    box.commands.run(f"mv /tmp/a /tmp/away && ln -s /oldroot{victim} /tmp/a")
    child = fork_or_refusal(box)
    if child is not None:
        child.kill()
    assert list(victim.iterdir()) == []


def test_link_in_a_snapshot_does_not_move_a_mount(
    make_box: MakeBox, source: Path, victim: Path
) -> None:
    box = make_box()
    box.commands.run(f"ln -s /oldroot{victim} a")
    snapshot = box.snapshot()
    mount = {"source": str(source), "target": "/home/user/a/b", "mode": "read"}
    with contextlib.suppress(PaddockError):
        make_box(snapshot=snapshot, mounts=[mount])
    assert list(victim.iterdir()) == []


def test_link_in_a_volume_does_not_move_a_mount_below_it(
    make_volume: Callable[..., Volume], make_box: MakeBox, source: Path, victim: Path
) -> None:
    volume = make_volume()
    shared = {"volume": volume.name, "target": "/data"}
    with Sandbox.create(mounts=[shared]) as first:
        first.commands.run(f"ln -s /oldroot{victim} /data/a")
    mount = {"source": str(source), "target": "/data/a/b", "mode": "read"}
    with contextlib.suppress(PaddockError):
        make_box(mounts=[shared, mount])
    assert list(victim.iterdir()) == []


def test_link_in_a_mounted_directory_does_not_move_a_mount_below_it(
    make_box: MakeBox, source: Path, tmp_path: Path, victim: Path
) -> None:
    """No second run is needed: a cloned repository may bring the link along."""
    (source / "a").symlink_to(f"/oldroot{victim}")
    other = tmp_path / "other"
    other.mkdir()
    outer = {"source": str(source), "target": "/w", "mode": "write"}
    inner = {"source": str(other), "target": "/w/a/b", "mode": "read"}
    with contextlib.suppress(PaddockError):
        make_box(mounts=[outer, inner])
    assert list(victim.iterdir()) == []


@pytest.fixture
def swapped(make_box: MakeBox, source: Path, secret_file: Path) -> Sandbox:
    """An agent that may write a directory has put a link in the place of another mount's source."""
    (source / "inner").mkdir()
    box = make_box(
        mounts=[
            {"source": str(source), "target": "/w", "mode": "write"},
            {"source": str(source / "inner"), "target": "/o", "mode": "overlay"},
        ]
    )
    box.commands.run(
        f"echo evil > /o/planted; mv /w/inner /w/away && ln -s {secret_file.parent} /w/inner"
    )
    return box


def test_fork_mounts_the_same_source_as_its_parent(swapped: Sandbox, secret: str) -> None:
    child = fork_or_refusal(swapped)
    if child is None:
        return
    try:
        assert secret not in shell(child, "cat /o/key").stdout
        assert probe(child, "found['names'] = os.listdir('/o')")["names"] == ["planted"]
    finally:
        child.kill()


def test_changes_are_compared_with_the_source_that_was_mounted(
    swapped: Sandbox, secret_file: Path
) -> None:
    try:
        listed = [change.path for change in swapped.changes()]
    except PaddockError:
        return
    assert listed == ["/o/planted"]
    assert secret_file.exists()


def test_changes_are_applied_to_the_source_that_was_mounted(
    swapped: Sandbox, secret_file: Path
) -> None:
    with contextlib.suppress(PaddockError):
        swapped.changes().apply()
    assert [path.name for path in secret_file.parent.iterdir()] == ["key"]
