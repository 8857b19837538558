"""What a recorder says of directories that an agent writes: every change, and nothing else."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.model.errors import OutOfSpace
from paddock.objects.file_bytes import CHUNK_BYTES
from paddock.state.trees import recorder as recording
from paddock.state.trees import scan as scanning
from paddock.state.trees.held_files import MappedFiles
from paddock.state.trees.nodes import NodeKind
from paddock.state.trees.recorder import Recorder
from paddock.state.trees.store import TreeStore

TICK_S = 0.02


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
    return place


@pytest.fixture
def recorder(store: TreeStore, home: Path) -> Recorder:
    return store.recorder({"home": home})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all files that were opened for reading."""
    names: list[str] = []
    real = recording.open_file

    def noted(name: str, dir_fd: int, **more: Any) -> int | None:
        names.append(name)
        return real(name, dir_fd, **more)

    monkeypatch.setattr(recording, "open_file", noted)
    return names


def paths(store: TreeStore, tree: str) -> dict[str, str]:
    return {path: node.kind.value for path, node in store.entries(tree)}


def test_first_record_has_every_entry(recorder: Recorder, store: TreeStore) -> None:
    found = recorder.record()
    assert found.total == 5
    assert set(found.changed) == {
        *("home/a.txt", "home/src", "home/src/b.py", "home/src/deep", "home/src/deep/c")
    }
    assert paths(store, found.tree) == {
        "home": "dir",
        "home/a.txt": "file",
        "home/src": "dir",
        "home/src/b.py": "file",
        "home/src/deep": "dir",
        "home/src/deep/c": "file",
    }


def test_unchanged_files_are_not_opened_again(recorder: Recorder, opened: list[str]) -> None:
    time.sleep(TICK_S)
    first = recorder.record()
    opened.clear()
    again = recorder.record()
    assert (again.tree, again.changed, opened) == (first.tree, (), [])


def test_only_the_changed_file_is_opened(recorder: Recorder, home: Path, opened: list[str]) -> None:
    time.sleep(TICK_S)
    first = recorder.record()
    (home / "src" / "b.py").write_text("B")
    opened.clear()
    then = recorder.record()
    assert then.changed == ("home/src/b.py",)
    assert opened == ["b.py"]
    assert then.tree != first.tree


def test_file_of_the_same_size_written_within_one_tick_is_noticed(
    recorder: Recorder, home: Path
) -> None:
    trees = set()
    for number in range(200):
        (home / "a.txt").write_text(f"{number:03}")
        trees.add(recorder.record().tree)
    assert len(trees) == 200


def test_forged_time_of_modification_hides_nothing(recorder: Recorder, home: Path) -> None:
    before = os.stat(home / "a.txt")
    time.sleep(TICK_S)
    first = recorder.record()
    (home / "a.txt").write_text("b")
    os.utime(home / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert recorder.record().tree != first.tree


def test_same_files_have_the_same_digest_wherever_and_whenever_they_are(
    store: TreeStore, home: Path, tmp_path: Path
) -> None:
    import shutil

    other = tmp_path / "other"
    shutil.copytree(home, other)
    os.utime(other / "a.txt", (1, 1))
    assert (
        store.recorder({"home": home}).record().tree
        == store.recorder({"home": other}).record().tree
        == Recorder(None, {"home": other}).record().tree
    )


@pytest.mark.parametrize(
    "what", ["mode", "dir mode", "opaque", "new", "gone", "renamed", "swapped"]
)
def test_every_kind_of_change_is_noticed_and_named(
    what: str, recorder: Recorder, home: Path, store: TreeStore
) -> None:
    time.sleep(TICK_S)
    first = recorder.record()
    expected = {"home/src"}
    match what:
        case "mode":
            (home / "a.txt").chmod(0o700)
            expected = {"home/a.txt"}
        case "dir mode":
            (home / "src").chmod(0o700)
        case "opaque":
            os.setxattr(home / "src", "user.overlay.opaque", b"y")
        case "new":
            (home / "new").symlink_to("nowhere")
            expected = {"home/new"}
        case "gone":
            (home / "a.txt").unlink()
            expected = {"home/a.txt"}
        case "renamed":
            (home / "a.txt").rename(home / "z.txt")
            expected = {"home/a.txt", "home/z.txt"}
        case "swapped":
            (home / "src").rename(home / "old")
            (home / "src").write_text("a file now")
            expected = {
                f"home/{one}" for one in ("src", "old", "old/b.py", "old/deep", "old/deep/c")
            }
    then = recorder.record()
    assert set(then.changed) == expected
    assert then.tree != first.tree
    assert then.tree == Recorder(None, {"home": home}).record().tree


def test_directory_in_the_place_of_a_file_is_recorded(recorder: Recorder, home: Path) -> None:
    recorder.record()
    (home / "a.txt").unlink()
    (home / "a.txt").mkdir()
    (home / "a.txt" / "in").write_text("x")
    then = recorder.record()
    assert set(then.changed) == {"home/a.txt", "home/a.txt/in"}
    assert then.tree == Recorder(None, {"home": home}).record().tree


def test_links_fifos_and_whiteouts_are_kept_and_sockets_are_not(
    recorder: Recorder, home: Path, store: TreeStore
) -> None:
    (home / "link").symlink_to("/etc/passwd")
    os.mkfifo(home / "pipe", 0o640)
    os.mknod(home / "white", stat.S_IFCHR, os.makedev(0, 0))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(home / "sock"))
        tree = recorder.record().tree
    kinds = paths(store, tree)
    assert kinds["home/link"] == "symlink"
    assert store.find(tree, "home", "link").target == "/etc/passwd"
    assert (kinds["home/pipe"], store.find(tree, "home", "pipe").mode) == ("fifo", 0o640)
    assert kinds["home/white"] == "whiteout"
    assert "home/sock" not in kinds


def test_link_to_a_directory_is_not_followed(recorder: Recorder, home: Path, tmp_path: Path,
                                             store: TreeStore) -> None:  # fmt: skip
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hidden")
    time.sleep(TICK_S)
    recorder.record()
    (home / "src").rename(home / "moved")
    (home / "src").symlink_to(secret)
    found = paths(store, recorder.record().tree)
    assert found["home/src"] == "symlink"
    assert not any("key" in path for path in found)


def test_names_that_are_no_text_come_back(recorder: Recorder, home: Path, store: TreeStore) -> None:
    raw = os.fsencode(home) + b"/\xff\n\x1b"
    with open(raw, "wb") as file:
        file.write(b"odd")
    tree = recorder.record().tree
    node = store.find(tree, "home", os.fsdecode(b"\xff\n\x1b"))
    assert b"".join(store.open_blob(node)) == b"odd"


def test_large_directory_is_cut_into_pieces_and_reads_back(
    recorder: Recorder, home: Path, store: TreeStore
) -> None:
    (home / "many").mkdir()
    for number in range(1000):
        (home / "many" / f"f{number}").write_text(str(number))
    time.sleep(TICK_S)
    tree = recorder.record().tree
    names = [node.name for node in store.nodes(store.find(tree, "home", "many"))]
    assert sorted(names) == sorted(f"f{number}" for number in range(1000))
    stored = len(list(objects(store)))
    (home / "many" / "f500").write_text("other")
    time.sleep(TICK_S)
    recorder.record()
    # The file, its piece, the list of pieces, the directory above and the tree.
    assert len(list(objects(store))) == stored + 5


class Budget:
    """So many bytes may be stored."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, size: int) -> bool:
        is_enough = size <= self.left
        self.left -= size if is_enough else 0
        return is_enough


def test_earlier_versions_are_stored_within_a_budget_and_the_last_one_always(
    store: TreeStore, home: Path
) -> None:
    budget = Budget(6000)
    recorder = store.recorder({"home": home}, may_store=budget.take)
    versions = []
    for number in range(4):
        (home / "file").write_bytes(bytes([number]) * 2000)
        time.sleep(TICK_S)
        versions.append(store.find(recorder.record().tree, "home", "file"))
    assert [store.is_kept(one) for one in versions] == [True, True, False, False]
    last = store.find(recorder.record(is_final=True).tree, "home", "file")
    assert (last.digest, store.is_kept(last)) == (versions[-1].digest, True)


def test_states_that_have_no_room_are_refused_and_the_last_one_is_recorded(
    store: TreeStore, home: Path
) -> None:
    recorder = store.recorder({"home": home}, may_store=Budget(1000).take)
    recorder._keeper._directory_bytes = 5000
    with pytest.raises(OSError, match="record budget is used up"):
        for number in range(100):
            (home / f"file{number}").touch()
            recorder.record()
    with pytest.raises(OSError, match="record budget is used up"):
        recorder.record()
    tree = recorder.record(is_final=True).tree
    assert store.verify(tree) > 5


def test_large_files_that_change_at_each_step_are_read_so_far_and_the_last_one_always(
    recorder: Recorder, home: Path, store: TreeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SPLIT_ABOVE", 1 << 20)
    monkeypatch.setattr(recording, "MAX_READ_OFTEN_BYTES", 2 << 20)
    recorder._keeper._unread_bytes = 7 << 20
    digests = []
    for number in range(3):
        (home / "large").write_bytes(bytes([number + 1]) * (3 << 20))
        time.sleep(TICK_S)
        digests.append(store.find(recorder.record().tree, "home", "large").digest)
    assert [bool(one) for one in digests] == [True, True, False]
    last = store.find(recorder.record(is_final=True).tree, "home", "large")
    assert b"".join(store.open_blob(last)) == b"\3" * (3 << 20)


def test_full_store_is_an_error_and_no_shorter_list_of_files(
    recorder: Recorder, home: Path, store: TreeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(digest: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.objects, "add", full)
    with pytest.raises(OSError, match="No space left"):
        recorder.record()


def test_exabyte_of_nothing_costs_nothing(recorder: Recorder, home: Path, store: TreeStore) -> None:
    with open(home / "sparse", "wb") as file:
        file.truncate(1 << 43)
        file.seek(1 << 42)
        file.write(b"in the middle")
    tree = recorder.record(is_final=True).tree
    node = store.find(tree, "home", "sparse")
    assert (node.size, store.is_kept(node)) == (1 << 43, True)
    ((offset, data),) = store.pieces(node)
    assert offset == 1 << 42 and data.startswith(b"in the middle")
    assert sum(os.stat(one).st_size for one in objects(store)) < 1 << 20


def test_tree_deeper_than_the_bound_is_cut_and_says_so(store: TreeStore, deep_tree: Path) -> None:
    found = store.recorder({"home": deep_tree}).record()
    assert not found.is_whole
    assert store.tree(found.tree).is_cut
    assert found.total < 100


def test_entries_past_the_bound_are_left_out(
    store: TreeStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_ENTRIES", 4)
    recorder = store.recorder({"home": home})
    found = recorder.record()
    assert not found.is_whole
    assert found.total <= 4
    monkeypatch.setattr(recording, "MAX_ENTRIES", 100)
    whole = recorder.record()
    assert (whole.is_whole, whole.total) == (True, 5)


def test_missing_root_is_an_error_of_the_host(recorder: Recorder, home: Path) -> None:
    import shutil

    shutil.rmtree(home)
    with pytest.raises(FileNotFoundError):
        recorder.record()


def test_recorder_survives_files_that_change_all_the_time(
    recorder: Recorder, home: Path, store: TreeStore
) -> None:
    """Whatever was recorded is whole and can be read back, and the last state is exact."""
    is_over = threading.Event()
    writers = [threading.Thread(target=_churn, args=(home, seed, is_over)) for seed in range(2)]
    for one in writers:
        one.start()
    try:
        trees = [recorder.record().tree for _ in range(60)]
    finally:
        is_over.set()
        for one in writers:
            one.join()
    for tree in set(trees):
        store.verify(tree)
    assert recorder.record().tree == Recorder(None, {"home": home}).record().tree


def _churn(home: Path, seed: int, is_over: threading.Event) -> None:
    number = 0
    while not is_over.is_set():
        number += 1
        place = home / f"churn{seed}"
        place.mkdir(exist_ok=True)
        (place / "file").write_text(str(number) * (number % 500))
        (place / "file").rename(place / "moved")
        (place / "moved").unlink()
        (place / "sub").mkdir()
        (place / "sub" / "x").write_text("x")
        (place / "sub").rename(place / "gone")
        (place / "gone" / "x").unlink()
        (place / "gone").rmdir()
        (place / "gone").symlink_to("/")
        (place / "gone").unlink()


def test_two_recorders_of_one_store_do_each_other_no_harm(store: TreeStore, home: Path) -> None:
    found: list[str] = []
    others = TreeStore(home.parent / "store")
    work = [
        threading.Thread(
            target=lambda s=one: found.append(s.recorder({"home": home}).record().tree)
        )
        for one in (store, others) * 4
    ]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    store.verify(found[0])


def test_unreadable_files_of_a_user_are_recorded_and_keep_their_mode(
    recorder: Recorder, home: Path, store: TreeStore
) -> None:
    (home / "a.txt").chmod(0)
    (home / "src").chmod(0)
    found = recorder.record()
    assert found.is_whole
    assert store.find(found.tree, "home", "a.txt").mode == 0
    assert store.find(found.tree, "home", "src/b.py").kind is NodeKind.FILE
    assert stat.S_IMODE(os.stat(home / "src").st_mode) == 0
    (home / "src").chmod(0o755)


def test_bound_of_depth_is_below_where_a_way_back_is_closed() -> None:
    from paddock.state.files.descent import MAX_OPEN_LEVELS

    assert scanning.MAX_DEPTH < MAX_OPEN_LEVELS


def objects(store: TreeStore) -> Iterator[str]:
    root = os.path.dirname(os.path.dirname(store.objects.path("0" * 64)))
    for base, _, files in os.walk(root):
        for name in files:
            yield os.path.join(base, name)


def _settled(recorder: Recorder) -> str:
    """Records until every stamp is older than the clock's tick, and can be trusted."""
    time.sleep(TICK_S)
    recorder.record()
    return recorder.record().tree


def test_a_state_that_stayed_is_known_without_reading(
    recorder: Recorder, opened: list[str]
) -> None:
    tree = _settled(recorder)
    opened.clear()
    found = recorder.unchanged()
    assert found is not None
    assert (found.tree, found.changed, found.is_whole) == (tree, (), True)
    assert found.total == recorder.record().total
    assert opened == []


def _rewrite(home: Path) -> None:
    stamp = os.stat(home / "a.txt")
    (home / "a.txt").write_text("z")
    os.utime(home / "a.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


CHANGES = {
    "new file": lambda home: (home / "src" / "new").write_text("n"),
    "new directory": lambda home: (home / "src" / "deep" / "d").mkdir(),
    "same size and time": _rewrite,
    "deep": lambda home: (home / "src" / "deep" / "c").write_text("x"),
    "removed": lambda home: (home / "src" / "b.py").unlink(),
    "renamed": lambda home: (home / "a.txt").rename(home / "z.txt"),
    "mode of a file": lambda home: (home / "a.txt").chmod(0o600),
    "mode of a directory": lambda home: (home / "src").chmod(0o700),
    "replaced": lambda home: (home / "src" / "b.py").replace(home / "a.txt"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_no_change_is_taken_for_none(recorder: Recorder, home: Path, change: Any) -> None:
    _settled(recorder)
    change(home)
    assert recorder.unchanged() is None
    assert recorder.record().changed != ()


def test_a_change_within_the_tick_of_the_last_look_is_not_missed(
    recorder: Recorder, home: Path
) -> None:
    _settled(recorder)
    for number in range(50):
        (home / "a.txt").write_text(f"{number % 10}")
        tree = recorder.record().tree
        (home / "a.txt").write_text(f"{(number + 1) % 10}")
        found = recorder.unchanged()
        assert found is None or found.tree != tree


def test_before_the_first_record_and_of_what_is_gone_nothing_is_known(
    recorder: Recorder, home: Path
) -> None:
    assert recorder.unchanged() is None
    _settled(recorder)
    home.rename(home.with_name("elsewhere"))
    assert recorder.unchanged() is None


def test_many_files_are_left_to_who_may_wait(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _settled(recorder)
    monkeypatch.setattr(recording, "MAX_AT_ONCE", 3)
    assert recorder.unchanged() is None


def test_nobody_waits_for_a_record_that_is_being_made(recorder: Recorder) -> None:
    _settled(recorder)
    with recorder._turn:
        assert recorder.unchanged() is None
    assert recorder.unchanged() is not None


def with_maps(store: TreeStore, home: Path, mapped: list[MappedFiles]) -> Recorder:
    """A recorder for which the first of these files are mapped at its first record, and so on."""
    return store.recorder({"home": home}, mapped=lambda: mapped.pop(0))


def write_through_map(home: Path, recorder: Recorder) -> None:
    """Change `a.txt` so that the kernel stamps it before a record, and not after it."""
    (home / "a.txt").write_bytes(bytes(4096))
    with open(home / "a.txt", "r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
        mapped[0] = 1
        time.sleep(TICK_S)
        recorder.record()
        stamp = os.stat(home / "a.txt").st_ctime_ns
        mapped[0] = 2
        assert os.stat(home / "a.txt").st_ctime_ns == stamp


NOTHING = MappedFiles({})


@pytest.mark.parametrize(
    "mapped",
    [
        MappedFiles({"home/a.txt": 1, "home/none": 2}),
        MappedFiles({"home/linked": 1}),
        MappedFiles({}, nameless=frozenset({"home/gone (deleted)"})),
        MappedFiles({}, is_complete=False),
    ],
    ids=["by its name", "by another name", "without a name", "by a hidden process"],
)
def test_what_was_written_through_a_map_that_is_gone_is_noticed(
    store: TreeStore, home: Path, mapped: MappedFiles
) -> None:
    recorder = with_maps(store, home, [mapped, NOTHING, NOTHING])
    os.link(home / "a.txt", home / "linked")
    write_through_map(home, recorder)
    assert recorder.unchanged() is None
    assert recorder.record().changed == ("home/a.txt", "home/linked")
    assert recorder.record().changed == ()


def test_what_is_written_through_a_map_while_it_is_there_is_noticed(
    store: TreeStore, home: Path
) -> None:
    """Also by its inode number alone, and on file systems that stamp no write through a map."""
    inode = os.stat(home / "a.txt").st_ino
    recorder = with_maps(store, home, [NOTHING, MappedFiles({"home/moved": inode})])
    write_through_map(home, recorder)
    assert recorder.record().changed == ("home/a.txt",)


def test_maps_elsewhere_have_nothing_read_again(store: TreeStore, home: Path) -> None:
    elsewhere = MappedFiles({"/usr/lib/x": os.stat(home / "a.txt").st_ino}, frozenset({"/tmp/x"}))
    recorder = store.recorder({"home": home}, mapped=lambda: elsewhere)
    time.sleep(TICK_S)
    recorder.record()
    assert all(one.changed_ns != scanning.UNTRUSTED for one in scanning.every_seen(recorder.seen))


def test_nothing_is_stored_in_what_is_reserved_on_the_disk(
    store: TreeStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file of several chunks, too, here after the first one."""
    (home / "large").write_bytes(os.urandom(3 * CHUNK_BYTES))
    recorder = store.recorder({"home": home})
    checks = iter(["at the beginning", "a.txt", "the first chunk"])

    def check_space(directory: Path) -> None:
        if next(checks, None) is None:
            raise OutOfSpace("the disk is nearly full")

    monkeypatch.setattr(recording, "check_space", check_space)
    with pytest.raises(OutOfSpace, match="home/large is not stored: the disk is nearly full"):
        recorder.record(is_final=True)
