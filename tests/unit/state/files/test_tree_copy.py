"""Copies and counts of trees that an agent filled: nothing is lost, nothing followed, nothing left
open that was closed.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.state.files.tree_copy import COUNTLESS, copy_tree, tree_bytes
from paddock.state.home import remove_tree

Describe = Callable[..., dict[bytes, tuple[Any, ...]]]
LEVELS, LONG_NAME = 60, "d" * 100
names = st.binary(min_size=1, max_size=12).filter(
    lambda b: b"/" not in b and b"\0" not in b and b not in (b".", b"..")
)
trees = st.recursive(
    st.binary(max_size=2000) | st.none(),  # a file's content, or a link
    lambda inner: st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
).filter(lambda tree: isinstance(tree, dict))


def build(path: bytes, tree: Any) -> None:
    os.mkdir(path)
    for name, item in tree.items():
        below = path + b"/" + name
        if isinstance(item, dict):
            build(below, item)
        elif item is None:
            os.symlink(b"../nowhere", below)
        else:
            with open(below, "wb") as file:
                file.write(item)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return path


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Path]:
    """Directories in each other, further than a path can say, with a file at the bottom."""
    top = tmp_path / "chain"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(LEVELS):
        os.mkdir(LONG_NAME, dir_fd=fd)
        below = os.open(LONG_NAME, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    yield top
    for name in os.listdir(tmp_path):
        remove_tree(tmp_path / name)


# ---- copies --------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees)
def test_copy_is_what_the_tree_was(
    tmp_path_factory: pytest.TempPathFactory, describe: Describe, tree: Any
) -> None:
    top = tmp_path_factory.mktemp("copy")
    build(os.fsencode(top / "source"), tree)
    copy_tree(top / "source", top / "copy")
    assert describe(top / "copy", times=True) == describe(top / "source", times=True)


def test_modes_and_times_are_kept_and_set_id_bits_are_not(source: Path, tmp_path: Path) -> None:
    for name, mode in (("plain", 0o640), ("program", 0o755), ("set-id", 0o6755), ("closed", 0)):
        (source / name).write_text(name)
        (source / name).chmod(mode)
        os.utime(source / name, ns=(10**18, 10**18 + 123_456_789))
    (source / "sticky").mkdir()
    (source / "sticky").chmod(0o1777)
    copy_tree(source, tmp_path / "copy")
    found = {p.name: stat.S_IMODE(p.lstat().st_mode) for p in (tmp_path / "copy").iterdir()}
    assert found == {"plain": 0o640, "program": 0o755, "set-id": 0o755, "closed": 0,
                     "sticky": 0o1777}  # fmt: skip
    assert (tmp_path / "copy/plain").stat().st_mtime_ns == 10**18 + 123_456_789


def test_closed_directories_are_copied_with_all_in_them_and_stay_closed(
    source: Path, tmp_path: Path
) -> None:
    deep = source / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "f").write_text("inside")
    (deep / "f").chmod(0)
    (source / "a" / "unsearchable").mkdir()
    (source / "a" / "unsearchable" / "g").write_text("g")
    (source / "a" / "unsearchable").chmod(0o400)
    deep.chmod(0o100)
    (source / "a").chmod(0)
    copy_tree(source, tmp_path / "copy")
    for top in (source, tmp_path / "copy"):
        assert stat.S_IMODE((top / "a").stat().st_mode) == 0
        (top / "a").chmod(0o700)
        assert stat.S_IMODE((top / "a/b").stat().st_mode) == 0o100
        assert stat.S_IMODE((top / "a/unsearchable").stat().st_mode) == 0o400
        for place in (top / "a/b", top / "a/unsearchable", top / "a/b/f"):
            place.chmod(0o700)
        assert (top / "a/b/f").read_text() == "inside"
        assert (top / "a/unsearchable/g").read_text() == "g"


def test_hard_links_stay_links_of_one_file(source: Path, tmp_path: Path) -> None:
    (source / "one").write_text("x")
    (source / "d").mkdir()
    (source / "d" / "two").hardlink_to(source / "one")
    (source / "link").symlink_to("one")
    os.link(source / "link", source / "link2", follow_symlinks=False)
    copy_tree(source, tmp_path / "copy")
    copy = tmp_path / "copy"
    assert (copy / "one").stat().st_ino == (copy / "d/two").stat().st_ino
    assert (copy / "one").stat().st_ino != (source / "one").stat().st_ino
    assert os.readlink(copy / "link2") == "one"
    (copy / "one").write_text("changed")
    assert (source / "one").read_text() == "x"


def test_whiteouts_and_opaque_directories_of_an_overlay_survive(
    source: Path, tmp_path: Path
) -> None:
    upper = source / "overlays" / "0" / "upper"
    (upper / "opaque").mkdir(parents=True)
    os.mknod(upper / "gone", stat.S_IFCHR, 0)
    os.setxattr(upper / "opaque", "user.overlay.opaque", b"y")
    copy_tree(source, tmp_path / "copy")
    there = tmp_path / "copy" / "overlays" / "0" / "upper"
    info = (there / "gone").lstat()
    assert stat.S_ISCHR(info.st_mode)
    assert info.st_rdev == 0
    assert os.getxattr(there / "opaque", "user.overlay.opaque") == b"y"


def test_work_directory_of_an_overlay_is_left_empty(source: Path, tmp_path: Path) -> None:
    for part in ("upper", "work"):
        (source / "overlays" / "0" / part / "inner").mkdir(parents=True)
    (source / "home" / "0" / "work" / "inner").mkdir(parents=True)
    copy_tree(source, tmp_path / "copy")
    copy = tmp_path / "copy"
    assert os.listdir(copy / "overlays/0/work") == []
    assert os.listdir(copy / "overlays/0/upper") == ["inner"]
    assert os.listdir(copy / "home/0/work") == ["inner"]  # only a name, here


def test_attributes_of_files_are_kept(source: Path, tmp_path: Path) -> None:
    (source / "f").write_text("x")
    os.setxattr(source / "f", "user.note", b"mine")
    copy_tree(source, tmp_path / "copy")
    assert os.getxattr(tmp_path / "copy/f", "user.note") == b"mine"


def test_pipes_are_made_anew_and_sockets_left_out(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    here = os.getcwd()
    os.chdir(source)  # the path of a socket has 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("socket")
    finally:
        os.chdir(here)
    copy_tree(source, tmp_path / "copy")
    assert os.listdir(tmp_path / "copy") == ["pipe"]
    assert stat.S_ISFIFO((tmp_path / "copy/pipe").stat().st_mode)


def test_holes_stay_holes(source: Path, tmp_path: Path) -> None:
    with open(source / "sparse", "wb") as file:
        file.write(b"begin")
        file.seek(1 << 30)
        file.write(b"end")
    copy_tree(source, tmp_path / "copy")
    info = (tmp_path / "copy/sparse").stat()
    assert info.st_size == (1 << 30) + 3
    assert info.st_blocks * 512 < 1 << 20


def test_link_is_copied_and_never_followed(source: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("secret")
    (source / "link").symlink_to(tmp_path / "outside")
    copy_tree(source, tmp_path / "copy")
    assert os.readlink(tmp_path / "copy/link") == str(tmp_path / "outside")


def test_tree_deeper_than_any_path_is_copied_and_counted(chain: Path, tmp_path: Path) -> None:
    assert LEVELS * 512 <= tree_bytes(chain) < COUNTLESS
    copy_tree(chain, tmp_path / "copy")
    assert tree_bytes(tmp_path / "copy") == tree_bytes(chain)


def test_copy_refuses_to_mix_with_what_is_there(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(FileExistsError):
        copy_tree(source, tmp_path / "copy")


# ---- counts --------------------------------------------------------------------------------------


def test_bytes_are_those_on_disk(source: Path) -> None:
    assert tree_bytes(source) == 0
    (source / "f").write_bytes(os.urandom(1 << 20))
    assert 1 << 20 <= tree_bytes(source) < (1 << 20) + 16384


def test_hole_takes_no_room(source: Path) -> None:
    with open(source / "sparse", "wb") as file:
        file.truncate(1 << 40)
    assert tree_bytes(source) < 1 << 20


def test_many_empty_files_are_not_nothing(source: Path) -> None:
    for n in range(500):
        (source / f"f{n}").touch()
    assert tree_bytes(source) >= 500 * 512


def test_file_with_many_names_takes_room_once(source: Path) -> None:
    # What uv, git and cp -l do all day: a thousand names, one file.
    (source / "big").write_bytes(os.urandom(1 << 20))
    for n in range(20):
        (source / f"name{n}").hardlink_to(source / "big")
    assert tree_bytes(source) < 2 << 20


def test_closed_directories_are_counted_and_stay_closed(source: Path) -> None:
    (source / "closed").mkdir()
    (source / "closed" / "f").write_bytes(os.urandom(1 << 20))
    (source / "closed").chmod(0)
    assert tree_bytes(source) >= 1 << 20
    assert stat.S_IMODE((source / "closed").stat().st_mode) == 0


def test_what_is_no_tree_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr")
    for name in ("none", "link"):
        with pytest.raises(ValueError, match=name):
            tree_bytes(tmp_path / name)
