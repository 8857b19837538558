"""Garbage of a home: what nothing refers to any more. Found, measured, and removed by `paddock gc`.

Runs, snapshots, templates, volumes and running sandboxes are never garbage, nor is what they need.
How that is known, part by part, while other processes go on working:

- layers: a sandbox holds the lock on its lease while its keeper lives, and has its directory from
  before its layer is made until after that is removed. So a lease that can be locked is abandoned,
  and so is a layer that was listed before its directory was found missing. Copies that forks and
  snapshots are made from are garbage when no record names them and nobody is making any.
- files: objects that no journal's tree names, while no run records (the store's lock says so).
- snapshots: blobs that no snapshot names, under the store's lock.
- worlds: of no run and no sandbox. One that is being made for a fork has neither yet, but is young.
- templates: what a crashed `template add` has left, if none is under way.
- caches: what is half built and not young; and what was not used for a week, unless a sandbox runs
  that is as old as its last use: it may have it mounted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from paddock.doors.machine.engine import Engine
from paddock.model.errors import PaddockError
from paddock.run.changes import scratch_home
from paddock.run.files import store_of
from paddock.run.removal import TRASH, discard, with_trees_in_use
from paddock.state.files.tree_copy import tree_bytes
from paddock.state.home import Home, SandboxRecord, abandoned, held
from paddock.state.layers.layers import Layers, copies_lock, is_copy, unneeded_copies, volume_of
from paddock.state.snapshots.store import SnapshotStore
from paddock.state.templates.store import TemplateStore

# Nobody takes longer between the first file of something and what refers to it.
YOUNG_S = 3600.0
CACHE_S = 7 * 86400.0
_BUILT_ONCE = ("etc-", "inside-", "python-")
_HALF_BUILT = (".new-", ".building-")


class Garbage(msgspec.Struct, frozen=True):
    """The unreferenced data that one part of the home has, or had. `count` is None where things are
    not counted one by one; `remark` says why something was left."""

    part: str
    size_bytes: int = 0
    count: int | None = None
    remark: str | None = None


def find_garbage(home: Home) -> list[Garbage]:
    """Return what `remove_garbage` would remove."""
    return [_tried(part, look, home, False) for part, look in _PARTS.items()]


def remove_garbage(home: Home) -> list[Garbage]:
    """Remove everything that nothing refers to, and return what it was."""
    return [_tried(part, look, home, True) for part, look in _PARTS.items()]


def _tried(
    part: str, look: Callable[[Home, bool], Garbage], home: Home, is_removing: bool
) -> Garbage:
    try:
        return look(home, is_removing)
    except PaddockError as error:  # the other parts do not depend on it
        hint = f" ({error.hint})" if error.hint else ""
        return Garbage(part, remark=f"{error.message}{hint}")


def _in_layers(home: Home, is_removing: bool) -> Garbage:
    if not home.pool_image.exists() and not home.layers.exists():
        return Garbage("layers", count=0)
    engine = Engine.current()
    # While we hold these, the keeper that we start sweeps nothing that we have not measured.
    with contextlib.ExitStack() as locks:
        is_free = locks.enter_context(copies_lock(home).exclusive_if_free())
        names: set[str] = set()
        for directory, lease in abandoned(home):
            locks.callback(os.close, lease)
            names |= _layers_of(directory)
        driver = engine.call(engine.driver())
        locks.enter_context(home.lock("volumes"))
        orphans = _orphans(home, driver.layers)
        names.update(orphans, unneeded_copies(home, driver.layers) if is_free else ())
        size = sum(_own_bytes(driver.layers, name) for name in names)
        for name in orphans if is_removing else ():
            driver.layers.destroy(name)
    if is_removing:
        engine.call(driver.sweep())
        driver.layers.trim()
    return Garbage("layers", size, len(names))


def _layers_of(sandbox: Path) -> set[str]:
    """Return a sandbox's own layer, and the copy that it is compared with, which forks share."""
    record = SandboxRecord.read(sandbox)
    if record is None:
        return set()
    base = (record.info or {}).get("base")
    return {record.layer, base} if base else {record.layer}


def _orphans(home: Home, layers: Layers) -> list[str]:
    """Return the layers of sandboxes and volumes that do not exist."""
    orphans = []
    for name in layers.names():
        volume = volume_of(name)
        if volume is not None:
            is_owned = (home.volumes / f"{volume}.json").exists()
        else:
            is_owned = is_copy(name) or (home.sandboxes / name).exists()
        if not is_owned:
            orphans.append(name)
    return orphans


def _own_bytes(layers: Layers, name: str) -> int:
    try:
        return layers.own_bytes(name)
    except OSError:
        return 0  # it was never made, or is gone


def _in_files(home: Home, is_removing: bool) -> Garbage:
    store = store_of(home)
    collect = store.gc if is_removing else store.unused_bytes
    return Garbage("files", with_trees_in_use(home, collect))


def _in_snapshots(home: Home, is_removing: bool) -> Garbage:
    if not home.snapshots.exists():
        return Garbage("snapshots")
    store = SnapshotStore(home.snapshots)
    return Garbage("snapshots", store.gc() if is_removing else store.unused_bytes())


def _in_worlds(home: Home, is_removing: bool) -> Garbage:
    def is_garbage(world: Path) -> bool:
        is_owned = (home.sandboxes / world.name).exists() or (home.runs / world.name).exists()
        return not is_owned and _idle_s(world) > YOUNG_S

    return _removed("worlds", home, is_removing, _entries(home.worlds), is_garbage)


def _in_templates(home: Home, is_removing: bool) -> Garbage:
    if not home.templates.exists():
        return Garbage("templates", count=0)
    store = TemplateStore(home.templates)
    before = {directory: tree_bytes(directory) for directory in store.unfinished()}
    if is_removing:
        store.sweep()
        left = store.unfinished()
        before = {directory: size for directory, size in before.items() if directory not in left}
    return Garbage("templates", sum(before.values()), len(before))


def _in_caches(home: Home, is_removing: bool) -> Garbage:
    oldest = min(_running_since(home), default=time.time())

    def is_garbage(path: Path) -> bool:
        if path.name.startswith(TRASH):
            return True
        if path.parent == home.sites or path.name.startswith(_BUILT_ONCE):
            used_at = path.stat().st_mtime  # `mark_used` sets it
            return time.time() - used_at > CACHE_S and oldest > used_at + YOUNG_S
        is_scratch = path.parent == scratch or path.name.startswith(_HALF_BUILT)
        return is_scratch and path.is_dir() and _idle_s(path) > YOUNG_S

    scratch = scratch_home(home)
    paths = [entry for at in (home.cache, home.sites, scratch) for entry in _entries(at)]
    return _removed("caches", home, is_removing, paths, is_garbage)


def _running_since(home: Home) -> Iterator[float]:
    for directory in _entries(home.sandboxes):
        if held(directory):
            with contextlib.suppress(FileNotFoundError):  # it has ended just now
                yield (directory / "lease").stat().st_mtime


def _removed(
    part: str,
    home: Home,
    is_removing: bool,
    paths: list[Path],
    is_garbage: Callable[[Path], bool],
) -> Garbage:
    size = count = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another process removes as well
            if not is_garbage(path):
                continue
            path_bytes = tree_bytes(path)
            if is_removing:
                if not is_garbage(path):  # to measure it took a while
                    continue
                discard(home, path)
            size, count = size + path_bytes, count + 1
    return Garbage(part, size, count)


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _idle_s(directory: Path) -> float:
    """Return the seconds since the last change in a directory, one level deep."""
    try:
        times = [
            directory.stat().st_mtime,
            *(entry.lstat().st_mtime for entry in _entries(directory)),
        ]
    except FileNotFoundError:
        return 0.0  # somebody is at work there
    return time.time() - max(times)


_PARTS: dict[str, Callable[[Home, bool], Garbage]] = {
    "layers": _in_layers,
    "worlds": _in_worlds,
    "files": _in_files,
    "snapshots": _in_snapshots,
    "templates": _in_templates,
    "caches": _in_caches,
}
