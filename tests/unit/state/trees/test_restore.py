"""A restore makes directories exactly what was recorded, and touches and follows nothing else."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.model.errors import Conflict, HostCannot, IntegrityError
from paddock.state.trees import recorder as recording
from paddock.state.trees import restore as restoring
from paddock.state.trees.recorder import Recorder
from paddock.state.trees.store import TreeStore

Describe = Callable[..., dict[bytes, tuple[Any, ...]]]


@pytest.fixture
def store(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    (place / "src" / "deep").mkdir(parents=True)
    (place / "a.txt").write_text("a")
    (place / "src" / "b.py").write_text("b")
    (place / "src" / "deep" / "c").write_text("c")
    (place / "src" / "link").symlink_to("b.py")
    os.mkfifo(place / "pipe", 0o640)
    os.mknod(place / "white", stat.S_IFCHR, os.makedev(0, 0))
    (place / "hidden").mkdir()
    os.setxattr(place / "hidden", "user.overlay.opaque", b"y")
    return place


def test_everything_that_was_done_is_undone(
    store: TreeStore, home: Path, describe: Describe
) -> None:
    recorder = store.recorder({"home": home})
    first, before = recorder.record(), describe(home)
    (home / "a.txt").write_text("other")
    (home / "src" / "b.py").chmod(0o700)
    shutil.rmtree(home / "src" / "deep")
    (home / "src" / "deep").write_text("a file")
    (home / "src" / "link").unlink()
    (home / "src" / "link").mkdir()
    (home / "pipe").unlink()
    (home / "white").unlink()
    (home / "white").write_text("shows")
    os.removexattr(home / "hidden", "user.overlay.opaque")
    (home / "extra" / "dir").mkdir(parents=True)
    (home / "extra" / "dir" / "file").write_text("x")
    home.chmod(0o700)
    done = store.restore(first.tree, {"home": home}, recorder=recorder)
    assert describe(home) == before
    assert recorder.record().tree == first.tree
    assert set(done.written) == {"home/a.txt", "home/src/b.py"}
    assert set(done.removed) == {"home/extra"}
    assert {"home/src/deep", "home/src/deep/c", "home/src/link", "home/pipe", "home/white"} == set(
        done.made
    )
    assert {"home", "home/hidden"} <= set(done.sealed)


def test_equal_files_are_not_touched(store: TreeStore, home: Path) -> None:
    tree = store.recorder({"home": home}).record().tree
    before = {path: os.lstat(path) for path in home.rglob("*")}
    assert store.restore(tree, {"home": home}).changed == ()
    assert {path: os.lstat(path).st_ctime_ns for path in home.rglob("*")} == {
        path: one.st_ctime_ns for path, one in before.items()
    }


def test_file_is_written_in_place_and_its_neighbours_are_not_touched(
    store: TreeStore, home: Path
) -> None:
    tree = store.recorder({"home": home}).record().tree
    inode = os.stat(home / "a.txt").st_ino
    neighbour = os.stat(home / "src" / "b.py").st_ctime_ns
    (home / "a.txt").write_text("much longer than it was")
    with open(home / "a.txt") as reader:
        store.restore(tree, {"home": home})
        assert reader.read() == "a"
    assert os.stat(home / "a.txt").st_ino == inode
    assert os.stat(home / "src" / "b.py").st_ctime_ns == neighbour


def test_hard_link_to_another_file_is_not_written_through(
    store: TreeStore, home: Path, tmp_path: Path
) -> None:
    tree = store.recorder({"home": home}).record().tree
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (home / "a.txt").unlink()
    os.link(victim, home / "a.txt")
    store.restore(tree, {"home": home})
    assert victim.read_text() == "precious"
    assert (home / "a.txt").read_text() == "a"


def test_links_in_the_place_of_files_and_directories_are_not_followed(
    store: TreeStore, home: Path, tmp_path: Path, describe: Describe
) -> None:
    tree, before = store.recorder({"home": home}).record().tree, describe(home)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("precious")
    (home / "a.txt").unlink()
    (home / "a.txt").symlink_to(outside / "b.py")
    shutil.rmtree(home / "src")
    (home / "src").symlink_to(outside)
    store.restore(tree, {"home": home})
    assert (outside / "b.py").read_text() == "precious"
    assert os.listdir(outside) == ["b.py"]
    assert describe(home) == before


def test_socket_in_the_place_of_a_file_gives_way_and_another_stays(
    store: TreeStore, home: Path
) -> None:
    tree = store.recorder({"home": home}).record().tree
    (home / "a.txt").unlink()
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(home / "a.txt"))
        other.bind(str(home / "live.sock"))
        store.restore(tree, {"home": home})
    assert (home / "a.txt").read_text() == "a"
    assert stat.S_ISSOCK(os.lstat(home / "live.sock").st_mode)


def test_running_program_is_replaced_not_written(store: TreeStore, home: Path) -> None:
    shutil.copy("/bin/sleep", home / "program")
    tree = store.recorder({"home": home}).record().tree
    other = bytearray(Path("/bin/sleep").read_bytes() + b"x")
    (home / "program").write_bytes(other)
    with subprocess.Popen([home / "program", "60"]) as process:
        try:
            store.restore(tree, {"home": home})
        finally:
            process.kill()
    assert (home / "program").read_bytes() == Path("/bin/sleep").read_bytes()


def test_what_is_to_be_kept_is_not_removed(store: TreeStore, home: Path) -> None:
    tree = store.recorder({"home": home}).record().tree
    (home / "mnt" / "point").mkdir(parents=True)
    (home / "mnt" / "other").mkdir()
    store.restore(tree, {"home": home}, keep=frozenset({"home/mnt/point", "elsewhere"}))
    assert (home / "mnt" / "point").is_dir()


def test_bytes_that_were_not_stored_are_named_before_anything_is_changed(
    store: TreeStore, home: Path, describe: Describe
) -> None:
    (home / "large").write_bytes(b"x" * (2 << 20))
    tree = store.recorder({"home": home}, may_store=lambda size: size < 1 << 20).record().tree
    assert store.restore(tree, {"home": home}).changed == ()
    (home / "large").unlink()
    (home / "a.txt").unlink()
    before = describe(home)
    with pytest.raises(HostCannot, match="home/large"):
        store.restore(tree, {"home": home})
    assert describe(home) == before


def test_large_file_that_an_older_version_knew_by_its_digest_is_recognised(
    store: TreeStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "SPLIT_ABOVE", 1 << 20)
    (home / "large").write_bytes(b"x" * (2 << 20))
    tree = store.recorder({"home": home}, may_store=lambda size: size < 1 << 20).record().tree
    monkeypatch.setattr(recording, "SPLIT_ABOVE", 1 << 20)
    (home / "a.txt").write_text("other")
    assert store.restore(tree, {"home": home}).changed == ("home/a.txt",)
    (home / "large").write_bytes(b"y" * (2 << 20))
    with pytest.raises(HostCannot, match="home/large was not stored"):
        store.restore(tree, {"home": home})


def test_state_that_is_not_whole_is_refused(
    store: TreeStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_ENTRIES", 3)
    cut = store.recorder({"home": home}).record()
    monkeypatch.setattr(recording, "MAX_ENTRIES", 1000)
    with pytest.raises(HostCannot, match="not whole"):
        store.restore(cut.tree, {"home": home})
    assert (home / "src" / "b.py").exists()


def test_other_roots_are_refused(store: TreeStore, home: Path, tmp_path: Path) -> None:
    tree = store.recorder({"home": home}).record().tree
    (tmp_path / "empty").mkdir()
    with pytest.raises(HostCannot, match="other roots"):
        store.restore(tree, {"home": home, "overlays/0": tmp_path / "empty"})


def test_damaged_bytes_end_the_restore(store: TreeStore, home: Path) -> None:
    tree = store.recorder({"home": home}).record().tree
    damaged = store.objects.path(store.find(tree, "home", "a.txt").digest)
    Path(damaged).write_bytes(b"0evil")
    (home / "a.txt").unlink()
    with pytest.raises(IntegrityError):
        store.restore(tree, {"home": home})


def test_somebody_who_writes_meanwhile_is_noticed(
    store: TreeStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = store.recorder({"home": home}).record().tree
    (home / "a.txt").unlink()
    real = restoring._RootRestorer.run

    def and_somebody(self: Any, deeds: Any) -> None:
        real(self, deeds)
        (home / "src" / "b.py").write_text("meanwhile")

    monkeypatch.setattr(restoring._RootRestorer, "run", and_somebody)
    with pytest.raises(Conflict, match=r"b\.py"):
        store.restore(tree, {"home": home})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_new_files_get_the_owner(store: TreeStore, home: Path) -> None:
    tree = store.recorder({"home": home}).record().tree
    (home / "a.txt").unlink()
    shutil.rmtree(home / "src")
    (home / "white").unlink()
    store.restore(tree, {"home": home}, owner=(1234, 1235))
    for path in ("a.txt", "src", "src/b.py", "src/link", "src/deep/c", "white"):
        st_ = os.lstat(home / path)
        assert (st_.st_uid, st_.st_gid) == (1234, 1235), path


_AS_USER = """
import os, sys
from pathlib import Path
from paddock.state.trees import recorder
from paddock.state.trees import restore as restoring
from paddock.state.trees.store import TreeStore
# The interpreter may lie where only root can read.
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
base = Path(sys.argv[1])
store, home = TreeStore(base / "s"), base / "home"
(home / "closed" / "in").mkdir(parents=True)
(home / "closed" / "in" / "file").write_text("kept")
(home / "closed" / "in" / "file").chmod(0)
os.mknod(home / "closed" / "white", 0o020000, 0)
(home / "closed" / "in").chmod(0o500)
(home / "closed").chmod(0)
recorder = store.recorder({"home": home})
first = recorder.record()
assert first.is_whole and first.total == 4, first
os.chmod(home / "closed", 0o700); os.chmod(home / "closed/in", 0o700)
(home / "closed" / "in" / "file").unlink()
(home / "closed" / "white").unlink()
(home / "closed" / "in" / "more").mkdir()
(home / "closed" / "in" / "more" / "x").write_text("x")
os.chmod(home / "closed/in/more", 0); os.chmod(home / "closed/in", 0)
store.restore(first.tree, {"home": home}, recorder=recorder)
assert recorder.record().tree == first.tree
assert os.stat(home / "closed").st_mode & 0o777 == 0
os.chmod(home / "closed", 0o700)
assert os.stat(home / "closed/in").st_mode & 0o777 == 0o500
assert os.stat(home / "closed/in/file").st_mode & 0o777 == 0
os.chmod(home / "closed/in", 0o700)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="it becomes another user")
def test_ordinary_user_restores_what_denies_its_owner() -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pdk-", dir="/var/tmp") as base:
        os.chown(base, 65534, 65534)
        os.chmod(base, 0o700)
        source = str(Path(restoring.__file__).parents[3])
        done = subprocess.run(
            [sys.executable, "-c", _AS_USER, base],
            env={"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr


operations = st.lists(
    st.tuples(
        st.sampled_from(["file", "dir", "link", "fifo", "white", "remove", "mode", "opaque"]),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join),
        st.integers(0, 3),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(operations, operations, st.integers(0, 2))
def test_any_state_can_be_had_back_from_any_other(
    tmp_path: Path, describe: Describe, first: Any, then: Any, ways: int
) -> None:
    """There and back, with a recorder that knows the way, one that does not, and none."""
    base = tmp_path / secrets.token_hex(8)
    home = base / "home"
    home.mkdir(parents=True)
    store = TreeStore(tmp_path / "shared")
    recorder = store.recorder({"home": home})
    _perform(home, first)
    one, one_is = recorder.record(), describe(home)
    _perform(home, then)
    two, two_is = recorder.record(), describe(home)
    used = (recorder, store.recorder({"home": home}), None)[ways]
    store.restore(one.tree, {"home": home}, recorder=used)
    assert describe(home) == one_is
    store.restore(two.tree, {"home": home}, recorder=used)
    assert describe(home) == two_is
    assert Recorder(None, {"home": home}).record().tree == two.tree
    changed = {change.path for change in store.diff(one.tree, two.tree)}
    assert (not changed) == (one.tree == two.tree)
    store.verify(one.tree)


def _perform(home: Path, operations: Any) -> None:
    for what, where, number in operations:
        path = home / where
        try:
            if what == "file":
                if path.is_fifo():
                    continue  # nobody would read it
                path.write_text(str(number) * (1 + 5000 * number))
            elif what == "dir":
                path.mkdir(parents=True)
            elif what == "link":
                path.symlink_to(str(number))
            elif what == "fifo":
                if os.path.lexists(path):
                    continue
                os.mkfifo(path)
            elif what == "white":
                os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
            elif what == "remove":
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            elif what == "mode" and not path.is_symlink():
                path.chmod((0o600, 0o644, 0o700, 0o755)[number])
            elif what == "opaque" and path.is_dir() and not path.is_symlink():
                os.setxattr(path, "user.overlay.opaque", b"y")
        except OSError:
            continue


def test_restore_with_a_recorder_reads_only_what_is_other(
    store: TreeStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time.sleep(0.02)
    recorder = store.recorder({"home": home})
    tree = recorder.record().tree
    (home / "a.txt").write_text("other")
    opened: list[str] = []
    real = recording.open_file

    def noted(name: str, dir_fd: int, **more: Any) -> int | None:
        opened.append(name)
        return real(name, dir_fd, **more)

    monkeypatch.setattr(recording, "open_file", noted)
    store.restore(tree, {"home": home}, recorder=recorder)
    assert set(opened) == {"a.txt"}
