"""Snapshots: trees kept by content, each byte once, checked whenever they are read back.

A store is a directory with `blobs/` (objects: directories and the contents of files) and
`manifests/` (one small file for each snapshot, naming its tree). It holds no paths, owners or other
facts of the machine, so a copy of it is as good elsewhere. The format of a tree is that of the
states of runs (`trees.nodes`); trees of earlier versions are read by `_format_1`.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound
from paddock.model.spec import identifier
from paddock.objects.store import Framing, ObjectStore
from paddock.objects.store_lock import StoreLock
from paddock.state.changes.target_directory import Owner
from paddock.state.files.descent import Descent, shown
from paddock.state.snapshots._capture import Capture
from paddock.state.snapshots._format_1 import Format1Reader
from paddock.state.snapshots._manifests import Header, ManifestFiles, check_meta, is_snapshot_id
from paddock.state.snapshots._restore import Content, restore_tree
from paddock.state.trees.nodes import Node, NodeKind
from paddock.state.trees.reader import TreeReader


class SnapshotInfo(msgspec.Struct, frozen=True):
    """The facts of a snapshot that are known without reading its tree."""

    snapshot_id: str
    name: str | None
    created_at: float
    entries: int
    files: int
    size_bytes: int
    meta: Mapping[str, Any]


class SnapshotStore:
    """The snapshots below one directory. Several processes may use it at once."""

    def __init__(self, root: Path) -> None:
        for directory in (root, root / "blobs", root / "tmp"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._manifests = ManifestFiles(root)
        self._objects = ObjectStore(
            root / "blobs", framing=Framing.RAW, staging=root / "tmp", noun="blob"
        )
        self._trees = TreeReader(self._objects)
        self._format_1 = Format1Reader(self._objects)
        self._lock = StoreLock(root / "lock")
        self._naming = StoreLock(root / "names.lock")  # one at a time takes a name

    def save(self, tree: Path | int, *, meta: Mapping[str, Any], name: str | None = None) -> str:
        """Store a tree (a path, or the descriptor of an open directory) and return its id. The same
        tree with the same meta and name has the same id, and the second time nothing is written. A
        name that another snapshot has is a Conflict."""
        check_meta(meta)
        with self._lock.shared(), self._objects.batch() as batch:
            capture = Capture(batch)
            with Descent(tree, lift=True) as descent:
                digest = capture.save(descent)
            own_meta = {"skipped": dict(capture.skipped)}
            header = Header(
                tree=digest,
                entries=capture.entries,
                files=capture.files,
                links=capture.links,
                size_bytes=capture.size_bytes,
                meta={**meta, **own_meta, **({} if name is None else {"name": name})},
            )
            # The manifest comes last: whoever sees it finds everything that it names.
            batch.publish()
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

    def entries(self, snapshot_id: str) -> Iterator[tuple[int, Node]]:
        """Yield the nodes of a snapshot with their depths, parents first. All that is read is
        checked against its digest."""
        with self._lock.shared():
            yield from self._entries(self._manifests.read(snapshot_id))

    def restore(self, snapshot_id: str, into: Path, *, owner: Owner | None = None) -> None:
        """Write the tree into an empty directory. A byte that is not what was saved means an
        IntegrityError with the file's name, and `into` is empty again."""
        with self._lock.shared():
            header = self._manifests.read(snapshot_id)
            linked: frozenset[int] = frozenset()
            if header.links:
                links = (node.link for _, node in self._entries(header))
                linked = frozenset(link for link in links if link is not None)
            entries, content = self._entries(header), self._content(header)
            restore_tree(entries, content, into, linked=linked, owner=owner)

    def verify(self, snapshot_id: str) -> None:
        """Read everything that the snapshot needs. Raises IntegrityError that names the first file
        that is damaged."""
        with self._lock.shared():
            header = self._manifests.read(snapshot_id)
            content = self._content(header)
            checked: set[str] = set()
            parts: list[str] = []
            for depth, node in self._entries(header):
                parts[max(depth - 1, 0) :] = [node.name]
                if node.kind is not NodeKind.FILE or node.link is not None:
                    continue
                if node.digest in checked:
                    continue
                try:
                    for _ in content(node):
                        pass
                except IntegrityError as error:
                    raise IntegrityError(f"{shown('/'.join(parts))}: {error.message}") from None
                checked.add(node.digest)

    def list(self) -> builtins.list[SnapshotInfo]:
        """Return all snapshots, oldest first. A damaged one is left out; `verify` says what is
        wrong."""
        infos = []
        for snapshot_id in self._manifests.ids():
            with contextlib.suppress(IntegrityError, NotFound):
                infos.append(self._info(snapshot_id))
        return sorted(infos, key=lambda info: (info.created_at, info.snapshot_id))

    def delete(self, snapshot_id: str) -> None:
        """Forget a snapshot; `gc` then frees what only it used."""
        with self._lock.exclusive():
            self._manifests.delete(snapshot_id)

    def gc(self) -> int:
        """Remove objects that no snapshot uses and leftovers of crashed saves; return the bytes."""
        with self._lock.exclusive():
            self._manifests.sweep()
            return self._objects.sweep(self._used())

    def unused_bytes(self) -> int:
        """Return what `gc` would free now."""
        with self._lock.shared():
            return sum(size for _, size in self._objects.unused(self._used()))

    def _used(self) -> set[str]:
        used: set[str] = set()
        for snapshot_id in self._manifests.ids():
            try:
                header = self._manifests.read(snapshot_id)
                if header.version == 1:
                    used |= self._format_1.needed(header.tree)
                else:
                    used |= self._trees.needed([header.tree])
            except IntegrityError as error:
                raise IntegrityError(
                    f"cannot tell what {snapshot_id} uses: {error.message}",
                    hint=f"delete {snapshot_id} first: it cannot be restored any more",
                ) from None
        return used

    def _entries(self, header: Header) -> Iterator[tuple[int, Node]]:
        if header.version == 1:
            yield from self._format_1.walk(header.tree)
        else:
            for root in self._trees.tree(header.tree).roots.values():
                yield from self._trees.walk(root)

    def _content(self, header: Header) -> Content:
        """Return what gives the bytes of a file."""
        return self._format_1.pieces if header.version == 1 else self._trees.stored_pieces

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
