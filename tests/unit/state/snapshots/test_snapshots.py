"""What a snapshot keeps, what it refuses, and that nothing it reads can lead it elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound
from paddock.objects.store import Framing, ObjectStore
from paddock.state.snapshots.store import SnapshotInfo, SnapshotStore
from paddock.state.trees.nodes import (
    Node,
    NodeKind,
    StoredTree,
    bytes_of_tree,
    line_of,
    read_directory,
)

Describe = Callable[..., dict[bytes, tuple[Any, ...]]]


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "store")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One of everything that a workspace may hold."""
    root = tmp_path / "tree"
    (root / "dir" / "inner").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "dir" / "small.txt").write_text("hello")
    (root / "dir" / "none").write_bytes(b"")
    (root / "dir" / "medium").write_bytes(os.urandom(10_000))
    (root / "large").write_bytes(os.urandom(3 << 20))
    (root / "dir" / "run.sh").write_text("#!/bin/sh\n")
    (root / "dir" / "run.sh").chmod(0o755)
    (root / "dir" / "link").symlink_to("../large")
    (root / "abroad").symlink_to("/etc/shadow")
    os.link(root / "dir" / "medium", root / "dir" / "same-as-medium")
    os.mkfifo(root / "pipe", 0o640)
    os.mknod(root / "gone", stat.S_IFCHR, os.makedev(0, 0))
    os.setxattr(root / "empty", "user.overlay.opaque", b"y")
    os.setxattr(root / "large", "user.note", b"\x00\xff")
    (root / "dir" / os.fsdecode(b"caf\xe9\n")).write_text("not UTF-8")
    os.utime(root / "dir" / "small.txt", ns=(1, 1_234_567_890_123_456_789))
    (root / "dir" / "inner").chmod(0o555)
    return root


def nodes_of(store: SnapshotStore, snapshot: str) -> list[Node]:
    return [node for _, node in store.entries(snapshot)]


def info_of(store: SnapshotStore, snapshot: str) -> SnapshotInfo:
    return next(info for info in store.list() if info.snapshot_id == snapshot)


def stored_files(store_root: Path) -> set[Path]:
    return {path for path in store_root.rglob("*") if path.is_file() and path.name != "lock"}


def test_restore_gives_back_everything_that_was_saved(
    store: SnapshotStore, tree: Path, tmp_path: Path, describe: Describe
) -> None:
    snapshot = store.save(tree, meta={"sandbox": "s1"})
    into = tmp_path / "into"
    into.mkdir()
    store.restore(snapshot, into)
    assert describe(into, times=True) == describe(tree, times=True)
    assert os.getxattr(into / "large", "user.note") == b"\x00\xff"
    assert os.stat(into / "dir/medium").st_ino == os.stat(into / "dir/same-as-medium").st_ino
    for name in ("", "dir", "empty"):
        assert os.stat(into / name).st_mtime_ns == os.stat(tree / name).st_mtime_ns


def test_restored_tree_has_the_id_of_the_saved_one(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    snapshot = store.save(tree, meta={})
    (tmp_path / "into").mkdir()
    store.restore(snapshot, tmp_path / "into")
    assert store.save(tmp_path / "into", meta={}) == snapshot


def test_saving_the_same_tree_again_stores_nothing_new(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    first = store.save(tree, meta={"a": 1})
    before = stored_files(tmp_path / "store")
    assert store.save(tree, meta={"a": 1}) == first
    assert stored_files(tmp_path / "store") == before
    assert first.startswith("snap-") and len(first) == 37


def test_other_meta_shares_the_stored_tree(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    first = store.save(tree, meta={"a": 1})
    before = stored_files(tmp_path / "store")
    second = store.save(tree, meta={"a": 2})
    assert second != first
    new = stored_files(tmp_path / "store") - before
    assert [path.parent.name for path in new] == ["manifests"]


def test_equal_files_are_stored_once(store: SnapshotStore, tmp_path: Path) -> None:
    content = os.urandom(2 << 20)
    for name in ("one", "two"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "tree" / name / "data").write_bytes(content)
    store.save(tmp_path / "tree", meta={})
    sizes = [path.stat().st_size for path in stored_files(tmp_path / "store")]
    assert sizes.count(len(content)) == 1


def test_descriptor_of_an_open_directory_can_be_saved(store: SnapshotStore, tree: Path) -> None:
    fd = os.open(tree, os.O_RDONLY)
    try:
        assert store.save(fd, meta={}) == store.save(tree, meta={})
    finally:
        os.close(fd)


def test_sockets_and_devices_are_left_out_and_counted(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    monkeypatch.chdir(tmp_path / "tree")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        expected = {"sockets": 1, "devices": 0, "xattrs": 0}
        if os.geteuid() == 0:
            os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            expected["devices"] = 1
        snapshot = store.save(tmp_path / "tree", meta={"who": "me"})
    assert info_of(store, snapshot).meta == {"who": "me", "skipped": expected}
    assert [node.name for node in nodes_of(store, snapshot)] == [""]


def test_setuid_and_setgid_bits_are_not_kept(store: SnapshotStore, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "sh").write_bytes(b"#!")
    (tmp_path / "tree" / "sh").chmod(0o6755)
    (tmp_path / "into").mkdir()
    store.restore(store.save(tmp_path / "tree", meta={}), tmp_path / "into")
    assert stat.S_IMODE((tmp_path / "into" / "sh").stat().st_mode) == 0o755


def test_file_that_denies_its_owner_is_saved_with_its_mode(
    store: SnapshotStore, tmp_path: Path, describe: Describe
) -> None:
    closed = tmp_path / "tree" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("still mine")
    (closed / "file").chmod(0)
    closed.chmod(0)
    (tmp_path / "into").mkdir()
    store.restore(store.save(tmp_path / "tree", meta={}), tmp_path / "into")
    assert stat.S_IMODE(closed.stat().st_mode) == 0
    for root in ("tree", "into"):
        (tmp_path / root / "closed").chmod(0o700)
    assert stat.S_IMODE((tmp_path / "into/closed/file").stat().st_mode) == 0
    assert describe(tmp_path / "into") == describe(tmp_path / "tree")


def test_holes_stay_holes_and_cost_nothing(store: SnapshotStore, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    sparse = tmp_path / "tree" / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(b"in the middle")
    with open(tmp_path / "tree" / "hole", "wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "into").mkdir()
    snapshot = store.save(tmp_path / "tree", meta={})
    store.restore(snapshot, tmp_path / "into")
    restored = (tmp_path / "into" / "sparse").stat()
    assert restored.st_size == 1 << 40
    assert restored.st_blocks * 512 < 1 << 20
    with open(tmp_path / "into" / "sparse", "rb") as file:
        file.seek(1 << 30)
        assert file.read(20) == b"in the middle" + bytes(7)
    assert (tmp_path / "into" / "hole").stat().st_blocks == 0
    assert sum(path.stat().st_size for path in stored_files(tmp_path / "store")) < 1 << 20


def test_extended_attributes_past_the_bound_are_left_out_but_overlay_marks_stay(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ext4 itself keeps about as much as the real bound allows, so a lower one is tried.
    monkeypatch.setattr("paddock.state.snapshots._capture.MAX_XATTR_BYTES", 400)
    (tmp_path / "tree").mkdir()
    for name, value in {"a": bytes(300), "b": bytes(300), "overlay.opaque": b"y"}.items():
        os.setxattr(tmp_path / "tree", f"user.{name}", value)
    snapshot = store.save(tmp_path / "tree", meta={})
    (root,) = nodes_of(store, snapshot)
    assert root.is_opaque
    assert [name for name, _ in root.xattrs] == ["user.a"]
    assert info_of(store, snapshot).meta["skipped"]["xattrs"] == 1


def test_notes_that_overlayfs_writes_for_itself_are_not_kept(
    store: SnapshotStore, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    plain = store.save(tmp_path / "tree", meta={})
    os.setxattr(tmp_path / "tree", "user.overlay.origin", b"an inode of this machine")
    assert store.save(tmp_path / "tree", meta={}) == plain


def test_tree_deeper_than_any_path_is_saved_and_restored(
    store: SnapshotStore, deep_tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "into").mkdir()
    with few_descriptors():
        snapshot = store.save(deep_tree, meta={})
        store.restore(snapshot, tmp_path / "into")
        assert store.save(tmp_path / "into", meta={}) == snapshot
        assert len(nodes_of(store, snapshot)) == 1100 + 12
        store.verify(snapshot)
    assert store.gc() == 0


@contextlib.contextmanager
def few_descriptors() -> Iterator[None]:
    """A limit that a descriptor for every level would break."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_owner_is_given_to_everything_restored(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    owner = (1234, 1235) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    (tmp_path / "into").mkdir()
    store.restore(store.save(tree, meta={}), tmp_path / "into", owner=owner)
    for path in [tmp_path / "into", *(tmp_path / "into").rglob("*")]:
        st = path.lstat()
        assert (st.st_uid, st.st_gid) == owner, path


def test_restore_refuses_a_directory_that_is_not_empty(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    snapshot = store.save(tree, meta={})
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "mine").write_text("keep")
    with pytest.raises(Conflict):
        store.restore(snapshot, tmp_path / "into")
    assert (tmp_path / "into" / "mine").read_text() == "keep"


def test_restore_refuses_a_link_in_place_of_the_directory(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    snapshot = store.save(tree, meta={})
    (tmp_path / "outside").mkdir()
    (tmp_path / "into").symlink_to("outside")
    with pytest.raises(InvalidInput):
        store.restore(snapshot, tmp_path / "into")
    assert not os.listdir(tmp_path / "outside")


def largest_blob(store_root: Path) -> Path:
    return max(stored_files(store_root), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("damage", ["flip", "cut", "lose"])
def test_damaged_blob_is_named_and_nothing_stays_behind(
    store: SnapshotStore, tree: Path, tmp_path: Path, damage: str
) -> None:
    snapshot = store.save(tree, meta={})
    blob = largest_blob(tmp_path / "store")
    content = bytearray(blob.read_bytes())
    content[1 << 20] ^= 1
    blob.unlink()
    if damage != "lose":
        blob.write_bytes(content if damage == "flip" else content[:-1])
    (tmp_path / "into").mkdir()
    with pytest.raises(IntegrityError, match="large"):
        store.restore(snapshot, tmp_path / "into")
    assert not os.listdir(tmp_path / "into")
    with pytest.raises(IntegrityError, match="large"):
        store.verify(snapshot)


def test_blob_that_was_cut_is_written_again_by_the_next_save(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    snapshot = store.save(tree, meta={})
    os.truncate(largest_blob(tmp_path / "store"), 5)
    assert store.save(tree, meta={}) == snapshot
    store.verify(snapshot)


def test_damaged_manifest_or_tree_is_refused(
    store: SnapshotStore, tmp_path: Path, describe: Describe
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "f").write_text("x")
    snapshot = store.save(tmp_path / "tree", meta={})
    manifest = tmp_path / "store" / "manifests" / f"{snapshot}.json"
    content = manifest.read_bytes()
    manifest.write_bytes(content.replace(b'"files":1', b'"files":2'))
    with pytest.raises(IntegrityError):
        store.verify(snapshot)
    assert store.list() == []
    manifest.write_bytes(content)
    for blob in (tmp_path / "store" / "blobs").rglob("*/*"):
        data = blob.read_bytes()
        blob.write_bytes(data.replace(b"kind", b"find"))
        with pytest.raises(IntegrityError):
            store.verify(snapshot)
        blob.write_bytes(data)
    store.verify(snapshot)


def forge(store_root: Path, nodes: list[dict[str, Any]], links: int = 1) -> str:
    """A snapshot as a stranger could hand it over: all digests right, the content hostile."""
    objects = ObjectStore(store_root / "blobs", framing=Framing.RAW, staging=store_root / "tmp")
    listing = b"\n".join(json.dumps(node).encode() for node in nodes)
    root = Node("", NodeKind.DIR, mode=0o755, digest=objects.put(listing)[0])
    tree, _ = objects.put(bytes_of_tree(StoredTree({"": root})))
    counts = {"entries": 1, "files": 0, "links": links, "size_bytes": 0, "version": 2}
    content = json.dumps({"tree": tree, "meta": {}, **counts}).encode()
    snapshot = f"snap-{hashlib.sha256(content).hexdigest()[:32]}"
    (store_root / "manifests" / f"{snapshot}.json").write_bytes(content)
    return snapshot


EMPTY = hashlib.sha256(b"").hexdigest()
FILE = {"name": "x", "kind": "file", "mode": 0o644, "size": 0, "digest": EMPTY, "inline": ""}
LINK = {"name": "l", "kind": "symlink", "target": "/"}


@pytest.mark.parametrize(
    "nodes",
    [
        [{**FILE, "name": ".."}],
        [{**FILE, "name": "../x"}],
        [{**FILE, "name": "/x"}],
        [{**FILE, "name": "a\u0000b"}],
        [{**FILE, "name": ""}],
        [LINK, {**LINK, "kind": "file"}],
        [LINK, {**FILE, "name": "l"}],
        [LINK, {"name": "l", "kind": "dir", "mode": 0o755, "digest": EMPTY}],
        [{"name": "d", "kind": "dir", "mode": 0o755, "digest": EMPTY, "inline": ""}],
        [{**LINK, "digest": EMPTY, "inline": ""}],
        [FILE, FILE],
        [{**FILE, "mode": 0o4755}],
        [{**FILE, "inline": None, "digest": "../../../etc/passwd"}],
        [{**FILE, "inline": "AAAA", "size": 3}],
        [{**FILE, "size": 9}],
        [{**FILE, "size": 1 << 70}],
        [{**FILE, "link": 1}],
        [{**FILE, "link": 7}],
        [{**FILE, "is_split": True}],
        [{**FILE, "kind": "device"}],
        [{**FILE, "xattrs": {"security.capability": ""}}],
        [{**FILE, "xattrs": {"user.a\u0000b": ""}}],
        ["not an object"],
    ],
)
def test_forged_tree_is_refused_and_writes_nothing(
    store: SnapshotStore, tmp_path: Path, nodes: list[dict[str, Any]]
) -> None:
    snapshot = forge(tmp_path / "store", nodes)
    (tmp_path / "into").mkdir()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(IntegrityError):
        store.restore(snapshot, tmp_path / "into")
    assert sorted(os.listdir(tmp_path)) == before
    assert not os.listdir(tmp_path / "into")


def test_file_with_the_bytes_of_a_directory_hides_nothing_from_a_sweep(
    store: SnapshotStore, tmp_path: Path
) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    for number in range(60):
        (tmp_path / "tree" / "sub" / f"file-{number}").write_bytes(os.urandom(5000))
    first = store.save(tmp_path / "tree", meta={})
    sub = next(node for _, node in store.entries(first) if node.name == "sub")
    blobs = tmp_path / "store" / "blobs"
    for name in ("a", "z"):
        shutil.copy(blobs / sub.digest[:2] / sub.digest, tmp_path / "tree" / name)
    second = store.save(tmp_path / "tree", meta={})
    store.delete(first)
    store.gc()
    store.verify(second)


@pytest.mark.parametrize("name", ["snap-" + "0" * 32, "snap-1", "../../etc/passwd", "", "snap-\n"])
def test_unknown_snapshot_is_not_found(store: SnapshotStore, tmp_path: Path, name: str) -> None:
    for call in (store.verify, store.delete):
        with pytest.raises(NotFound):
            call(name)


def test_meta_that_is_no_json_is_refused(store: SnapshotStore, tree: Path) -> None:
    for meta in ({"a": object()}, {"a": float("nan")}, {"skipped": 1}, {"a": "x" * (2 << 20)}):
        with pytest.raises(InvalidInput):
            store.save(tree, meta=meta)


def test_list_tells_what_each_snapshot_holds(store: SnapshotStore, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "f").write_bytes(bytes(5000))
    first = store.save(tmp_path / "tree", meta={"n": 1})
    second = store.save(tmp_path / "tree", meta={"n": 2})
    infos = store.list()
    assert {info.snapshot_id for info in infos} == {first, second}
    assert (infos[0].files, infos[0].entries, infos[0].size_bytes) == (1, 2, 5000)


def test_gc_frees_only_what_no_snapshot_uses(store: SnapshotStore, tmp_path: Path) -> None:
    shared, own = os.urandom(50_000), os.urandom(60_000)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "shared").write_bytes(shared)
    (tmp_path / "two" / "shared").write_bytes(shared)
    (tmp_path / "two" / "own").write_bytes(own)
    one, two = (store.save(tmp_path / name, meta={}) for name in ("one", "two"))
    assert store.gc() == 0
    store.delete(two)
    assert len(own) <= store.gc() < len(own) + len(shared)
    store.verify(one)
    with pytest.raises(NotFound):
        store.verify(two)


def test_gc_sweeps_what_a_crashed_save_left(store: SnapshotStore, tmp_path: Path) -> None:
    left = tmp_path / "store" / "tmp" / "0123"
    left.mkdir()
    (left / "new-1").write_bytes(b"half")
    store.gc()
    assert not left.exists()


def test_gc_refuses_to_guess_what_a_damaged_snapshot_uses(
    store: SnapshotStore, tree: Path, tmp_path: Path
) -> None:
    snapshot = store.save(tree, meta={})
    (tmp_path / "store" / "manifests" / f"{snapshot}.json").write_bytes(b"{}")
    before = stored_files(tmp_path / "store")
    with pytest.raises(IntegrityError, match=snapshot):
        store.gc()
    assert stored_files(tmp_path / "store") == before


def test_failed_save_leaves_nothing_staged(store: SnapshotStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(InvalidInput):
        store.save(tmp_path / "file", meta={})
    assert not os.listdir(tmp_path / "store" / "tmp")


SAVER = """
import sys
from pathlib import Path
from paddock.state.snapshots.store import SnapshotStore
store, tree = SnapshotStore(Path(sys.argv[1])), Path(sys.argv[2])
tree.mkdir()
for turn in range(8):
    (tree / "data").write_bytes(sys.argv[3].encode() + bytes([turn]) * 20000)
    (tree / "same").write_bytes(bytes([turn]) * 30000)
    print(store.save(tree, meta={}))
"""


def test_gc_never_takes_a_blob_from_a_concurrent_save(store: SnapshotStore, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ids: set[str] = set()
    with contextlib.ExitStack() as stack:
        savers = []
        for n in range(3):
            places = [str(tmp_path / "store"), str(tmp_path / f"t{n}")]
            command = [sys.executable, "-c", SAVER, *places, str(n)]
            saver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
            savers.append(stack.enter_context(saver))
        while any(saver.poll() is None for saver in savers):
            store.gc()
        for saver in savers:
            assert saver.returncode == 0
            assert saver.stdout is not None
            ids.update(saver.stdout.read().split())
    assert len(ids) == 24
    for snapshot in ids:
        store.verify(snapshot)


def test_swapped_links_never_lead_a_save_outside(store: SnapshotStore, tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    (outside / "sub").mkdir(parents=True)
    (outside / "data").write_text("SECRET" * 10)
    (outside / "sub" / "data").write_text("SECRET" * 10)
    (tree / "spot" / "sub").mkdir(parents=True)
    for path in (tree / "spot" / "data", tree / "spot" / "sub" / "data"):
        path.write_text("public")
    stop = threading.Event()
    swapper = threading.Thread(target=swap_until, args=(stop, tree, outside))
    swapper.start()
    try:
        for _ in range(150):
            for node in nodes_of(store, store.save(tree, meta={})):
                assert b"SECRET" not in (node.inline or b"")
    finally:
        stop.set()
        swapper.join()


def swap_until(stop: threading.Event, tree: Path, outside: Path) -> None:
    """Puts a link to the outside in the place of a directory and of a file, over and over."""
    while not stop.is_set():
        os.rename(tree / "spot", tree / "away")
        os.symlink(outside, tree / "spot")
        os.unlink(tree / "spot")
        os.rename(tree / "away", tree / "spot")
        os.rename(tree / "spot" / "data", tree / "spot" / "kept")
        os.symlink(outside / "data", tree / "spot" / "data")
        os.unlink(tree / "spot" / "data")
        os.mkfifo(tree / "spot" / "data")
        os.unlink(tree / "spot" / "data")
        os.rename(tree / "spot" / "kept", tree / "spot" / "data")


# The examples work on real files, and a busy disk is no fault of theirs.
SLOW_DISK = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
names = st.binary(min_size=1, max_size=12).filter(
    lambda name: name not in (b".", b"..") and not set(name) & set(b"/\0")
)
leaves = st.one_of(
    st.binary(max_size=6000),
    st.tuples(st.just("link"), names),
    st.just(("fifo",)),
    st.just(("whiteout",)),
)
trees = st.recursive(
    st.dictionaries(names, leaves, max_size=4),
    lambda inner: st.dictionaries(names, st.one_of(leaves, inner), max_size=4),
    max_leaves=12,
)


def build(root: bytes, spec: dict[bytes, Any]) -> None:
    os.mkdir(root)
    for name, what in spec.items():
        path = os.path.join(root, name)
        if isinstance(what, dict):
            build(path, what)
        elif isinstance(what, bytes):
            with open(path, "wb") as file:
                file.write(what)
        elif what[0] == "link":
            os.symlink(what[1], path)
        elif what[0] == "fifo":
            os.mkfifo(path)
        else:
            os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


@settings(suppress_health_check=SLOW_DISK)
@given(spec=trees)
def test_any_tree_survives_save_and_restore(
    tmp_path: Path, describe: Describe, spec: dict[bytes, Any]
) -> None:
    place = tmp_path / os.urandom(8).hex()
    place.mkdir()
    build(os.fsencode(place / "tree"), spec)
    (place / "into").mkdir()
    store = SnapshotStore(place / "store")
    snapshot = store.save(place / "tree", meta={})
    store.restore(snapshot, place / "into")
    assert describe(place / "into", times=True) == describe(place / "tree", times=True)
    assert store.save(place / "into", meta={}) == snapshot


@given(
    name=names,
    data=st.binary(max_size=100),
    mode=st.integers(0, 0o777),
    mtime_ns=st.integers(-(1 << 63), (1 << 63) - 1),
    xattrs=st.dictionaries(st.sampled_from(["user.a", "user.b"]), st.binary(max_size=9)),
    link=st.none() | st.integers(0, 1 << 40),
)
def test_node_of_a_snapshot_survives_its_line(
    name: bytes,
    data: bytes,
    mode: int,
    mtime_ns: int,
    xattrs: dict[str, bytes],
    link: int | None,
) -> None:
    node = Node(
        os.fsdecode(name),
        NodeKind.FILE,
        mode=mode,
        size=len(data),
        digest=hashlib.sha256(data).hexdigest(),
        mtime_ns=mtime_ns,
        xattrs=tuple(sorted(xattrs.items())),
        link=link,
        inline=data,
    )
    line = line_of(node)
    assert read_directory(line) == [node]
    assert b"\n" not in line and line.isascii()
