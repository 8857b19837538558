"""Layers, of both kinds by one set of tests: plain directories anywhere, btrfs where a real keeper
gives its pool.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from paddock.fence.container.keeper_link import KeeperLink
from paddock.fence.uids import LAYER_OWNER
from paddock.objects.file_bytes import sync_file_system
from paddock.state.home import Home
from paddock.state.layers.layers import PARTS, BtrfsLayers, Layers, PlainLayers, volume_layer
from paddock.state.privilege import is_privileged

QUOTA = 64 << 20
MIB = 1 << 20
Describe = Callable[..., dict[bytes, tuple[Any, ...]]]


class _Keeper:
    """A real keeper beside this process, for as long as the module's tests take."""

    def __init__(self, home: Home) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.link: KeeperLink = self._call(KeeperLink.start(home))

    def close(self) -> None:
        async def hang_up() -> None:
            self.link.close()

        self._call(hang_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(30)


@pytest.fixture(scope="module")
def keepers_layers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layers | str]:
    """What a keeper offers on this host; a text when it is not btrfs, with the reason."""
    if not is_privileged():
        yield "only root can mount a pool with quotas"
        return
    home = Home(tmp_path_factory.mktemp("keeper"))
    home.make()
    keeper = _Keeper(home)
    is_pool = isinstance(keeper.link.layers, BtrfsLayers)
    yield keeper.link.layers if is_pool else keeper.link.why_plain
    keeper.close()


@pytest.fixture(params=["plain", "btrfs"])
def layers(request: pytest.FixtureRequest, tmp_path: Path) -> Layers:
    if request.param == "plain":
        return PlainLayers(tmp_path / "layers")
    found: Layers | str = request.getfixturevalue("keepers_layers")
    if isinstance(found, str):
        pytest.skip(f"no btrfs pool here: {found}")
    return found


@pytest.fixture
def name(layers: Layers) -> Iterator[str]:
    """The name of a fresh layer; it and its forks go afterwards."""
    own = f"box-{secrets.token_hex(4)}"
    layers.create(own, QUOTA, LAYER_OWNER)
    yield own
    for found in layers.names():
        if found.startswith(own):
            layers.destroy(found)


def fill(path: Path) -> None:
    (path / "home" / "a" / "closed").mkdir(parents=True)
    (path / "home" / "a" / "f").write_text("content")
    (path / "home" / "a" / "g").hardlink_to(path / "home" / "a" / "f")
    (path / "home" / "a" / "closed" / "h").write_text("hidden")
    (path / "home" / "link").symlink_to("a/f")
    (path / "overlays" / "0" / "upper").mkdir(parents=True)
    os.mknod(path / "overlays/0/upper/gone", stat.S_IFCHR, 0)
    (path / "home" / "a" / "closed").chmod(0o500)


def write(path: Path, size: int) -> int:
    """The error number that writing so many random bytes ends with; 0 for none."""
    try:
        with open(path, "wb") as file:
            for _ in range(size // MIB):
                file.write(os.urandom(MIB))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno or -1
    return 0


def commit(path: Path) -> None:
    """btrfs counts what has been committed."""
    fd = os.open(path, os.O_RDONLY)
    try:
        sync_file_system(fd)
    finally:
        os.close(fd)


# ---- both kinds ----------------------------------------------------------------------------------


def test_new_layer_has_its_parts_and_they_are_the_sandboxs_own(layers: Layers, name: str) -> None:
    path = layers.path(name)
    assert sorted(os.listdir(path)) == sorted(PARTS)
    owner = LAYER_OWNER[0] if is_privileged() else os.geteuid()
    for part in (path, *(path / p for p in PARTS)):
        assert part.stat().st_uid == owner
        assert stat.S_IMODE(part.stat().st_mode) == 0o755
    assert name in layers.names()


def test_layer_of_a_name_is_made_once(layers: Layers, name: str) -> None:
    with pytest.raises(FileExistsError):
        layers.create(name, QUOTA, LAYER_OWNER)


def test_fork_has_the_files_of_that_moment_and_goes_its_own_way(
    layers: Layers, name: str, describe: Describe
) -> None:
    path = layers.path(name)
    fill(path)
    fork = layers.fork(name, f"{name}-fork", QUOTA)
    assert describe(fork) == describe(path)
    (fork / "home/a/f").write_text("fork")
    (path / "home/new").write_text("origin")
    assert (path / "home/a/f").read_text() == "content"
    assert not (fork / "home/new").exists()


def test_fork_keeps_the_owner_of_every_file(layers: Layers, name: str) -> None:
    fill(layers.path(name))
    fork = layers.fork(name, f"{name}-fork", QUOTA)
    for place in ("", "home", "home/a/f", "home/link", "overlays/0/upper/gone"):
        there, here = (os.lstat(base / place) for base in (fork, layers.path(name)))
        assert (there.st_uid, there.st_gid, there.st_mode) == (
            here.st_uid,
            here.st_gid,
            here.st_mode,
        )


def test_fork_of_a_fork_outlives_them_both(layers: Layers, name: str) -> None:
    fill(layers.path(name))
    layers.fork(name, f"{name}-2", QUOTA)
    last = layers.fork(f"{name}-2", f"{name}-3", QUOTA)
    layers.destroy(name)
    layers.destroy(f"{name}-2")
    assert (last / "home/a/f").read_text() == "content"


def test_fork_to_a_name_that_is_taken_is_refused_and_harms_nothing(
    layers: Layers, name: str
) -> None:
    (layers.path(name) / "home/f").write_text("x")
    other = layers.create(f"{name}-other", QUOTA, LAYER_OWNER)
    (other / "home/kept").write_text("x")
    with pytest.raises(OSError, match=r"."):
        layers.fork(name, f"{name}-other", QUOTA)
    assert os.listdir(other / "home") == ["kept"]


def test_fork_of_what_is_not_there_is_refused_and_makes_nothing(layers: Layers, name: str) -> None:
    with pytest.raises((OSError, ValueError)):
        layers.fork(f"{name}-none", f"{name}-fork", QUOTA)
    assert f"{name}-fork" not in layers.names()


def test_destroyed_layer_is_gone_with_its_closed_and_odd_parts(layers: Layers, name: str) -> None:
    path = layers.path(name)
    fill(path)
    (path / "home" / "closed" / "deeper").mkdir(parents=True)
    (path / "home" / "closed" / "deeper").chmod(0)
    (path / "home" / "closed").chmod(0)
    os.mkfifo(path / "tmp" / "pipe")
    layers.destroy(name)
    assert name not in layers.names()
    assert not path.exists()


def test_destroying_what_is_not_there_is_fine(layers: Layers, name: str) -> None:
    layers.destroy(f"{name}-none")
    layers.destroy(name)
    layers.destroy(name)


def test_destroying_follows_no_link(layers: Layers, name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (layers.path(name) / "home" / "link").symlink_to(tmp_path / "outside")
    layers.destroy(name)
    assert os.listdir(tmp_path / "outside") == ["kept"]


def test_used_bytes_follow_what_is_written(layers: Layers, name: str) -> None:
    before = layers.used_bytes(name)
    assert write(layers.path(name) / "home" / "f", 4 * MIB) == 0
    commit(layers.path(name))
    grown = layers.used_bytes(name) - before
    assert 4 * MIB <= grown <= 6 * MIB


def test_tree_deeper_than_any_path_can_be_forked_and_destroyed(layers: Layers, name: str) -> None:
    fd = os.open(layers.path(name) / "home", os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=fd)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    try:
        layers.fork(name, f"{name}-fork", QUOTA)
    finally:
        for one in (name, f"{name}-fork"):
            layers.destroy(one)
    assert not {name, f"{name}-fork"} & set(layers.names())


def test_volume_has_a_layer_name_that_no_sandbox_has() -> None:
    assert volume_layer("v1") == "volume-v1"


# ---- what differs --------------------------------------------------------------------------------


def test_kind_says_what_it_can(layers: Layers) -> None:
    is_btrfs = isinstance(layers, BtrfsLayers)
    assert layers.has_hard_quota == layers.is_copy_on_write == is_btrfs


def test_plain_layers_are_closed_to_other_users(tmp_path: Path) -> None:
    PlainLayers(tmp_path / "a" / "layers")
    assert stat.S_IMODE((tmp_path / "a/layers").stat().st_mode) == 0o700


@pytest.fixture
def btrfs(keepers_layers: Layers | str) -> Layers:
    if isinstance(keepers_layers, str):
        pytest.skip(f"no btrfs pool here: {keepers_layers}")
    return keepers_layers


@pytest.fixture
def quoted(btrfs: Layers) -> Iterator[str]:
    name = f"quota-{secrets.token_hex(4)}"
    btrfs.create(name, 8 * MIB, LAYER_OWNER)
    yield name
    btrfs.destroy(name)


def test_btrfs_quota_is_kept_by_the_kernel_and_can_be_raised(btrfs: Layers, quoted: str) -> None:
    path = btrfs.path(quoted) / "home" / "f"
    assert write(path, 32 * MIB) == errno.EDQUOT
    assert btrfs.used_bytes(quoted) <= 8 * MIB
    path.unlink()
    commit(path.parent)
    btrfs.set_quota(quoted, 64 * MIB)
    assert write(path, 16 * MIB) == 0


def test_btrfs_fork_takes_no_room_of_its_own_and_has_a_quota_of_its_own(
    btrfs: Layers, quoted: str
) -> None:
    btrfs.set_quota(quoted, 64 * MIB)
    path = btrfs.path(quoted)
    assert write(path / "home" / "f", 24 * MIB) == 0
    commit(path)
    room = os.statvfs(path)
    try:
        fork = btrfs.fork(quoted, f"{quoted}-fork", 32 * MIB)
        commit(path)
        taken = (room.f_bfree - os.statvfs(path).f_bfree) * room.f_frsize
        assert taken < 8 * MIB
        # The quota is on all that it refers to, shared or not.
        assert write(fork / "home" / "g", 32 * MIB) == errno.EDQUOT
    finally:
        btrfs.destroy(f"{quoted}-fork")
