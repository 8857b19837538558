"""Trees of files by their digests, shared by all runs: listed, read, compared, checked, swept.

How a state comes into the store lives in `recorder`, how it comes out in `restore`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.model.errors import Conflict, IntegrityError, NotFound
from paddock.state.files.descent import shown
from paddock.state.files.file_copy import CHUNK_BYTES
from paddock.state.files.store_lock import StoreLock
from paddock.state.trees.comparison import Change, changes_between
from paddock.state.trees.large_files import PART_BYTES, read_list
from paddock.state.trees.nodes import Node, NodeKind, Tree, read_directory, read_tree
from paddock.state.trees.objects import Objects

if TYPE_CHECKING:
    from paddock.state.changes.target_directory import Owner
    from paddock.state.trees.held_files import HeldFiles, MappedFiles
    from paddock.state.trees.recorder import Recorder
    from paddock.state.trees.restore import Restored

# A run whose journal is being closed does not hold the lock any more, and may not be listed yet.
_GRACE_S = 3600.0


class TreeStore:
    """The store below one directory, which is made when missing."""

    def __init__(self, root: Path) -> None:
        self.objects = Objects(root)
        self._lock = StoreLock(root / "lock")

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Nothing is swept within this: for as long as a run records, or a tree is read."""
        with self._lock.shared():
            yield

    def recorder(
        self,
        roots: Mapping[str, Path],
        *,
        mapped: Callable[[], MappedFiles] | None = None,
        may_store: Callable[[int], bool] | None = None,
    ) -> Recorder:
        """Records directories into this store; each root has a name, such as `home`. `mapped` gives
        the files that processes have mapped shared; `may_store` says whether so many bytes
        more fit into what may be stored."""
        from paddock.state.trees.recorder import Recorder

        return Recorder(self.objects, roots, mapped=mapped, may_store=may_store)

    def tree(self, digest: str) -> Tree:
        return read_tree(self.objects.read(digest))

    def nodes(self, directory: Node) -> list[Node]:
        """What is in a directory, sorted by name."""
        found = read_directory(self.objects.read(directory.digest))
        nodes = [one for one in found if isinstance(one, Node)]
        for piece in found:
            if isinstance(piece, str):
                inner = read_directory(self.objects.read(piece))
                nodes += [one for one in inner if isinstance(one, Node)]
        return nodes

    def entries(self, tree: str) -> Iterator[tuple[str, Node]]:
        """Every path of a state with its node, parents first; paths begin with the root's name."""
        for name, root in self.tree(tree).roots.items():
            yield name, root
            yield from self.below(name, root)

    def below(self, path: str, directory: Node) -> Iterator[tuple[str, Node]]:
        """Every path below a directory, without recursion: a forged tree may be deep."""
        pending = [(path, iter(self.nodes(directory)))]
        while pending:
            at, nodes = pending[-1]
            node = next(nodes, None)
            if node is None:
                pending.pop()
                continue
            here = f"{at}/{node.name}"
            yield here, node
            if node.kind is NodeKind.DIR:
                pending.append((here, iter(self.nodes(node))))

    def find(self, tree: str, root: str, path: str) -> Node:
        """The node at a path below a root; NotFound when there is none."""
        node = self.tree(tree).roots.get(root)
        if node is None:
            raise NotFound(f"the tree has no root {root!r:.80}")
        for part in path.split("/") if path else ():
            inner = self.nodes(node) if node.kind is NodeKind.DIR else []
            node = next((one for one in inner if one.name == part), None)
            if node is None:
                raise NotFound(f"{shown(path)} is not in the tree")
        return node

    def is_kept(self, node: Node) -> bool:
        """Whether the bytes of a file can be had."""
        return node.is_kept and bool(node.digest) and self.objects.has(node.digest)

    def open_blob(self, node: Node) -> Iterator[bytes]:
        """The bytes of a file in pieces; NotFound if that version was not stored."""
        at = 0
        for offset, data in self.pieces(node):
            yield from _zeros(offset - at)
            yield data
            at = offset + len(data)
        yield from _zeros(node.size - at)

    def pieces(self, node: Node) -> Iterator[tuple[int, bytes]]:
        """The bytes of a file by offset, without those that are zeros because they lie in a hole.
        NotFound if that version was not stored."""
        if not self.is_kept(node):
            raise NotFound(
                f"this version of {shown(node.name)} was not stored",
                hint="it did not fit into the run's record budget; the last one always is",
            )
        if not node.is_split:
            at = 0
            for chunk in self.objects.chunks(node.digest):
                yield at, chunk
                at += len(chunk)
            return
        parts, size = read_list(self.objects.read(node.digest))
        if size != node.size:
            raise IntegrityError(f"the list of the parts of {shown(node.name)} is not its own")
        for part in parts:
            data = self.objects.read(part.digest, PART_BYTES)
            if len(data) != part.length:
                raise IntegrityError(f"object {part.digest} has another length than its list says")
            yield part.offset, data

    def diff(self, before: str, after: str) -> list[Change]:
        """What is other in the second state. Equal directories are not even read."""
        return changes_between(self, before, after)

    def restore(
        self,
        tree: str,
        roots: Mapping[str, Path],
        *,
        owner: Owner | None = None,
        recorder: Recorder | None = None,
        keep: frozenset[str] = frozenset(),
        held: HeldFiles | None = None,
        first: str | None = None,
    ) -> Restored:
        """Makes the roots that state, and changes only what is other and not held by a process.
        See `restore` and `held_files`."""
        from paddock.state.trees.held_files import NOTHING_HELD
        from paddock.state.trees.restore import restore

        return restore(
            self,
            tree,
            roots,
            owner=owner,
            recorder=recorder,
            keep=keep,
            held=held or NOTHING_HELD,
            first=first,
        )

    def verify(self, tree: str) -> int:
        """Checks every byte of a state; gives the number of entries. `IntegrityError` names the
        first path that is damaged."""
        count, checked, last = 0, set[str](), "the tree"
        try:
            for path, node in self.entries(tree):
                count, last = count + 1, path
                if node.kind is NodeKind.FILE and node.is_kept and node.digest not in checked:
                    self._check(node)
                    checked.add(node.digest)
        except IntegrityError as error:
            raise IntegrityError(f"{shown(last)}: {error.message}") from None
        return count

    def gc(self, used: Iterable[str], *, older_than_s: float = _GRACE_S) -> int:
        """Removes all that none of these trees needs; gives the bytes. The trees are asked for
        when nobody else uses the store; `Conflict` when somebody does."""
        with self._lock.exclusive_if_free() as is_free:
            if not is_free:
                raise Conflict("the store of trees is in use", hint="try again when no run is left")
            return self.objects.sweep(self._needed(used), older_than_s=older_than_s)

    def unused_bytes(self, used: Iterable[str], *, older_than_s: float = _GRACE_S) -> int:
        """Return what `gc` would free if nobody used the store; others may use it meanwhile."""
        with self._lock.shared():
            found = self.objects.unused(self._needed(used), older_than_s=older_than_s)
            return sum(size for _, size in found)

    def _check(self, node: Node) -> None:
        for _ in self.pieces(node) if node.is_split else self.objects.chunks(node.digest):
            pass

    def _needed(self, trees: Iterable[str]) -> set[str]:
        needed: set[str] = set()
        for tree in trees:
            self._need(tree, needed)
        return needed

    def _need(self, tree: str, needed: set[str]) -> None:
        if tree in needed:
            return
        needed.add(tree)
        pending = [node.digest for node in self.tree(tree).roots.values()]
        while pending:
            digest = pending.pop()
            if digest in needed:
                continue
            needed.add(digest)
            for one in read_directory(self.objects.read(digest)):
                if isinstance(one, str) or one.kind is NodeKind.DIR:
                    pending.append(one if isinstance(one, str) else one.digest)
                elif one.digest:
                    needed.add(one.digest)
                    if one.is_split and one.is_kept:
                        parts, _ = read_list(self.objects.read(one.digest))
                        needed.update(part.digest for part in parts)


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, CHUNK_BYTES))
        count -= CHUNK_BYTES
