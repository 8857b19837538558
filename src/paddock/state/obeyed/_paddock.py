"""Paddock files in a tree, and the files that they name: seeds, scripts of secrets, service code;
and the files that the settings of existing repositories name.

A paddock file is known by its name, or by what it says: a mapping with `version`, `agent` and
`stage`. Every text in its parts that name files (see `_PARTS`) counts as a path, whether or not
there is a file. Mounts are no such part: they are what the agent is meant to change.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paddock.model.values import dataclass
from paddock.state.descent import Descent, open_file
from paddock.state.obeyed._git_settings import repositories_of, values_for
from paddock.state.obeyed._names import (
    PADDOCK_FILES,
    SCENARIO_FILES,
    fold,
    pattern_of,
    tool_of_directory,
    tool_of_file,
)

MAX_FILE_BYTES = 4 << 20
YAML_ENDINGS = (".yaml", ".yml", ".json")
_NOT_SEARCHED = frozenset({".git", "node_modules", "site-packages", "__pycache__"})
_GIT = ".git"
# What parts the words of a command for a shell.
_BETWEEN_WORDS = re.compile(r"[\s;|&(){}<>`$!=\"']+")
# What programs read that are named without a file.
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_PACKAGE = ("package.json",)
_IMPLIED = {
    "make": _MAKEFILES, "gmake": _MAKEFILES, "npm": _PACKAGE, "npx": _PACKAGE, "yarn": _PACKAGE,
    "pnpm": _PACKAGE, "bun": _PACKAGE, "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml"), "rake": ("Rakefile", "rakefile"),
    "invoke": ("tasks.py",), "inv": ("tasks.py",), "mise": ("mise.toml", ".mise.toml"),
    "docker": ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
    "direnv": (".envrc",),
}  # fmt: skip
_MAX_LINKS = 40
_MAX_WORDS = 20_000  # of one file
# Of a paddock file, and of a scenario.
_PARTS = ("secrets", "world", "network", "file", "matrix", "files")
_NO_PATHS = frozenset({"service", "also", "to", "as", "allow", "hosts", "private", "passthrough"})
_MODULE = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?")
_KEYS = tuple(
    re.compile(rf"(?:^|[{{,])\s*[\"']?{key}[\"']?\s*:", re.M)
    for key in ("version", "agent", "stage")
)


@dataclass(frozen=True, slots=True)
class Governing:
    """The paddock file that the agent ran under, wherever it lies: its path, the directory that
    paths in it start from, and what it says."""

    file: str | None
    base: str | None
    content: Any


def is_paddock_name(name: str) -> bool:
    """Return whether a file of this name is taken for a paddock file or a scenario."""
    return pattern_of(*PADDOCK_FILES, *SCENARIO_FILES).fullmatch(fold(name)) is not None


def reads_as_paddock_file(data: bytes) -> bool:
    """Return whether a text has the keys that every paddock file has."""
    text = data.decode("utf-8", "replace")
    return all(key.search(text) for key in _KEYS)


def files_named_below(target: int) -> frozenset[str]:
    """Return the folded paths of all paddock files in a tree that go by another name, and of all
    files that the paddock files of the tree, and the settings of its repositories, name, relative
    to its top."""
    found: set[str] = set()
    top = os.path.realpath(f"/proc/self/fd/{target}")
    for place in _above(top):
        found |= _named_from_above(place, top)
    with Descent(target) as descent:
        for parents, name, data in _candidates(descent):
            directory = "/".join(parents)
            if name == _GIT:
                found |= _named_by_git(os.path.join(top, directory), top)
                continue
            if data is None:  # a link that a tool obeys
                found |= _folded_inside(os.path.join(top, directory, name), top)
                continue
            is_named = is_paddock_name(name)
            if not is_named and not reads_as_paddock_file(data):
                continue
            if not is_named:
                found.add(fold_path(posixpath.join(directory, name)))
            found |= set(_paths_in(_parsed(data), directory, top))
    return frozenset(found)


def _above(top: str) -> Iterator[str]:
    while top != "/":
        top = os.path.dirname(top)
        yield top


def _named_from_above(place: str, top: str) -> set[str]:
    """Return what lies in the tree and is named by a paddock file, or a repository, above it."""
    found = _named_by_git(place, top) if os.path.lexists(os.path.join(place, _GIT)) else set()
    for name in ("paddock.yaml", "paddock.yml"):
        found |= _named_from(place, read_content(Path(place, name)), top)
    return found


def _named_from(base: str, content: Any, top: str) -> set[str]:
    """Return what a paddock file outside of the tree names in it, by paths from its own
    directory."""
    found: set[str] = set()
    for word in _words_in(content):
        for path in _readings(os.path.expanduser(word)):
            found |= _folded_inside(os.path.join(base, path), top)
    return found


def _named_by_git(worktree: str, top: str) -> set[str]:
    """Commands are started in the working tree, or in the repository."""
    found: set[str] = set()
    for link in _links_of_hooks(worktree):
        found |= _folded_inside(link, top)
    for word in _words_in({"files": values_for(worktree)}):
        for start in (worktree, os.path.join(worktree, _GIT)):
            place = os.path.normpath(os.path.join(start, os.path.expanduser(word)))
            if not f"{worktree}/".startswith(f"{place}/"):
                found |= _folded_inside(place, top)
    return found


def _folded_inside(path: str, top: str) -> set[str]:
    """A path, and what it leads to if it is a link: that is obeyed in its place."""
    if "\0" in path:
        return set()
    places = [os.path.normpath(path)]
    with contextlib.suppress(OSError):
        while len(places) < _MAX_LINKS and os.path.islink(places[-1]):
            following = os.path.join(os.path.dirname(places[-1]), os.readlink(places[-1]))
            places.append(os.path.normpath(following))
        places.append(os.path.realpath(path))
    own = places[0]
    # A link to a directory around it says nothing of what else is in there.
    led_to = [place for place in places if not own.startswith(f"{place}/")]
    inner = {_inside(place, top) for place in led_to}
    return {fold_path(one) for one in inner if one}


def _links_of_hooks(worktree: str) -> Iterator[str]:
    """Hooks that are links, as into a directory of the project's scripts."""
    for repository in repositories_of(worktree):
        hooks = os.path.join(repository, "hooks")
        with contextlib.suppress(OSError), os.scandir(hooks) as entries:
            yield from (entry.path for entry in entries if entry.is_symlink())
        if os.path.islink(hooks):
            yield hooks


def _is_obeyed_link(parents: Iterable[str], name: str) -> bool:
    return (
        tool_of_file(fold(name)) is not None
        or is_paddock_name(name)
        or any(tool_of_directory(fold(one)) for one in (*parents, name))
    )


def files_named_by(governing: Governing, target: int) -> frozenset[str]:
    """Return the folded paths below a tree that are the paddock file of the run, or named by it."""
    top = os.path.realpath(f"/proc/self/fd/{target}")
    base = os.path.realpath(governing.base) if governing.base else None
    inner = _inside(base, top) if base is not None else None
    found = set(_paths_in(governing.content, inner, top))
    if base is not None and inner is None:
        found |= _named_from(base, governing.content, top)
    own = _inside(os.path.realpath(governing.file), top) if governing.file else None
    if own:
        found.add(fold_path(own))
    return frozenset(found)


def existing_files(governing: Governing) -> Iterator[str]:
    """Return the regular files of the host that a paddock file names: from its directory, and from
    the current one, where commands are started."""
    for start in (governing.base or ".", "."):
        yield from (path for path in existing_paths(governing, start) if os.path.isfile(path))


def existing_paths(governing: Governing, start: str) -> Iterator[str]:
    """Return the files and directories of the host that a paddock file names from a directory."""
    for word in _words_in(governing.content):
        for path in _readings(os.path.expanduser(word)):
            place = os.path.join(start, path)
            if "\0" not in place and os.path.lexists(place):
                yield os.path.abspath(place)


def read_content(path: Path) -> Any:
    """Return what the text of a paddock file says; None if it is not YAML or cannot be read."""
    try:
        with open(path, "rb") as file:
            return _parsed(file.read(MAX_FILE_BYTES))
    except OSError:
        return None


def fold_path(path: str) -> str:
    """Return a path with each of its names folded."""
    return "/".join(fold(part) for part in path.split("/"))


def _words_in(content: Any) -> Iterator[str]:
    """Return every word of a paddock file that could be a path."""
    count = 0
    for text in _texts(content):
        for word in _words(text):
            if word in ("", "."):  # what is left between two marks of a shell is no path
                continue
            count += 1
            if count > _MAX_WORDS:
                return
            yield word
            yield from _IMPLIED.get(posixpath.basename(word), ())


def _candidates(descent: Descent) -> Iterator[tuple[tuple[str, ...], str, bytes | None]]:
    """Every file of the tree that may be a paddock file, with its content; every `.git`; and
    links under names that tools obey, without a content."""
    pending = [_listing(descent)]
    while pending:
        if not pending[-1]:
            pending.pop()
            if pending:
                descent.leave()
            continue
        name, is_directory, is_link = pending[-1].pop()
        if is_link and _is_obeyed_link(descent.parts, name):
            yield tuple(descent.parts), name, None
        if name == _GIT:  # a directory, or the file of a working tree
            yield tuple(descent.parts), _GIT, b""
        elif is_directory:
            if name not in _NOT_SEARCHED and _enters(descent, name):
                pending.append(_listing(descent))
        elif is_paddock_name(name) or name.lower().endswith(YAML_ENDINGS):
            data = _content(descent, name)
            if data is not None:
                yield tuple(descent.parts), name, data


def _listing(descent: Descent) -> list[tuple[str, bool, bool]]:
    """Name, whether it is a directory, and whether it is a link."""
    try:
        with os.scandir(descent.fd) as entries:
            return [
                (entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink())
                for entry in entries
            ]
    except OSError:
        return []


def _enters(descent: Descent, name: str) -> bool:
    try:
        descent.enter(name)
    except OSError:
        return False  # not ours to read, or gone
    return True


def _content(descent: Descent, name: str) -> bytes | None:
    """The content of a small regular file; of a link, that of the file that it leads to."""
    try:
        fd = open_file(name, descent.fd)
        if fd is None:  # the user's own link, as in paddock.yaml -> conf/agent.yaml
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descent.fd)
    except OSError:
        return None
    with open(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_FILE_BYTES:
            return None
        return file.read(MAX_FILE_BYTES)


def _parsed(data: bytes) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(data, loader)  # noqa: S506  both loaders are safe ones
    except (yaml.YAMLError, ValueError, RecursionError):
        return None  # nothing starts under such a file


def _paths_in(content: Any, directory: str | None, top: str) -> Iterator[str]:
    """Each word as a path below the top: from the file's directory (None: it lies outside of the
    tree), and from the top, where commands are started."""
    for word in _words_in(content):
        for path in _readings(os.path.expanduser(word)):
            if path.startswith("/"):
                places: Iterable[str | None] = (_inside(os.path.realpath(path), top),)
            else:
                starts = {"", directory} if directory is not None else {""}
                places = (_normal(posixpath.join(start, path)) for start in starts)
            for place in places:
                is_around = directory is not None and f"{directory}/".startswith(f"{place}/")
                if place and not is_around:
                    yield fold_path(place)
                    yield from _folded_inside(os.path.join(top, place), top)


def _readings(word: str) -> Iterator[str]:
    """A word as a path, and as a Python module: `shop.app:main` is in shop/app.py, and a package
    is started by its __main__.py."""
    yield word
    if _MODULE.fullmatch(word):
        module = word.partition(":")[0].replace(".", "/")
        yield f"{module}.py"
        yield f"{module}/__main__.py"
        yield f"{module}/__init__.py"
        if ":" in word:
            yield module


def _texts(content: Any) -> Iterator[str]:
    """Every text of the parts that name files. What YAML repeats by an alias is looked at once."""
    if not isinstance(content, Mapping):
        return
    pending: list[Any] = [content.get(part) for part in _PARTS]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Mapping):
                pending += [one for key, one in value.items() if key not in _NO_PATHS]
            else:
                pending += value


def _words(text: str) -> Iterator[str]:
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ("file", "command"):
        text = rest
    yield text
    if any(char.isspace() for char in text):
        with contextlib.suppress(ValueError):  # an open quote
            yield from shlex.split(text)
    yield from (word for word in _BETWEEN_WORDS.split(text) if word != text)


def _inside(path: str, top: str) -> str | None:
    if path == top:
        return ""
    return path[len(top) :].lstrip("/") if path.startswith(top.rstrip("/") + "/") else None


def _normal(path: str) -> str | None:
    """The path without `.` and `..`, or None if it leaves the tree or names no file."""
    if "\0" in path or len(path) > 4096:
        return None
    clean = posixpath.normpath(path)
    return None if clean in (".", "") or clean.startswith("..") else clean
