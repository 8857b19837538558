"""The store of trees: what is in it reads back exactly, damage is named, and a sweep is careful."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import Conflict, IntegrityError, NotFound
from paddock.state.trees.nodes import (
    Node,
    NodeKind,
    StoredTree,
    bytes_of_tree,
    line_of,
    read_directory,
    read_tree,
)
from paddock.state.trees.store import TreeStore


@pytest.fixture
def store(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    (place / "src").mkdir(parents=True)
    (place / "a.txt").write_text("a" * 9000)
    (place / "src" / "b.py").write_bytes(os.urandom(3 << 20))
    return place


def record(store: TreeStore, home: Path) -> str:
    return store.recorder({"home": home}).record().tree


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 100_000, 1 << 20, (1 << 20) + 1])
@pytest.mark.parametrize("is_random", [True, False])
def test_bytes_of_any_size_read_back(store: TreeStore, size: int, *, is_random: bool) -> None:
    data = os.urandom(size) if is_random else b"text " * (size // 5) + b"." * (size % 5)
    digest, is_new = store.objects.put(data)
    assert is_new
    assert TreeStore(Path(store.objects.path(digest)).parents[2]).objects.read(digest) == data
    assert store.objects.put(data) == (digest, False)


def test_object_that_a_crash_left_empty_is_written_again(store: TreeStore, tmp_path: Path) -> None:
    digest, _ = store.objects.put(b"whole")
    Path(store.objects.path(digest)).write_bytes(b"")
    again = TreeStore(tmp_path / "store")
    assert again.objects.put(b"whole") == (digest, True)
    assert again.objects.read(digest) == b"whole"


@pytest.mark.parametrize("path", ["a.txt", "src/b.py"])
def test_verify_names_the_damaged_file(store: TreeStore, home: Path, path: str) -> None:
    tree = record(store, home)
    assert store.verify(tree) == 4
    place = Path(store.objects.path(store.find(tree, "home", path).digest))
    place.write_bytes(place.read_bytes()[:-7] + b"damaged")
    with pytest.raises(IntegrityError, match=f"home/{path}"):
        store.verify(tree)


def test_verify_names_the_file_that_is_missing(store: TreeStore, home: Path) -> None:
    tree = record(store, home)
    os.unlink(store.objects.path(store.find(tree, "home", "a.txt").digest))
    with pytest.raises(IntegrityError, match=r"home/a\.txt"):
        TreeStore(home.parent / "store").verify(tree)


def test_pressed_object_that_would_fill_the_memory_is_refused(store: TreeStore) -> None:
    import zlib

    digest, _ = store.objects.put(b"x" * 5000)
    bomb = zlib.compress(b"\0" * (64 << 20), 9)
    Path(store.objects.path(digest)).write_bytes(b"1" + bomb)
    with pytest.raises(IntegrityError):
        store.objects.read(digest)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\0b", "x" * 256])
def test_forged_name_is_refused(store: TreeStore, name: str) -> None:
    line = line_of(Node(name, NodeKind.SYMLINK, target="x"))
    with pytest.raises(IntegrityError):
        read_directory(line)


@for_each(
    "line",
    [
        b'{"kind":"file","name":"a","mode":420,"size":1,"digest":"../../etc/passwd"}',
        b'{"kind":"file","name":"a","mode":2541,"size":1,"digest":"' + b"0" * 64 + b'"}',
        b'{"kind":"dir","name":"a","mode":448,"digest":""}',
        b'{"kind":"file","name":"a","mode":420,"size":1,"digest":""}',
        b'{"kind":"device","name":"a"}',
        b'{"kind":"symlink","name":"a","target":""}',
        b'{"pieces":["../x"]}',
        b'{"pieces":7}',
        b"[" * 100_000,
        b"null",
        b"\xff",
    ],
)
def test_forged_directory_is_refused(line: bytes) -> None:
    with pytest.raises(IntegrityError):
        read_directory(line)


names = st.binary(min_size=1, max_size=255).filter(
    lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
)
nodes = st.builds(
    Node,
    name=names.map(os.fsdecode),
    kind=st.just(NodeKind.FILE),
    mode=st.integers(0, 0o777),
    size=st.integers(0, 1 << 50),
    digest=st.binary(min_size=32, max_size=32).map(bytes.hex),
    is_kept=st.booleans(),
) | st.builds(
    Node,
    name=names.map(os.fsdecode),
    kind=st.just(NodeKind.SYMLINK),
    target=names.map(os.fsdecode),
)


@given(st.lists(nodes, max_size=5))
def test_nodes_read_back_as_they_were_written(some: list[Node]) -> None:
    assert read_directory(b"\n".join(map(line_of, some))) == some


@given(st.booleans(), st.booleans())
def test_trees_read_back_as_they_were_written(is_opaque: bool, is_cut: bool) -> None:
    root = Node("", NodeKind.DIR, mode=0o755, digest="0" * 64, is_opaque=is_opaque)
    tree = StoredTree({"/home/user": root, "": root}, is_cut)
    assert read_tree(bytes_of_tree(tree)) == tree


def test_tree_of_another_format_is_refused() -> None:
    with pytest.raises(IntegrityError, match="format"):
        read_tree(b'{"format":2,"roots":{}}')


def test_diff_lists_changes_and_takes_a_whiteout_for_nothing(store: TreeStore, home: Path) -> None:
    os.mknod(home / "white", stat.S_IFCHR, os.makedev(0, 0))
    (home / "old").mkdir()
    (home / "old" / "inner").write_text("x")
    before = record(store, home)
    (home / "white").unlink()
    (home / "white").write_text("shows")
    (home / "a.txt").unlink()
    os.mknod(home / "a.txt", stat.S_IFCHR, os.makedev(0, 0))
    (home / "src" / "b.py").write_text("new")
    (home / "new").mkdir()
    (home / "new" / "file").write_text("y")
    (home / "old" / "inner").unlink()
    (home / "old").rmdir()
    after = record(store, home)
    assert [(one.path, one.kind) for one in store.diff(before, after)] == [
        ("home/a.txt", "deleted"),
        ("home/new", "added"),
        ("home/new/file", "added"),
        ("home/old", "deleted"),
        ("home/src/b.py", "modified"),
        ("home/white", "added"),
    ]
    assert store.diff(after, after) == []


def test_find_says_what_is_not_there(store: TreeStore, home: Path) -> None:
    tree = record(store, home)
    for root, path in (("home", "a.txt/x"), ("home", "none"), ("other", "a.txt")):
        with pytest.raises(NotFound):
            store.find(tree, root, path)


def test_sweep_removes_what_no_tree_needs_and_nothing_else(store: TreeStore, home: Path) -> None:
    first = record(store, home)
    (home / "a.txt").write_text("other")
    for number in range(400):
        (home / f"many{number}").write_text(str(number))
    second = record(store, home)
    assert store.gc([first, second], older_than_s=0) == 0
    assert store.gc([second], older_than_s=0) > 0
    store.verify(second)
    with pytest.raises(IntegrityError):
        store.verify(first)


def test_sweep_spares_what_is_young(store: TreeStore, home: Path) -> None:
    tree = record(store, home)
    assert store.gc([]) == 0
    store.verify(tree)


def test_sweep_waits_for_nobody_who_records(store: TreeStore) -> None:
    with store.in_use(), pytest.raises(Conflict):
        store.gc([], older_than_s=0)
    assert store.gc([], older_than_s=0) == 0


def test_writers_of_the_same_bytes_meet(tmp_path: Path) -> None:
    stores = [TreeStore(tmp_path / "store") for _ in range(4)]
    data = [os.urandom(2000) for _ in range(50)]
    failed: list[BaseException] = []

    def write(one: TreeStore) -> None:
        try:
            for piece in data:
                digest, _ = one.objects.put(piece)
                assert one.objects.read(digest) == piece
        except BaseException as error:
            failed.append(error)

    work = [threading.Thread(target=write, args=(one,)) for one in stores]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert failed == []
    assert os.listdir(tmp_path / "store" / "tmp") == []


def test_digest_of_a_state_is_the_one_that_journals_have(store: TreeStore, tmp_path: Path) -> None:
    """Journals name states by their digests: the format of a state must not change."""
    home = tmp_path / "home"

    def directory(path: Path, mode: int) -> Path:
        path.mkdir()
        path.chmod(mode)
        return path

    def file(path: Path, data: bytes, mode: int = 0o644) -> None:
        path.write_bytes(data)
        path.chmod(mode)

    directory(home, 0o755)
    file(home / "a.txt", b"a" * 9000)
    file(home / "run", b"#!", 0o755)
    file(home / os.fsdecode(b"\xff"), b"")
    (home / "link").symlink_to("a.txt")
    os.mkfifo(home / "pipe", 0o600)
    os.mknod(home / "gone", stat.S_IFCHR, os.makedev(0, 0))
    for name, mode, count in (("many", 0o755, 700), ("few", 0o700, 200)):
        below = directory(home / name, mode)
        for number in range(count):
            file(below / f"file-{number}", str(number).encode())
    expected = "31da4ed46c6c35859331286c75b62e7a69361dd9d086865fffe9463ac5ed7335"
    assert record(store, home) == expected
