"""That a place in a tree is held safely: few descriptors, no link followed, no parent mistaken."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from paddock.model.errors import Conflict, InvalidInput
from paddock.state.files.descent import MAX_OPEN_LEVELS, Descent, open_file, shown
from paddock.state.files.tree_walk import remove, walk


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_stay_few_however_deep_the_tree(deep_tree: Path) -> None:
    before, most = open_descriptors(), 0
    with Descent(deep_tree) as descent:
        for _ in walk(descent):
            if descent.depth % 50 == 0:
                most = max(most, open_descriptors() - before)
    assert MAX_OPEN_LEVELS <= most <= MAX_OPEN_LEVELS + 4
    assert open_descriptors() == before


def test_directory_that_was_moved_away_is_not_mistaken_for_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "tree"
    for level in range(100):
        path = path / str(level)
    path.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    with Descent(tmp_path / "tree") as descent:
        for level in range(100):
            descent.enter(str(level))
        # Its descriptor is closed by now; going up would lead into `elsewhere`.
        (tmp_path / "tree/0/1/2").rename(tmp_path / "elsewhere/2")
        with pytest.raises(Conflict):
            descent.go_to([])
        descent.reset()
        assert os.path.samestat(os.fstat(descent.fd), os.stat(tmp_path / "tree"))


def test_deep_tree_that_denies_its_owner_is_walked_and_left_as_it_was(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    top.mkdir()
    with Descent(top) as descent:
        for _ in range(3 * MAX_OPEN_LEVELS):
            os.mkdir("d", dir_fd=descent.fd)
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0, dir_fd=descent.fd))
            descent.enter("d")
        while descent.depth:
            descent.leave(lambda fd: os.fchmod(fd, 0))
    for _ in range(2):
        with Descent(top, lift=True) as descent:
            modes = {stat.S_IMODE(st.st_mode) for _, st in walk(descent)}
        assert modes == {0}
    parent = os.open(tmp_path, os.O_RDONLY)
    remove("tree", parent)
    os.close(parent)
    assert not top.exists()


def test_links_are_not_entered_and_not_opened(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "to-dir").symlink_to("dir")
    (tmp_path / "to-file").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with Descent(tmp_path) as descent:
        with pytest.raises(NotADirectoryError):
            descent.enter("to-dir")
        for name in ("to-file", "pipe", "dir", "missing"):
            assert open_file(name, descent.fd) is None
    with pytest.raises(InvalidInput):
        Descent(tmp_path / "to-dir")


def test_remove_takes_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "f").write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to("kept")
    parent = os.open(tmp_path, os.O_RDONLY)
    for name in ("tree", "link", "never-was"):
        remove(name, parent)
    os.close(parent)
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept" / "f").exists()


def test_untrusted_path_is_shown_without_control_characters() -> None:
    assert shown("a\x1b[31m\n\udce9") == "a\\x1b[31m\\n\\udce9"
    assert len(shown("x" * 10_000)) < 300
