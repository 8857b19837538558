"""Snapshots: trees kept by content, each byte once, checked whenever they are read back.

A store is a directory with `blobs/` (contents and trees, by SHA-256) and `manifests/` (one small
file for each snapshot, naming its tree). It holds no paths, owners or other facts of the machine,
so a copy of it is as good elsewhere. What a tree looks like inside lives in `entries`.
"""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound
from paddock.model.spec import identifier
from paddock.state.files.descent import Descent, shown
from paddock.state.files.file_copy import digest_of
from paddock.state.files.store_lock import StoreLock
from paddock.state.snapshots.blobs import BlobStore
from paddock.state.snapshots.capture import Capture
from paddock.state.snapshots.entries import MAX_LINE_BYTES, Entry, decode
from paddock.state.snapshots.manifests import Header, ManifestFiles, check_meta, is_snapshot_id
from paddock.state.snapshots.restore import Owner, restore_tree


class SnapshotInfo(msgspec.Struct, frozen=True):
    """What is known of a snapshot without reading its tree."""

    snapshot_id: str
    name: str | None
    created_at: float
    entries: int
    files: int
    size_bytes: int
    meta: Mapping[str, Any]


class Manifest(msgspec.Struct, frozen=True):
    """A whole snapshot. `meta` is the caller's, with `skipped` (what could not be kept) added."""

    snapshot_id: str
    entries: tuple[Entry, ...]
    meta: Mapping[str, Any]


class SnapshotStore:
    """The snapshots below one directory. Several processes may use it at once."""

    def __init__(self, root: Path) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._manifests = ManifestFiles(root)
        self._blobs = BlobStore(root)
        self._lock = StoreLock(root / "lock")
        self._naming = StoreLock(root / "names.lock")  # one at a time takes a name

    def save(self, tree: Path | int, *, meta: Mapping[str, Any], name: str | None = None) -> str:
        """Stores a tree (a path, or the descriptor of an open directory) and gives its id. The
        same tree with the same meta and name has the same id, and the second time nothing is
        written. A name that another snapshot has is a Conflict."""
        check_meta(meta)
        with self._lock.shared(), self._blobs.stage() as stage:
            capture = Capture(stage)
            with Descent(tree, lift=True) as descent:
                digest, size = stage.put_chunks(capture.chunks(descent))
            header = Header(
                tree=digest,
                tree_bytes=size,
                entries=capture.entries,
                files=capture.files,
                links=capture.links,
                size_bytes=capture.size_bytes,
                meta={
                    **meta,
                    **({} if name is None else {"name": name}),
                    "skipped": dict(capture.skipped),
                },
            )
            # The manifest comes last: whoever sees it finds everything that it names.
            stage.publish()
            if name is None:
                return self._manifests.publish(header)
            with self._naming.exclusive():
                self.check_name(name)
                return self._manifests.publish(header)

    def check_name(self, name: str) -> None:
        """Raise Conflict if a snapshot has that name, InvalidInput if none can have it."""
        if is_snapshot_id(name):
            raise InvalidInput(f"snapshot: {name!r} looks like an id; choose another name")
        if any(info.name == name for info in self.list()):
            raise Conflict(
                f"snapshot {name!r} exists already",
                hint=f"choose another name, or remove it: paddock snapshot remove {name}",
            )

    def find(self, name: str) -> str:
        """Return the id of the snapshot with that name or id; NotFound if there is none."""
        if is_snapshot_id(name):
            return name
        for info in self.list():
            if info.name == name:
                return info.snapshot_id
        raise NotFound(f"no snapshot {name!r}", hint="paddock snapshot list shows them")

    def load(self, snapshot_id: str) -> Manifest:
        """The whole snapshot, its manifest and tree checked against their digests."""
        with self._lock.shared():
            header = self._manifests.read(snapshot_id)
            return Manifest(snapshot_id, tuple(self._entries(header)), header.meta)

    def restore(self, snapshot_id: str, into: Path, *, owner: Owner | None = None) -> None:
        """Writes the tree into an empty directory. A byte that is not what was saved means
        `IntegrityError` with the file's name, and `into` is empty again."""
        with self._lock.shared():
            header = self._manifests.read(snapshot_id)
            entries = self._entries(header)
            restore_tree(entries, into, self._blobs, linked=self._linked(header), owner=owner)

    def verify(self, snapshot_id: str) -> None:
        """Reads everything that the snapshot needs; `IntegrityError` names the first bad file."""
        with self._lock.shared():
            checked: set[str] = set()
            parts: list[str] = []
            for entry in self._entries(self._manifests.read(snapshot_id)):
                parts[max(entry.depth - 1, 0) :] = [entry.name]
                if entry.blob is None or entry.blob in checked:
                    continue
                try:
                    self._blobs.check(entry.blob, entry.stored_bytes)
                except IntegrityError as error:
                    raise IntegrityError(f"{shown('/'.join(parts))}: {error.message}") from None
                checked.add(entry.blob)

    def list(self) -> builtins.list[SnapshotInfo]:
        """All snapshots, oldest first. A damaged one is left out; `load` says what is wrong."""
        infos = []
        for snapshot_id in self._manifests.ids():
            with contextlib.suppress(IntegrityError, NotFound):
                infos.append(self._info(snapshot_id))
        return sorted(infos, key=lambda info: (info.created_at, info.snapshot_id))

    def delete(self, snapshot_id: str) -> None:
        """Forgets a snapshot; `gc` then frees what only it used."""
        with self._lock.exclusive():
            self._manifests.delete(snapshot_id)

    def gc(self) -> int:
        """Removes blobs that no snapshot uses, and leftovers of crashed saves; gives the bytes."""
        with self._lock.exclusive():
            self._manifests.sweep()
            return self._blobs.sweep(self._used())

    def unused_bytes(self) -> int:
        """Return what `gc` would free now, as far as it is in blobs."""
        with self._lock.shared():
            return sum(size for _, size in self._blobs.unused(self._used()))

    def _used(self) -> set[str]:
        used: set[str] = set()
        for snapshot_id in self._manifests.ids():
            try:
                header = self._manifests.read(snapshot_id)
                used.add(header.tree)
                used.update(entry.blob for entry in self._entries(header) if entry.blob)
            except IntegrityError as error:
                raise IntegrityError(
                    f"cannot tell what {snapshot_id} uses: {error.message}",
                    hint=f"delete {snapshot_id} first: it cannot be restored any more",
                ) from None
        return used

    def _entries(self, header: Header) -> Iterator[Entry]:
        fd = self._blobs.open(header.tree, header.tree_bytes)
        with os.fdopen(fd, "rb") as lines:
            if digest_of(fd, header.tree_bytes) != header.tree:
                raise IntegrityError(f"the tree {header.tree} was changed or damaged")
            while line := lines.readline(MAX_LINE_BYTES):
                yield decode(line)

    def _linked(self, header: Header) -> frozenset[int]:
        """The numbers of the entries that others are hard links to."""
        if not header.links:
            return frozenset()
        return frozenset(e.link for e in self._entries(header) if e.link is not None)

    def _info(self, snapshot_id: str) -> SnapshotInfo:
        header = self._manifests.read(snapshot_id)
        created_at = self._manifests.created_at(snapshot_id)
        try:
            name = identifier(header.meta.get("name"), "snapshot")
        except InvalidInput:  # it has none, or one from elsewhere that nobody could ask for
            name = None
        return SnapshotInfo(
            snapshot_id=snapshot_id,
            name=name,
            created_at=created_at,
            entries=header.entries,
            files=header.files,
            size_bytes=header.size_bytes,
            meta=header.meta,
        )
