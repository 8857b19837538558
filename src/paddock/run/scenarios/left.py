"""The files of a run's project as the agent left them: what it wrote, over what it found."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from paddock.journal.reader import Reader
from paddock.journal.records import Type
from paddock.journal.traffic import mapping
from paddock.model.errors import InvalidInput, NotFound
from paddock.run.files import store_of, tree_at
from paddock.state.home import Home
from paddock.state.trees.nodes import Node, NodeKind, Tree
from paddock.state.trees.store import TreeStore

MAX_BYTES = 4 << 20  # of one file that is looked into
_MAX_LISTED = 1000


def files_left(directory: Path) -> FilesLeft:
    """Of a run whose journal lies there. Raises NotFound when none were recorded."""
    directory = directory.absolute()
    setting = _setting(directory)
    cwd = setting.get("cwd")
    if not isinstance(cwd, str):
        raise NotFound("the run does not say where it ran", hint="paddock run does")
    tree = tree_at(directory)
    return FilesLeft(store_of(Home(directory.parent.parent)), tree, cwd, setting)


@dataclass
class FilesLeft:
    """Paths are those of the project, or absolute ones as the agent saw them."""

    store: TreeStore
    tree: str
    cwd: str
    setting: Mapping[str, Any]

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._found(path) is not None

    def __getitem__(self, path: str) -> str:
        """The text of a file. KeyError when it is not there, InvalidInput when it is no text."""
        try:
            return self.read_bytes(path).decode()
        except UnicodeDecodeError as error:
            why = f"{path} is not text: byte {error.start} is not UTF-8"
            raise InvalidInput(why) from None

    def read_bytes(self, path: str) -> bytes:
        """Raises KeyError when it is not there, InvalidInput when it is no file of that size."""
        found = self._found(path)
        if found is None:
            raise KeyError(path)
        if isinstance(found, Path):
            return _read(found, path)
        if found.kind is not NodeKind.FILE:
            raise InvalidInput(f"{path} is a {found.kind}, not a file")
        if found.size > MAX_BYTES:
            raise InvalidInput(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        return b"".join(self.store.open_blob(found))

    def changed(self) -> list[str]:
        """The files that the agent wrote into the project, the first thousand."""
        below = self._tree.roots.get(self._project)
        if below is None:
            return []
        found: list[str] = []
        for path, node in self.store.below(self._project, below):
            if node.kind is NodeKind.FILE:
                found.append(posixpath.relpath(path, self.cwd))
            if len(found) >= _MAX_LISTED:
                break
        return found

    @property
    def _project(self) -> str:
        return _around(self.cwd, self._roots) or self.cwd

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        return tuple(self._tree.roots)

    @cached_property
    def _tree(self) -> Tree:
        return self.store.tree(self.tree)

    @cached_property
    def _sources(self) -> dict[str, Path]:
        """What lies under the agent's own files, by the path at which it saw it."""
        return {
            str(one.get("target")): Path(str(one.get("source")))
            for one in map(mapping, self.setting.get("mounts") or ())
        }

    def _found(self, path: str) -> Node | Path | None:
        """What is at a path: written by the agent, or found by it and left as it was."""
        place = posixpath.normpath(posixpath.join(self.cwd, path))
        root = _around(place, self._roots)
        if root is not None:
            node, is_final = self._written(root, place)
            if is_final:
                return node
        return self._beneath(place, is_recorded=root is not None)

    def _written(self, root: str, place: str) -> tuple[Node | None, bool]:
        """The agent's own file there, and whether nothing beneath it could show."""
        node = self._tree.roots[root]
        is_opaque = False
        for part in _parts(place, root):
            if node.kind is NodeKind.SYMLINK:
                raise InvalidInput(f"{place} lies behind a link that the agent made")
            if node.kind is not NodeKind.DIR:
                return None, True
            is_opaque = is_opaque or node.is_opaque
            found = next((one for one in self.store.nodes(node) if one.name == part), None)
            if found is None and self._tree.is_cut:
                raise InvalidInput("the agent made more files than are recorded")
            if found is None:
                return None, is_opaque
            if found.kind is NodeKind.WHITEOUT:
                return None, True
            node = found
        return node, True

    def _beneath(self, place: str, *, is_recorded: bool) -> Path | None:
        hidden = self.setting.get("hidden") or ()
        if any(place == one or place.startswith(f"{one}/") for one in hidden):
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
    """The innermost of these directories that the place is in."""
    found = [one for one in roots if one and (place == one or place.startswith(f"{one}/"))]
    return max(found, key=len, default=None)


def _parts(place: str, root: str) -> Iterator[str]:
    return iter(place[len(root) :].strip("/").split("/") if place != root else ())


def _read(path: Path, name: str) -> bytes:
    """A file of the project itself."""
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


def _setting(directory: Path) -> Mapping[str, Any]:
    """The note that says what the run began with; it is among the first."""
    reader = Reader(directory)
    for record in reader.records():
        if record.type is Type.NOTED and record.body.get("what") == "setting":
            return reader.body(record)
        if record.type is Type.PROPOSED:
            break
    return {}
