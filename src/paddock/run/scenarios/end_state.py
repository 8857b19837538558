"""The state that a run left: the documents of its stand-ins, and the files of its project, which
are what the agent wrote over what it found."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput, NotFound
from paddock.model.events import Configured
from paddock.run.changes import configuration_of
from paddock.run.files import store_of, tree_at
from paddock.state.home import Home
from paddock.state.trees.nodes import Node, NodeKind, StoredTree
from paddock.state.trees.store import TreeStore
from paddock.world.saved_worlds import SavedService, open_saved_world

MAX_DOCUMENTS = 20_000  # of one kind; no condition looks at more
# Their memory is not in the store.
_OF_THEIR_OWN = frozenset({"command", "postgres"})
MAX_BYTES = 4 << 20  # of one file that is looked into
_MAX_LISTED = 1000


def world_left(directory: Path) -> dict[str, Mapping[str, Any]]:
    """Return the documents of each stand-in by kind; nothing for a run without a world. Raises
    IntegrityError for a damaged one, and InvalidInput for one that is too large to be looked at."""
    directory = directory.absolute()
    try:
        with open_saved_world(directory.parent.parent, directory.name) as world:
            return {service.name: _documents(service) for service in world.services}
    except NotFound:
        return {}


def _documents(service: SavedService) -> Mapping[str, Any]:
    store = service.store
    documents: dict[str, Any] = {}
    for kind in store.kinds():
        count = store.count(kind)
        if count > MAX_DOCUMENTS:
            raise InvalidInput(f"{service.name} has {count} {kind}, at most {MAX_DOCUMENTS}")
        documents[kind] = store.find(kind)
    if service.service in _OF_THEIR_OWN:
        return {**service.show(), **documents}
    return documents


def files_left(directory: Path) -> FilesLeft:
    """Return the files that a run left. Raises NotFound when none were recorded."""
    directory = directory.absolute()
    configured = configuration_of(directory)
    if not configured.cwd:
        raise NotFound("the run does not say where it ran", hint="paddock run does")
    return FilesLeft(store_of(Home(directory.parent.parent)), tree_at(directory), configured)


@dataclass
class FilesLeft:
    """Paths are those of the project, or absolute ones as the agent saw them."""

    store: TreeStore
    tree: str
    configured: Configured

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._found(path) is not None

    def __getitem__(self, path: str) -> str:
        """Return the text of a file. Raises KeyError when there is none, InvalidInput when it is
        not text."""
        try:
            return self.read_bytes(path).decode()
        except UnicodeDecodeError as error:
            why = f"{path} is not text: byte {error.start} is not UTF-8"
            raise InvalidInput(why) from None

    def read_bytes(self, path: str) -> bytes:
        """Return the bytes of a file. Raises KeyError when there is none, InvalidInput when it is
        not a regular file or too large."""
        entry = self._found(path)
        if entry is None:
            raise KeyError(path)
        if isinstance(entry, Path):
            return _read(entry, path)
        if entry.kind is not NodeKind.FILE:
            raise InvalidInput(f"{path} is a {entry.kind}, not a file")
        if entry.size > MAX_BYTES:
            raise InvalidInput(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        return b"".join(self.store.open_blob(entry))

    def changed(self) -> list[str]:
        """Return the files that the agent wrote into the project, the first thousand."""
        below = self._tree.roots.get(self._project)
        if below is None:
            return []
        paths: list[str] = []
        for path, node in self.store.below(self._project, below):
            if node.kind is NodeKind.FILE:
                paths.append(posixpath.relpath(path, self.cwd))
            if len(paths) >= _MAX_LISTED:
                break
        return paths

    @property
    def cwd(self) -> str:
        return self.configured.cwd

    @property
    def _project(self) -> str:
        return _around(self.cwd, self._roots) or self.cwd

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        return tuple(self._tree.roots)

    @cached_property
    def _tree(self) -> StoredTree:
        return self.store.tree(self.tree)

    @cached_property
    def _sources(self) -> dict[str, Path]:
        """The directories under the agent's own files, by the path at which it saw them."""
        return {mount.target: Path(mount.source) for mount in self.configured.mounts}

    def _found(self, path: str) -> Node | Path | None:
        """Return what is at a path: written by the agent, or found by it and left as it was."""
        place = posixpath.normpath(posixpath.join(self.cwd, path))
        root = _around(place, self._roots)
        if root is not None:
            node, is_final = self._written(root, place)
            if is_final:
                return node
        return self._beneath(place, is_recorded=root is not None)

    def _written(self, root: str, place: str) -> tuple[Node | None, bool]:
        """Return the agent's own file there, and whether it hides whatever lies beneath it."""
        node = self._tree.roots[root]
        is_opaque = False
        for part in _parts(place, root):
            if node.kind is NodeKind.SYMLINK:
                raise InvalidInput(f"{place} lies behind a link that the agent made")
            if node.kind is not NodeKind.DIR:
                return None, True
            is_opaque = is_opaque or node.is_opaque
            child = next((entry for entry in self.store.nodes(node) if entry.name == part), None)
            if child is None and self._tree.is_cut:
                raise InvalidInput("the agent made more files than are recorded")
            if child is None:
                return None, is_opaque
            if child.kind is NodeKind.WHITEOUT:
                return None, True
            node = child
        return node, True

    def _beneath(self, place: str, *, is_recorded: bool) -> Path | None:
        hidden = self.configured.hidden
        if any(place == path or place.startswith(f"{path}/") for path in hidden):
            return None
        target = _around(place, tuple(self._sources))
        if target is None and not is_recorded:
            raise InvalidInput(f"{place} is not among the files that are recorded",
                               hint="those of the project and of the home are")  # fmt: skip
        if target is None:
            return None
        path = self._sources[target].joinpath(*_parts(place, target))
        return path if path.exists() else None


def _around(place: str, roots: tuple[str, ...]) -> str | None:
    """Return the innermost of these directories that contains the path."""
    around = [root for root in roots if root and (place == root or place.startswith(f"{root}/"))]
    return max(around, key=len, default=None)


def _parts(place: str, root: str) -> Iterator[str]:
    return iter(place[len(root) :].strip("/").split("/") if place != root else ())


def _read(path: Path, name: str) -> bytes:
    """Read a file of the project itself."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise InvalidInput(f"{name} is not a file")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise InvalidInput(f"{name} is larger than {MAX_BYTES >> 20} MiB")
    return content
