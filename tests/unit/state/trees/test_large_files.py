"""Large files are stored in parts: streamed, with their holes, each part once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from paddock.model.errors import IntegrityError
from paddock.objects.file_bytes import UNIT_BYTES
from paddock.state.trees import recorder as recording
from paddock.state.trees.large_files import PART_BYTES, read_list, split
from paddock.state.trees.store import TreeStore

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _split_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SPLIT_ABOVE", MIB)


@pytest.fixture
def store(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


def stored(store: TreeStore) -> int:
    return sum(len(files) for _, _, files in os.walk(store.objects._root))


def listed(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return split(fd, os.fstat(fd).st_size, lambda data: f"{hash(data) & (2**64 - 1):064x}")[0]
    finally:
        os.close(fd)


def test_a_file_with_holes_and_its_copy_without_are_the_same(home: Path) -> None:
    holes, dense = home / "holes", home / "dense"
    with open(holes, "wb") as file:
        for at in (0, 5000, UNIT_BYTES * 3, PART_BYTES - 10, PART_BYTES * 2 + 7):
            file.seek(at)
            file.write(b"some bytes, over a border perhaps")
        file.truncate(PART_BYTES * 3 + 11)
    dense.write_bytes(holes.read_bytes())
    assert os.stat(holes).st_blocks < os.stat(dense).st_blocks
    assert listed(holes) == listed(dense)
    parts, size = read_list(listed(holes))
    assert size == PART_BYTES * 3 + 11
    assert all(part.length <= PART_BYTES for part in parts)


def test_what_is_stored_comes_back_with_its_holes_and_over_what_was_there(
    store: TreeStore, home: Path
) -> None:
    with open(home / "file", "wb") as file:
        file.write(os.urandom(PART_BYTES + 1000))
        file.truncate(PART_BYTES * 4)
        file.seek(PART_BYTES * 3)
        file.write(b"end")
    whole = (home / "file").read_bytes()
    recorder = store.recorder({"home": home})
    tree = recorder.record().tree
    assert b"".join(store.open_blob(store.find(tree, "home", "file"))) == whole
    assert store.verify(tree) == 2
    (home / "file").write_bytes(b"x" * PART_BYTES * 5)
    store.restore(tree, {"home": home}, recorder=recorder)
    assert (home / "file").read_bytes() == whole
    assert os.stat(home / "file").st_blocks * 512 < 2 * PART_BYTES


def test_a_file_that_grew_adds_only_its_new_parts(store: TreeStore, home: Path) -> None:
    recorder = store.recorder({"home": home})
    (home / "file").write_bytes(os.urandom(PART_BYTES * 3))
    time.sleep(0.02)
    first = recorder.record().tree
    before = stored(store)
    with open(home / "file", "ab") as file:
        file.write(os.urandom(1000))
    second = recorder.record().tree
    assert stored(store) == before + 4  # the part, the list, the directory, the tree
    assert store.gc([second], older_than_s=-1) > 0
    assert store.verify(second) == 2
    with pytest.raises(IntegrityError):
        store.verify(first)


def test_a_damaged_part_is_noticed(store: TreeStore, home: Path) -> None:
    (home / "file").write_bytes(os.urandom(PART_BYTES * 2))
    tree = store.recorder({"home": home}).record().tree
    node = store.find(tree, "home", "file")
    parts, _ = read_list(store.objects.read(node.digest))
    with open(store.objects.path(parts[1].digest), "r+b") as file:
        file.seek(100)
        file.write(b"other")
    with pytest.raises(IntegrityError, match="home/file"):
        store.verify(tree)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"parts":[[0,5,"x"]],"size":5}',
        b'{"parts":[[0,-5,"%s"]],"size":5}' % (b"a" * 64),
        b'{"parts":[[0,5,"%s"]],"size":4}' % (b"a" * 64),
        b'{"parts":[[3,5,"%s"],[4,5,"%s"]],"size":40}' % (b"a" * 64, b"a" * 64),
    ],
)
def test_a_list_that_cannot_be_is_refused(text: bytes) -> None:
    with pytest.raises(IntegrityError):
        read_list(text)
