"""The nodes of a snapshot written out as a tree. Every byte is checked on the way.

The directory that is filled is ours alone until this is done; still nothing is ever followed or
written over, so a damaged or forged tree cannot reach anything outside of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from paddock.model.errors import Conflict, HostCannot, IntegrityError, PaddockError
from paddock.state.changes.target_directory import Owner
from paddock.state.files.descent import DIR_FLAGS, Descent, shown
from paddock.state.files.tree_walk import empty, remove
from paddock.state.trees.node_files import NodeFiles
from paddock.state.trees.nodes import Node, NodeKind

Entries = Iterable[tuple[int, Node]]
Content = Callable[[Node], Iterator[tuple[int, bytes]]]


def restore_tree(
    entries: Entries,
    content: Content,
    into: Path,
    *,
    linked: frozenset[int] = frozenset(),
    owner: Owner | None = None,
) -> None:
    """Fill the empty directory `into`, or leave it empty and raise. `entries` are nodes with their
    depths, parents first; `linked` are the numbers of those that later ones are hard links to."""
    with Descent(into) as descent:
        if os.listdir(descent.fd):
            raise Conflict(f"{into} is not empty", hint="restore into a new directory")
        try:
            _TreeFiller(descent, NodeFiles(content, owner), linked).run(entries)
        except BaseException:
            with contextlib.suppress(OSError, PaddockError), Descent(into, lift=True) as again:
                empty(again)
            raise


class _TreeFiller:
    def __init__(self, descent: Descent, files: NodeFiles, linked: frozenset[int]) -> None:
        self._descent = descent
        self._files = files
        self._linked = linked
        self._open_dirs: list[Node] = []  # directories that get their mode when we leave them
        self._farm = -1

    def run(self, entries: Entries) -> None:
        with self._link_farm():
            for number, (depth, node) in enumerate(entries):
                self._place(number, depth, node)
        while len(self._open_dirs) > 1:
            self._leave()
        if not self._open_dirs:
            raise IntegrityError("a stored tree is empty")
        self._files.seal(self._descent.fd, self._open_dirs[0])

    def _place(self, number: int, depth: int, node: Node) -> None:
        if (depth == 0) != (number == 0) or depth > len(self._open_dirs):
            raise IntegrityError("a stored tree has an entry without its directory")
        try:
            while len(self._open_dirs) > max(depth, 1):
                self._leave()
            self._create(number, node)
        except FileExistsError:
            raise IntegrityError(f"a stored tree names {self._shown(node)} twice") from None
        except OSError as error:
            raise HostCannot(f"cannot write {self._shown(node)}: {error.strerror}") from None
        except IntegrityError as error:
            raise IntegrityError(f"{self._shown(node)}: {error.message}") from None

    def _create(self, number: int, node: Node) -> None:
        if node.kind is NodeKind.DIR:
            if number > 0:
                self._files.create(self._descent.fd, node)
                self._descent.enter(node.name)
            self._open_dirs.append(node)
            return
        if node.link is not None:
            self._link(str(node.link), self._farm, node.name, self._descent.fd)
            return
        self._files.create(self._descent.fd, node)
        if number in self._linked:
            self._link(node.name, self._descent.fd, str(number), self._farm)

    def _leave(self) -> None:
        node = self._open_dirs.pop()
        self._descent.leave(lambda fd: self._files.seal(fd, node))

    def _link(self, name: str, dir_fd: int, new_name: str, new_dir_fd: int) -> None:
        try:
            os.link(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=new_dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            raise IntegrityError("a stored tree has a hard link to no file") from None

    @contextlib.contextmanager
    def _link_farm(self) -> Iterator[None]:
        """Make a directory for second names of files that get hard links, so that no descriptor
        need stay open."""
        if not self._linked:
            yield
            return
        name = f".paddock-links-{secrets.token_hex(8)}"
        root = os.dup(self._descent.fd)
        try:
            os.mkdir(name, 0o700, dir_fd=root)
            self._farm = os.open(name, DIR_FLAGS, dir_fd=root)
            yield
            remove(name, root)
        finally:
            if self._farm >= 0:
                os.close(self._farm)
            os.close(root)

    def _shown(self, node: Node) -> str:
        return shown(self._descent.path_of(node.name))
