"""Files that tools obey: what an agent must not write back unasked, because it would run later.

A file of a project can be an order to a tool of its owner: `.git/config` to git, a Makefile to
make, a paddock file to Paddock. An agent that changes one of them in its own copy acts on the host
as soon as the change is written back. `ObeyedFiles` says for each change of one tree whether it is
such a file, and how it may be written all the same:

- `NAMED`: only when a person or a program names that very path. These are paddock files and what
  they name, what git and other version control obey, and whatever would become a repository.
- `ASKED`: when it is named, or when a person agreed after being asked.

`changes.write_back` asks for every change; there is no other way into the caller's directories. The
list itself is in `_names`, the rules of git in `_git`, and the files that paddock files name in
`_paddock`, by the words that `_shell_words` finds in them. All names are compared folded, as the
most generous file system would.
"""

from __future__ import annotations

import enum
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from paddock.model.errors import Conflict
from paddock.model.results import FileType
from paddock.state.changes.change import FileChange
from paddock.state.files.descent import Descent, open_file, shown
from paddock.state.files.tree_walk import status, walk
from paddock.state.tool_config._git import (
    GIT,
    IN_REPOSITORY,
    MARKS,
    NEW_REPOSITORY,
    inside_repository,
    is_becoming_one,
    is_in_repository,
    is_repository,
    repository_path,
    why_inside,
)
from paddock.state.tool_config._git_settings import git_root, object_format
from paddock.state.tool_config._names import (
    LOGIN,
    REPOSITORY_DIRECTORIES,
    fold,
    tool_of_directory,
    tool_of_file,
)
from paddock.state.tool_config._paddock import (
    MAX_FILE_BYTES,
    MAX_FILES_IN_DIRECTORY,
    YAML_ENDINGS,
    Governing,
    directories_above,
    existing_directories,
    existing_files,
    existing_paths,
    files_below,
    is_paddock_name,
    links_on_the_way,
    named_files,
    names_too_much,
    read_content,
    reads_as_paddock_file,
)

__all__ = [
    "GIT",
    "MAX_FILES_IN_DIRECTORY",
    "Governing",
    "Obeyed",
    "ObeyedFiles",
    "Protection",
    "existing_directories",
    "existing_files",
    "existing_paths",
    "files_below",
    "git_root",
    "is_in_repository",
    "is_paddock_name",
    "links_on_the_way",
    "names_too_much",
    "object_format",
    "read_content",
    "repository_path",
]

_PADDOCK = "it decides what the next agent may do, and what Paddock runs on this host"
_NAMED = "a paddock file or git's settings name it, or a link that a tool obeys leads to it"
_ABOVE_NAMED = "it decides where a path leads that a paddock file, git's settings or a link name"
_OWN_ENVIRONMENT = "it belongs to the environment that Paddock runs from"
_VIRTUAL_ENVIRONMENT = "it belongs to a virtual environment"


class Protection(enum.Enum):
    """The consent that a file that tools obey needs to be written back."""

    NAMED = "named"
    ASKED = "asked"


class Obeyed(msgspec.Struct, frozen=True):
    """Why a change concerns a file that tools obey, and what it takes to write it."""

    protection: Protection
    why: str


class _Place(msgspec.Struct, frozen=True):
    """The facts of a directory of the target that count, whether it is there or not. They are
    worked out from those of its parent, so that a tree of any depth is judged in one pass."""

    marks: frozenset[str]  # which names that make a repository it has
    # Its path within an existing repository, as far as that matters; None outside of all.
    in_repository: tuple[str, ...] | None
    folded: str  # its path
    is_there: bool = True
    why_named: str | None = None  # holds for all below
    why_asked: str | None = None


class ObeyedFiles:
    """Judges the changes of one tree, all of them before the first is written into `target`.
    `layer` is what the changes lie in. Use it as a context."""

    def __init__(
        self,
        layer: Path,
        target: Path | int,
        changes: Sequence[FileChange],
        governing: Governing | None = None,
    ) -> None:
        self._layer = Descent(layer, lift=True)
        self._target = Descent(target)
        self._arriving = _arriving(changes)
        self._named = named_files(self._target.fd, governing)
        self._above_named = {above for path in self._named for above in directories_above(path)}
        self._places = {"": self._top()}

    def __enter__(self) -> ObeyedFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._layer.close()
        self._target.close()

    def judge(self, change: FileChange) -> Obeyed | None:
        """Return why a change is held back, or None for an ordinary file."""
        why = (
            self._why_named(change.path, change.type)
            or self._why_above(change)
            or self._why_kept(change)
            or self._why_content(change)
        )
        if why is not None:
            return Obeyed(Protection.NAMED, why)
        why = self._why_asked(change.path, change.type)
        return Obeyed(Protection.ASKED, why) if why is not None else None

    def is_entry(self, path: str) -> bool:
        """Return whether a directory is itself one that tools obey, as `.vscode`: to name it is to
        name what is in it. An existing `.git` is none: who wants its commits may not want hooks."""
        why = self._why_named(path, FileType.DIR)
        return why != IN_REPOSITORY and bool(why or self._why_asked(path, FileType.DIR))

    def _why_named(self, path: str, kind: FileType) -> str | None:
        parent, _, name = path.rpartition("/")
        place = self._place(parent)
        if why := self._why_all_below(parent, place, name):
            return why
        if place.in_repository is not None:
            return why_inside((*place.in_repository, name), kind)
        if fold(name) == GIT:  # a repository that is there already
            return IN_REPOSITORY
        return _PADDOCK if is_paddock_name(name) else None

    def _why_all_below(self, directory: str, place: _Place, name: str) -> str | None:
        """Return why an entry of a directory is written only when it is named, and all that is in
        it."""
        if place.why_named is not None:
            return place.why_named
        folded = fold(name)
        if folded == GIT and not self._is_repository_there(directory, place, name):
            return NEW_REPOSITORY
        if is_becoming_one(name, place.marks, self._arriving.get(directory, frozenset())):
            return NEW_REPOSITORY
        if folded in REPOSITORY_DIRECTORIES:
            return "version control obeys what is in it"
        if _joined(place.folded, folded) not in self._named:
            return None
        return _PADDOCK if is_paddock_name(name) else _NAMED

    def _is_repository_there(self, directory: str, place: _Place, name: str) -> bool:
        if name != GIT or place.in_repository is not None or not place.is_there:
            return False
        facts = self._facts(_joined(directory, name))
        return facts is not None and is_repository(facts[0])

    def _why_asked(self, path: str, kind: FileType) -> str | None:
        parent, _, name = path.rpartition("/")
        place = self._place(parent)
        if place.why_asked is not None:
            return place.why_asked
        tool = tool_of_directory(fold(name))
        if tool is None and kind is not FileType.DIR:
            tool = tool_of_file(fold(name))
        if tool is not None:
            return f"{tool} obeys it"
        return self._place(path).why_asked if kind is FileType.DIR else None

    def _why_content(self, change: FileChange) -> str | None:
        """Return why a file is held that is a paddock file under a name of its own. Those that the
        tree has already were found when the tree was looked through; this one is new."""
        parent, _, name = change.path.rpartition("/")
        is_file = change.type is FileType.FILE and change.kind != "deleted"
        if not is_file or not fold(name).endswith(YAML_ENDINGS):
            return None
        data = None
        if _go_to(self._layer, parent):
            fd = open_file(name, self._layer.fd, lift=True)
            if fd is not None:
                with open(fd, "rb") as file:
                    data = file.read(MAX_FILE_BYTES)
        return _PADDOCK if data is not None and reads_as_paddock_file(data) else None

    def _why_above(self, change: FileChange) -> str | None:
        """Return why a change above a named path is held: only directories come and go there. A
        link, new or old, decides what the path leads to."""
        parent, _, name = change.path.rpartition("/")
        if _joined(self._place(parent).folded, fold(name)) not in self._above_named:
            return None
        if change.type is not FileType.DIR:
            return _ABOVE_NAMED
        before = status(name, self._target.fd) if _go_to(self._target, parent) else None
        was_directory = before is None or stat.S_ISDIR(before.st_mode)
        return None if was_directory else _ABOVE_NAMED

    def _why_kept(self, change: FileChange) -> str | None:
        """Return why a change is held that removes or replaces a directory: it takes with it what
        is in it."""
        stays = change.kind != "deleted" and change.type is FileType.DIR
        if change.kind == "added" or stays:
            return None
        parent, _, name = change.path.rpartition("/")
        if name in MARKS and is_repository(self._place(parent).marks) and change.kind == "deleted":
            return IN_REPOSITORY
        if not _go_to(self._target, change.path):
            return None
        with Descent(self._target.fd) as below:
            for name, st in walk(below):
                is_directory = stat.S_ISDIR(st.st_mode)
                inner = "/".join(below.parts if is_directory else [*below.parts, name])
                kind = FileType.DIR if is_directory else FileType.FILE
                if why := self._why_named(f"{change.path}/{inner}", kind):
                    return f"{shown(inner)} in it would be lost: {why}"
        return None

    def _top(self) -> _Place:
        """Return the facts of the tree's own directory, which may lie in a repository, in .github,
        or in an environment."""
        above = os.path.realpath(f"/proc/self/fd/{self._target.fd}").strip("/").split("/")
        facts = self._facts("")
        marks, why_asked = (frozenset(), None) if facts is None else facts
        in_repository = inside_repository(above)
        if in_repository is None and is_repository(marks):
            in_repository = ()
        if _is_own_path("/" + "/".join(above)):
            why_asked = _OWN_ENVIRONMENT
        # Only the nearest names say something, and where projects live in ~/.local none does.
        tools = [tool_of_directory(fold(name)) for name in above[-3:]]
        for tool in tools:
            if tool is not None and tool != LOGIN:
                why_asked = f"{tool} obeys what is in it"
        shortened = None if in_repository is None else in_repository[:2]
        return _Place(marks, shortened, "", why_asked=why_asked)

    def _place(self, directory: str) -> _Place:
        missing = []
        while directory not in self._places:
            missing.append(directory)
            directory = directory.rpartition("/")[0]
        for path in reversed(missing):
            self._places[path] = self._place_below(path)
        return self._places[missing[0] if missing else directory]

    def _place_below(self, path: str) -> _Place:
        parent, _, name = path.rpartition("/")
        above = self._places[parent]
        facts = self._facts(path) if above.is_there else None
        marks, why_asked = (frozenset(), None) if facts is None else facts
        if above.in_repository is not None:
            in_repository: tuple[str, ...] | None = (*above.in_repository, name)[:2]
        else:
            in_repository = () if is_repository(marks) else None
        tool = tool_of_directory(fold(name))
        if tool is not None:
            why_asked = f"{tool} obeys what is in it"
        elif "pyvenv.cfg" in self._arriving.get(path, ()):
            why_asked = _VIRTUAL_ENVIRONMENT
        return _Place(
            marks,
            in_repository,
            _joined(above.folded, fold(name)),
            facts is not None,
            self._why_all_below(parent, above, name),
            above.why_asked or why_asked,
        )

    def _facts(self, directory: str) -> tuple[frozenset[str], str | None] | None:
        """Return which marks of a repository a directory of the target has, and whether it is one
        that programs are run from. None if there is no such directory."""
        if not _go_to(self._target, directory):
            return None
        fd = self._target.fd
        info = os.fstat(fd)
        why_asked = None
        if (info.st_dev, info.st_ino) in _own_identities():
            why_asked = _OWN_ENVIRONMENT
        elif status("pyvenv.cfg", fd) is not None:
            why_asked = _VIRTUAL_ENVIRONMENT
        return frozenset(name for name in MARKS if status(name, fd) is not None), why_asked


def _joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _go_to(descent: Descent, directory: str) -> bool:
    try:
        descent.go_to(directory.split("/") if directory else [])
    except (OSError, Conflict):
        descent.reset()
        return False
    return True


def _arriving(changes: Iterable[FileChange]) -> dict[str, set[str]]:
    """Return the folded names that changes bring into each directory."""
    arriving: dict[str, set[str]] = {}
    for change in changes:
        path = change.path if change.kind != "deleted" else ""
        while path:
            parent, _, name = path.rpartition("/")
            names = arriving.setdefault(parent, set())
            if fold(name) in names:
                break  # and so it was noted above
            names.add(fold(name))
            path = parent
    return arriving


@cache
def _own_paths() -> tuple[str, ...]:
    """Return the directories that the running program is loaded from."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    packages = [path for path in sys.path if path.rstrip("/").endswith("-packages")]
    places = [package, sys.prefix, sys.base_prefix, os.path.dirname(sys.executable), *packages]
    return tuple(sorted({os.path.realpath(place) for place in places}))


def _is_own_path(path: str) -> bool:
    return any(f"{path}/".startswith(f"{own}/") for own in _own_paths())


@cache
def _own_identities() -> frozenset[tuple[int, int]]:
    """Return those directories by device and inode: the same directory can be mounted at several
    paths."""
    infos = [os.stat(path) for path in _own_paths() if os.path.isdir(path)]
    return frozenset((info.st_dev, info.st_ino) for info in infos)
