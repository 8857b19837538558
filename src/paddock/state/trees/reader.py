"""Stored trees as they are read: listed, opened, checked. Nothing is written here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paddock.model.errors import IntegrityError, NotFound
from paddock.objects.file_bytes import CHUNK_BYTES
from paddock.objects.store import ObjectStore
from paddock.state.files.descent import shown
from paddock.state.trees.large_files import PART_BYTES, read_list
from paddock.state.trees.nodes import Node, NodeKind, StoredTree, read_directory, read_tree


class TreeReader:
    """Reads the trees whose objects lie in one store."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    def tree(self, digest: str) -> StoredTree:
        return read_tree(self.objects.read(digest))

    def nodes(self, directory: Node) -> list[Node]:
        """Return what is in a directory, sorted by name."""
        return list(self._nodes(directory))

    def walk(self, root: Node) -> Iterator[tuple[int, Node]]:
        """Yield a root and everything below it with its depth, parents first. It does not recurse:
        a forged tree may be deep."""
        yield 0, root
        pending = [self._nodes(root)]
        while pending:
            node = next(pending[-1], None)
            if node is None:
                pending.pop()
                continue
            yield len(pending), node
            if node.kind is NodeKind.DIR:
                pending.append(self._nodes(node))

    def entries(self, tree: str) -> Iterator[tuple[str, Node]]:
        """Yield every path of a state with its node, parents first. A path begins with the name of
        its root."""
        for name, root in self.tree(tree).roots.items():
            yield name, root
            yield from self.below(name, root)

    def below(self, path: str, directory: Node) -> Iterator[tuple[str, Node]]:
        """Yield every path below a directory, which has the path `path`."""
        parts: list[str] = []
        for depth, node in self.walk(directory):
            parts[depth:] = [node.name if depth else path]
            if depth:
                yield "/".join(parts), node

    def find(self, tree: str, root: str, path: str) -> Node:
        """Return the node at a path below a root. Raises NotFound when there is none."""
        node = self.tree(tree).roots.get(root)
        if node is None:
            raise NotFound(f"the tree has no root {root!r:.80}")
        for part in path.split("/") if path else ():
            inner = self._nodes(node) if node.kind is NodeKind.DIR else iter(())
            node = next((child for child in inner if child.name == part), None)
            if node is None:
                raise NotFound(f"{shown(path)} is not in the tree")
        return node

    def is_kept(self, node: Node) -> bool:
        """Return whether the bytes of a file can be had."""
        if node.inline is not None:
            return True
        return node.is_kept and bool(node.digest) and self.objects.has(node.digest)

    def open_blob(self, node: Node) -> Iterator[bytes]:
        """Yield the bytes of a file in pieces. Raises NotFound if that version was not stored."""
        at = 0
        for offset, data in self.pieces(node):
            yield from _zeros(offset - at)
            yield data
            at = offset + len(data)
        yield from _zeros(node.size - at)

    def pieces(self, node: Node) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file by offset, without those that are zeros because they lie in a
        hole. Raises NotFound if that version was not stored."""
        if not self.is_kept(node):
            raise NotFound(
                f"this version of {shown(node.name)} was not stored",
                hint="it did not fit into the run's record budget; the last one always is",
            )
        yield from self.stored_pieces(node)

    def verify(self, tree: str) -> int:
        """Check every byte of a state; return the number of entries. Raises IntegrityError that
        names the first path that is damaged."""
        count, checked, parts = 0, set[str](), ["the tree"]
        try:
            for name, root in self.tree(tree).roots.items():
                for depth, node in self.walk(root):
                    parts[depth:] = [node.name if depth else name]
                    count += 1
                    if node.kind is NodeKind.FILE and node.is_kept and node.digest not in checked:
                        for _ in self.stored_pieces(node):
                            pass
                        checked.add(node.digest)
        except IntegrityError as error:
            raise IntegrityError(f"{shown('/'.join(parts))}: {error.message}") from None
        return count

    def needed(self, trees: Iterable[str]) -> set[str]:
        """Return the digests of all objects that some trees consist of."""
        needed: set[str] = set()
        # Those whose content was looked at. An agent can write a file that has the bytes of a
        # directory's object: that it is needed does not mean that what it names is.
        expanded: set[str] = set()
        for tree in trees:
            if tree not in expanded:
                expanded.add(tree)
                needed.add(tree)
                self._need(list(self.tree(tree).roots.values()), needed, expanded)
        return needed

    def _need(self, pending: list[Node | str], needed: set[str], expanded: set[str]) -> None:
        """Add what some directories, pieces of directories and files consist of."""
        while pending:
            item = pending.pop()
            is_file = isinstance(item, Node) and item.kind is NodeKind.FILE
            digest = item if isinstance(item, str) else item.digest
            needed.add(digest)
            if digest in expanded or (is_file and not _is_list(item)):
                continue
            expanded.add(digest)
            if is_file:
                parts, _ = read_list(self.objects.read(digest))
                needed.update(part.digest for part in parts)
            else:
                children = read_directory(self.objects.read(digest))
                pending += (child for child in children if isinstance(child, str) or child.digest)

    def _nodes(self, directory: Node) -> Iterator[Node]:
        for item in read_directory(self.objects.read(directory.digest)):
            if isinstance(item, Node):
                yield item
                continue
            for node in read_directory(self.objects.read(item)):
                if isinstance(node, Node):
                    yield node

    def stored_pieces(self, node: Node) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a stored file by offset. Raises IntegrityError for a missing one."""
        if node.inline is not None:
            yield 0, node.inline
        elif node.is_split:
            yield from self._parts(node)
        else:
            at = 0
            for chunk in self.objects.chunks(node.digest):
                yield at, chunk
                at += len(chunk)
            if at != node.size:
                raise IntegrityError(f"object {node.digest} has another length than its node says")

    def _parts(self, node: Node) -> Iterator[tuple[int, bytes]]:
        parts, size = read_list(self.objects.read(node.digest))
        if size != node.size:
            raise IntegrityError(f"the list of the parts of {shown(node.name)} is not its own")
        for part in parts:
            data = self.objects.read(part.digest, PART_BYTES)
            if len(data) != part.length:
                raise IntegrityError(f"object {part.digest} has another length than its list says")
            yield part.offset, data


def _is_list(item: Node | str) -> bool:
    """Return whether an object is the list of the parts of a file."""
    return isinstance(item, Node) and item.is_split and item.is_kept


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, CHUNK_BYTES))
        count -= CHUNK_BYTES
