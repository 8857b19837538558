"""Paddock files in a tree, and the files that they name: seeds, scripts of secrets, service code;
and the files that the settings of existing repositories name.

A paddock file is known by its name, or by what it says: a mapping with `version`, `agent` and
`stage`. Every word in its parts that name files (see `_shell_words`) counts as a path, whether or
not there is a file. Mounts are no such part: they are what the agent is meant to change.

What a path leads to is decided by every link on the way to it, so each of them counts like the
path itself, and so does every link in a directory that is named.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from paddock.state.files.descent import Descent, open_file
from paddock.state.tool_config._git_settings import repositories_of, values_for
from paddock.state.tool_config._names import (
    PADDOCK_FILES,
    SCENARIO_FILES,
    fold,
    pattern_of,
    tool_of_directory,
    tool_of_file,
)
from paddock.state.tool_config._shell_words import (
    command_directories,
    has_too_many_words,
    implied_in,
    readings,
    words_in,
)

MAX_FILE_BYTES = 4 << 20
YAML_ENDINGS = (".yaml", ".yml", ".json")
_NOT_SEARCHED = frozenset({".git", "node_modules", "site-packages", "__pycache__"})
_GIT = ".git"
_MAX_LINKS = 40
_MAX_PATH = 4096
# Of a directory that a command names: a program of its own, not a tree of data.
MAX_FILES_IN_DIRECTORY = 10_000
_KEYS = tuple(
    re.compile(rf"(?:^|[{{,])\s*[\"']?{key}[\"']?\s*:", re.M)
    for key in ("version", "agent", "stage")
)


class Governing(msgspec.Struct, frozen=True):
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


def named_files(target: int, governing: Governing | None) -> frozenset[str]:
    """Return the folded paths, relative to the top of a tree, of all its paddock files that go by
    another name, of the one that the agent ran under, and of all files that these and the settings
    of its repositories name."""
    top = os.path.realpath(f"/proc/self/fd/{target}")
    paths = _named_by_governing(governing, top) if governing is not None else set()
    for place in _above(top):
        paths |= _named_from_above(place, top)
    links: list[str] = []
    with Descent(target) as descent:
        for parents, name, data in _candidates(descent):
            directory = os.path.join(top, *parents)
            path = os.path.join(directory, name)
            if name == _GIT:
                paths |= _named_by_git(directory, top)
            elif data is None:  # a link
                links.append(path)
                if _is_obeyed_link(parents, name):
                    paths |= _folded_inside(path, top)
            elif is_paddock_name(name):
                paths |= _named_from(directory, _parsed(data), top, starts=(directory, top))
            elif reads_as_paddock_file(data):
                paths.add(fold_path("/".join((*parents, name))))
                paths |= _named_from(directory, _parsed(data), top, starts=(directory, top))
    return frozenset(_with_links(paths, links, top))


def _with_links(paths: set[str], links: list[str], top: str) -> set[str]:
    """Follow the links of a tree that lie in a directory that is named, as hooks that are links.
    What one leads to may be a directory with links of its own."""
    waiting = {link: fold_path(_inside(link, top) or "") for link in links}
    while True:
        followed = [
            link
            for link, path in waiting.items()
            if any(above in paths for above in directories_above(path))
        ]
        if not followed:
            return paths
        for link in followed:
            del waiting[link]
            paths |= _folded_inside(link, top)


def directories_above(path: str) -> Iterator[str]:
    """Return the directories that a path lies in, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def _above(top: str) -> Iterator[str]:
    while top != "/":
        top = os.path.dirname(top)
        yield top


def _named_from_above(place: str, top: str) -> set[str]:
    """Return what lies in the tree and is named by a paddock file, or a repository, above it."""
    paths = _named_by_git(place, top) if os.path.lexists(os.path.join(place, _GIT)) else set()
    for name in ("paddock.yaml", "paddock.yml"):
        paths |= _named_from(place, read_content(Path(place, name)), top, starts=(place,))
    return paths


def _named_by_governing(governing: Governing, top: str) -> set[str]:
    """Return the paddock file that the agent ran under, and what it names, in the tree."""
    base = os.path.realpath(governing.base) if governing.base else top
    paths = _named_from(base, governing.content, top, starts=(base, top))
    if governing.file:
        paths |= _folded_inside(os.path.abspath(governing.file), top)
    return paths


def _named_by_git(worktree: str, top: str) -> set[str]:
    """Return what the settings and hooks of a repository name. Commands are started in the working
    tree, or in the repository."""
    paths: set[str] = set()
    for link in _links_of_hooks(worktree):
        paths |= _folded_inside(link, top)
    starts = (worktree, os.path.join(worktree, _GIT))
    values = {"files": values_for(worktree)}
    return paths | _named_from(worktree, values, top, starts=starts, read=_as_path)


def _as_path(word: str) -> Iterator[str]:
    """Yield a value of git's settings as a path. It is no module: `credential.helper = store` is
    not store.py."""
    yield word


def _named_from(
    base: str,
    content: Any,
    top: str,
    *,
    starts: Iterable[str],
    read: Callable[[str], Iterator[str]] = readings,
) -> set[str]:
    """Return what a paddock file in the directory `base` names in the tree, by paths from each of
    the starts. A word for a directory around it says nothing of what else is in there, but for the
    files that programs look for in every directory."""
    paths: set[str] = set()
    implied = implied_in(content)
    for word in words_in(content):
        for path in read(os.path.expanduser(word)):
            for place in {os.path.join(start, path) for start in starts}:
                if _is_around(os.path.normpath(place), base):
                    for name in implied:
                        paths |= _folded_inside(os.path.join(place, name), top, base)
                else:
                    paths |= _folded_inside(place, top, base)
    return paths


def _is_around(place: str, base: str) -> bool:
    return f"{base}/".startswith(f"{place.rstrip('/')}/")


def _folded_inside(path: str, top: str, base: str | None = None) -> set[str]:
    """Return what decides in the tree where a path leads to: itself, every link on the way, and
    what is obeyed in its place. A link to a directory around itself, or around `base`, says nothing
    of what else is in there."""
    if len(path) > _MAX_PATH:
        return set()
    own = os.path.normpath(path)
    passed: set[str] = set()
    for place, is_link in _way(path, top):
        is_around_own = place != own and _is_around(place, own)
        if is_link or not (is_around_own or (base is not None and _is_around(place, base))):
            passed.add(place)
    inner = {_inside(place, top) for place in passed}
    return {fold_path(relative) for relative in inner if relative}


def links_on_the_way(path: str) -> list[str]:
    """Return every link that is followed on the way to a file of the host."""
    return [place for place, is_link in _way(os.path.abspath(path), "/") if is_link]


def _way(path: str, top: str) -> Iterator[tuple[str, bool]]:
    """Return what is passed on the way to a file: the path, then each link in it, which is marked,
    with the path that it makes of the rest, and at last the path without links."""
    yield os.path.normpath(path), False
    place = "/"
    if path.startswith(f"{top.rstrip('/')}/"):  # which has no links in it
        place, path = top, path[len(top) :]
    pending = path.split("/")[::-1]
    count = 0
    while pending and count < _MAX_LINKS:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        step = os.path.join(place, name)
        try:
            target = os.readlink(step)
        except OSError:  # no link, or nothing
            place = step
            continue
        count += 1
        yield step, True
        if target.startswith("/"):
            place = "/"
        pending += target.split("/")[::-1]
        yield os.path.normpath(os.path.join(place, *pending[::-1])), False
    yield place, False


def _links_of_hooks(worktree: str) -> Iterator[str]:
    """Yield the hooks that are links, as into a directory of the project's scripts."""
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
        or any(tool_of_directory(fold(part)) for part in (*parents, name))
    )


def existing_files(governing: Governing) -> Iterator[str]:
    """Return the regular files of the host that a paddock file names from its directory, where
    its commands are started."""
    start = governing.base or "."
    yield from (path for path in existing_paths(governing, start) if os.path.isfile(path))


def names_too_much(governing: Governing) -> bool:
    """Return whether a paddock file has so many words that not all of them are looked at."""
    return has_too_many_words(governing.content)


def existing_directories(governing: Governing) -> Iterator[str]:
    """Return the directories of the host that the commands of a paddock file name: what is in them
    may be run. Those around the file itself are left out."""
    base = os.path.abspath(governing.base or ".")
    for word in command_directories(governing.content):
        place = os.path.abspath(os.path.join(base, os.path.expanduser(word)))
        real = os.path.realpath(place)
        is_around = _is_around(place, base) or _is_around(real, os.path.realpath(base))
        if os.path.isdir(real) and not is_around:
            yield place


def files_below(directory: str) -> list[str] | None:
    """Return all files in a directory, without what Python and package managers put there; None
    if there are too many of them."""
    files: list[str] = []
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name not in _NOT_SEARCHED]
        links = [name for name in directories if os.path.islink(os.path.join(place, name))]
        files += [os.path.join(place, name) for name in (*names, *links)]
        if len(files) > MAX_FILES_IN_DIRECTORY:
            return None
    return files


def existing_paths(governing: Governing, start: str) -> Iterator[str]:
    """Return the files and directories of the host that a paddock file names from a directory, and
    in directories around it the files that programs look for."""
    base = os.path.abspath(start)
    implied = implied_in(governing.content)
    for word in words_in(governing.content):
        for path in readings(os.path.expanduser(word)):
            place = os.path.join(base, path)
            if not os.path.lexists(place):
                continue
            yield os.path.abspath(place)
            if _is_around(os.path.abspath(place), base):
                around = (os.path.abspath(os.path.join(place, name)) for name in implied)
                yield from (file for file in around if os.path.lexists(file))


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


def _candidates(descent: Descent) -> Iterator[tuple[tuple[str, ...], str, bytes | None]]:
    """Yield every file of the tree that may be a paddock file, with its content; every `.git`; and
    every link, without a content."""
    pending = [_listing(descent)]
    while pending:
        if not pending[-1]:
            pending.pop()
            if pending:
                descent.leave()
            continue
        name, is_directory, is_link = pending[-1].pop()
        if is_link:
            yield tuple(descent.parts), name, None
        if name == _GIT:  # a directory, or the file of a working tree
            yield tuple(descent.parts), _GIT, b""
        elif is_directory:
            if name not in _NOT_SEARCHED and _enters(descent, name):
                pending.append(_listing(descent))
        elif is_paddock_name(name) or fold(name).endswith(YAML_ENDINGS):
            data = _content(descent, name)
            if data is not None:
                yield tuple(descent.parts), name, data


def _listing(descent: Descent) -> list[tuple[str, bool, bool]]:
    """Return the entries of a directory: name, whether it is a directory, and whether it is a
    link."""
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
    """Return the content of a small regular file; of a link, that of the file that it leads to."""
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


def _inside(path: str, top: str) -> str | None:
    if path == top:
        return ""
    return path[len(top) :].lstrip("/") if path.startswith(top.rstrip("/") + "/") else None
