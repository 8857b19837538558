"""The disk that a home takes, by part. Sizes are those on disk, also of sparse files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from paddock.state.files.tree_copy import tree_bytes
from paddock.state.home import Home
from paddock.state.layers.layers import volume_layer
from paddock.state.snapshots.store import SnapshotStore
from paddock.state.templates.store import TemplateStore

_BLOCK = 512
_INDEX = "index.sqlite"


class DiskUse(msgspec.Struct, frozen=True):
    """One part of a home. `count` is of what a person would count: runs, snapshots, sandboxes."""

    part: str
    size_bytes: int
    count: int | None
    what: str


def disk_use(home: Home) -> list[DiskUse]:
    """Return all parts of a home; their sum is the size of the whole."""
    volumes = sorted(path.stem for path in home.volumes.glob("*.json"))
    in_volumes = _volume_bytes(home, volumes)
    layers = _bytes([home.layers, home.pool_image])
    worlds, sandboxes = _names(home.worlds), _names(home.sandboxes)
    index = [path for path in home.root.glob(f"{_INDEX}*") if path.is_file()]
    parts = [
        DiskUse("runs", _bytes([home.runs]), len(_names(home.runs)), "journals"),
        DiskUse("files", _bytes([home.trees]), None, "files of runs at their steps"),
        DiskUse("worlds", _bytes([home.worlds]), len(worlds), "state of stand-ins"),
        DiskUse("snapshots", _bytes([home.snapshots]), _snapshots(home), "saved by sandboxes"),
        DiskUse("templates", _bytes([home.templates]), _templates(home), "root file systems"),
        DiskUse("volumes", in_volumes, len(volumes), "files in volumes"),
        DiskUse("layers", max(layers - in_volumes, 0), len(sandboxes), "files of sandboxes"),
        DiskUse("databases", _bytes([home.root / "postgres"]), None, "of the postgres stand-in"),
        DiskUse("caches", _bytes([home.cache]), None, "built when missing"),
        DiskUse("index", _bytes(index), None, "of the runs; paddock reindex makes it again"),
    ]
    listed = [home.runs, home.trees, home.worlds, home.snapshots, home.templates, home.layers,
             home.pool_image, home.root / "postgres", home.cache, *index]  # fmt: skip
    others = [path for path in home.root.iterdir() if path not in listed]
    return [*parts, DiskUse("other", _bytes(others), None, "keys, approvals, drafts, trust")]


def _bytes(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        if path.is_dir():
            total += tree_bytes(path)
        elif path.exists():
            total += os.stat(path).st_blocks * _BLOCK
    return total


def _names(directory: Path) -> list[str]:
    if not directory.is_dir():
        return []
    return [name for name in os.listdir(directory) if not name.startswith(".")]


def _snapshots(home: Home) -> int:
    return len(SnapshotStore(home.snapshots).list()) if home.snapshots.exists() else 0


def _templates(home: Home) -> int:
    return len(TemplateStore(home.templates).list()) if home.templates.exists() else 0


def _volume_bytes(home: Home, volumes: Iterable[str]) -> int:
    """Return the size of the volumes; in a pool only its keeper knows it."""
    names = [volume_layer(volume) for volume in volumes]
    if not names:
        return 0
    if not home.pool_image.exists():
        return _bytes(home.layers / name for name in names)
    from paddock.doors.machine.engine import Engine

    engine = Engine.current()
    layers = engine.call(engine.driver()).layers
    return sum(layers.used_bytes(name) for name in names)
