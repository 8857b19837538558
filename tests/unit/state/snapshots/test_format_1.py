"""Snapshots that earlier versions wrote are listed, verified, restored and kept by a sweep."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.errors import IntegrityError
from paddock.state.snapshots._format_1 import decode
from paddock.state.snapshots.store import SnapshotStore

WRITTEN = Path(__file__).resolve().parents[3] / "snapshots" / "format-1"
LARGE = "".join(f"line {n}\n" for n in range(600))
TIME_NS = 1_700_000_000_123_456_789


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    shutil.copytree(WRITTEN, tmp_path / "store")
    return SnapshotStore(tmp_path / "store")


def test_everything_that_was_saved_is_restored(store: SnapshotStore, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    store.restore(store.find("old-one"), into)
    assert {path.relative_to(into).as_posix() for path in into.rglob("*")} == {
        "empty",
        "not-utf8-\udcff",
        "opaque",
        "pipe",
        "small.txt",
        "sparse",
        "src",
        "src/deep",
        "src/deep/second-name",
        "src/deleted",
        "src/large.txt",
        "src/link",
    }
    assert (into / "small.txt").read_text() == "a small file\n"
    assert os.getxattr(into / "small.txt", "user.note") == b"kept"
    assert (into / "empty").read_bytes() == b""
    assert (into / "not-utf8-\udcff").read_bytes() == b"bytes"
    assert (into / "src/large.txt").read_text() == LARGE
    assert (into / "src/large.txt").samefile(into / "src/deep/second-name")
    assert stat.S_IMODE((into / "src/large.txt").stat().st_mode) == 0o640
    assert os.readlink(into / "src/link") == "../small.txt"
    assert stat.S_ISFIFO((into / "pipe").stat().st_mode)
    assert (into / "src/deleted").stat().st_rdev == 0
    assert stat.S_ISCHR((into / "src/deleted").stat().st_mode)
    assert os.getxattr(into / "opaque", "user.overlay.opaque") == b"y"
    assert stat.S_IMODE((into / "opaque").stat().st_mode) == 0o750
    for name in ("small.txt", "src", "src/large.txt", "src/link", "pipe"):
        assert os.lstat(into / name).st_mtime_ns == TIME_NS


def test_holes_stay_where_they_were(store: SnapshotStore, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    store.restore(store.find("old-one"), into)
    content = (into / "sparse").read_bytes()
    assert content == bytes(256 << 10) + b"data" * 1024 + bytes((768 << 10) - 4096)
    assert (into / "sparse").stat().st_blocks * 512 < 256 << 10


def test_what_an_old_snapshot_says_of_itself_is_read(store: SnapshotStore) -> None:
    (info,) = store.list()
    assert (info.name, info.entries, info.files) == ("old-one", 13, 5)
    assert info.meta["spec"] == {"cwd": "/home/user"}


def test_damage_is_named(store: SnapshotStore, tmp_path: Path) -> None:
    snapshot = store.find("old-one")
    store.verify(snapshot)
    (blob,) = (tmp_path / "store" / "blobs" / "67").iterdir()
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    with pytest.raises(IntegrityError, match="src/deep/second-name"):
        store.verify(snapshot)


def test_sweep_keeps_what_an_old_snapshot_uses(store: SnapshotStore, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "same").write_text(LARGE)
    (tmp_path / "tree" / "other").write_text(LARGE + "more")
    new = store.save(tmp_path / "tree", meta={})
    assert store.gc() == 0
    store.delete(new)
    assert store.gc() > 0
    store.verify(store.find("old-one"))


def test_restored_old_snapshot_saved_anew_restores_the_same(
    store: SnapshotStore, tmp_path: Path
) -> None:
    for name in ("into", "again"):
        (tmp_path / name).mkdir()
    store.restore(store.find("old-one"), tmp_path / "into")
    new = store.save(tmp_path / "into", meta={})
    store.restore(new, tmp_path / "again")
    assert store.save(tmp_path / "again", meta={}) == new


def forge(store_root: Path, lines: list[dict[str, Any]]) -> str:
    """A snapshot as a stranger could hand it over: all digests right, the content hostile."""
    tree = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    digest = hashlib.sha256(tree).hexdigest()
    (store_root / "blobs" / digest[:2]).mkdir(exist_ok=True)
    (store_root / "blobs" / digest[:2] / digest).write_bytes(tree)
    counts = {"entries": len(lines), "files": 0, "links": 1, "size_bytes": 0, "version": 1}
    header = {"tree": digest, "tree_bytes": len(tree), "meta": {}, **counts}
    content = json.dumps(header).encode()
    snapshot = f"snap-{hashlib.sha256(content).hexdigest()[:32]}"
    (store_root / "manifests" / f"{snapshot}.json").write_bytes(content)
    return snapshot


ROOT = {"depth": 0, "name": "", "type": "dir", "mode": 0o755}
LINK = {"depth": 1, "name": "l", "type": "symlink", "target": "/"}


@pytest.mark.parametrize(
    "lines",
    [
        [ROOT, {"depth": 1, "name": "..", "type": "file"}],
        [ROOT, {"depth": 1, "name": "../x", "type": "file"}],
        [ROOT, {"depth": 1, "name": "/x", "type": "file"}],
        [ROOT, {"depth": 1, "name": "a\u0000b", "type": "file"}],
        [ROOT, {"depth": 1, "name": "", "type": "file"}],
        [ROOT, LINK, {"depth": 2, "name": "tmp", "type": "dir"}],
        [ROOT, LINK, {**LINK, "type": "file", "target": None}],
        [ROOT, LINK, {"depth": 1, "name": "l", "type": "file"}],
        [ROOT, LINK, {"depth": 1, "name": "l", "type": "dir"}],
        [ROOT, {"depth": 3, "name": "x", "type": "file"}],
        [{"depth": 1, "name": "x", "type": "file"}],
        [ROOT, ROOT],
        [],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "mode": 0o4755}],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "blob": "../../../etc/passwd"}],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "link": 1}],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "link": 7}],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "size": 1 << 70}],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "size": 9, "extents": [[5, 5]]}],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "size": 9, "inline": "AAAA"}],
        [ROOT, {"depth": 1, "name": "x", "type": "device"}],
        [ROOT, {"depth": 1, "name": "x", "type": "file", "xattrs": {"security.capability": ""}}],
        [ROOT, ["not", "an", "object"]],
    ],
)
def test_forged_tree_is_refused_and_writes_nothing(
    store: SnapshotStore, tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    snapshot = forge(tmp_path / "store", lines)
    (tmp_path / "into").mkdir()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(IntegrityError):
        store.restore(snapshot, tmp_path / "into")
    assert sorted(os.listdir(tmp_path)) == before
    assert not os.listdir(tmp_path / "into")


@given(line=st.binary(max_size=200))
def test_any_other_line_is_an_integrity_error(line: bytes) -> None:
    with pytest.raises(IntegrityError):
        decode(line)
