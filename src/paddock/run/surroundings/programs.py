"""From a word of a command to what must be there so that it runs: the program, what it is a link
to, the installation that it is a part of, its interpreter and its libraries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from paddock.fence.elf import MAGIC, Elf, read_elf
from paddock.model.errors import CommandNotStarted, InvalidInput
from paddock.run.surroundings import node, python
from paddock.run.surroundings.host import Host, is_of_system, is_within
from paddock.run.surroundings.mount_plan import MountPlan
from paddock.run.surroundings.shims import behind_shim, is_shim

MAX_LINKS = 40  # as many as the kernel follows
MAX_PROGRAMS = 50
MAX_LIBRARIES = 200
_MAX_CANDIDATES = 50  # places where one library may be
_HEAD_BYTES = 512
# Where everything refers to everything, by design for everybody to read.
_STORES = ("/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew")


class Programs:
    """Finds programs and asks `Places` for what they need."""

    def __init__(self, host: Host, places: MountPlan, search: list[str]) -> None:
        self._host = host
        self._places = places
        self._search = search
        self._seen: set[str] = set()
        self.bins: list[str] = []  # where the versions are that shims stand for

    def locate(self, word: str) -> str:
        """Return the program that a word means here. Raises CommandNotStarted when there is
        none."""
        if "/" in word:
            return self._named(word)
        for directory in self._search:
            path = os.path.join(directory, word)
            if not _is_program(path):
                continue
            if not is_shim(path):
                return path
            behind = behind_shim(path, self._host)
            if behind is not None:
                self.bins.append(os.path.dirname(behind))
                return behind
        where = ", ".join(self._search) or "an empty PATH"
        raise _not_found(word, f"looked in {where}")

    def find(self, word: str) -> str | None:
        """Return the program that a word means here, or None."""
        try:
            return self.locate(word)
        except CommandNotStarted:
            return None

    def add(self, path: str) -> str:
        """Ask for a program and everything behind it. Return the path at which it will be
        inside."""
        hops = _hops(path)
        for hop in hops:
            self._add_owner(hop)
            # The same by its real directory: one on the way to it may be a link.
            directory, name = os.path.split(hop)
            self._add_owner(os.path.join(os.path.realpath(directory), name))
        if not _is_program(hops[-1]):
            # An agent may have made the link: it must not choose what else is mounted.
            why = f"it leads to {hops[-1]}, which is no program"
            raise CommandNotStarted(why, program=path, path=hops[-1], code="EACCES")
        for link in _links_of_environment(hops):
            if not self._places.is_visible(link):
                self._places.need_link(link, "a link on the way to Python")
        if not self._places.is_visible(hops[-1]):
            self._add_file(hops[-1])
        self._add_interpreter(os.path.realpath(hops[-1]))
        visible = [self._places.is_visible(hop) for hop in hops]
        return next((h for n, h in enumerate(hops) if all(visible[n:])), os.path.realpath(path))

    def add_environment(self, root: str) -> None:
        """Ask for a virtual environment, the interpreter behind it, and linked packages."""
        if root in self._seen or len(self._seen) > MAX_PROGRAMS:
            return
        self._seen.add(root)
        self._places.need(root, "environment of the project or the command")
        for program in python.base_programs(root):
            if _is_program(program):  # else the environment is broken, and may not be needed
                self.add(program)
        python.add_packages(root, self._places)

    def _add_owner(self, hop: str) -> None:
        """Add the environment, installation or store that a program is part of."""
        root = python.environment_of(hop)
        if root is not None:
            self.add_environment(root)
            return
        if self._places.is_visible(hop):
            return
        for store in _STORES:
            if is_within(hop, store):
                self._places.need(store, "programs that refer to each other")
                return
        directory, name = os.path.split(os.path.dirname(hop))
        if name == "bin" and node.is_installation(directory):
            self._places.need(directory, "Node")
        if name == "bin" and python.is_installation(directory):
            self._places.need(directory, "Python")
            python.add_library(directory, self._places)
            python.add_packages(directory, self._places)

    def _add_file(self, path: str) -> None:
        if not self._places.need(path, "the program"):
            reason = self._places.omitted[-1:] or [f"{path} is gone"]
            raise InvalidInput(f"the program cannot be there inside: {reason[0]}")
        beside = os.path.join(os.path.dirname(path), "_internal")  # as PyInstaller makes them
        if os.path.isdir(beside):
            self._places.need(beside, "parts of the program")

    def _add_interpreter(self, path: str) -> None:
        if path in self._seen or len(self._seen) > MAX_PROGRAMS or is_of_system(path):
            return
        self._seen.add(path)
        words = _shebang(path)
        if not words:
            for library in _libraries_of(path):
                self._places.need(library, f"library of {os.path.basename(path)}")
            return
        if os.path.basename(words[0]) == "env":
            named = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
            words = [self.locate(named[0])] if named else words[:1]
        if _is_program(words[0]):
            self.add(words[0])

    def _named(self, word: str) -> str:
        path = os.path.normpath(os.path.join(self._host.cwd, word))
        if not os.path.exists(path):
            raise _not_found(word, f"looked for {path}")
        if os.path.isdir(path):
            raise CommandNotStarted(
                "it is a directory",
                program=word,
                path=path,
                code="EACCES",
                hint="name a program after --, as in paddock run -- python my_agent.py",
            )
        if not _is_program(path):
            raise CommandNotStarted(
                "it is no program",
                program=word,
                path=path,
                code="EACCES",
                hint=f"name the interpreter before it, as in python {word}; or chmod +x {path} and "
                "begin it with a line such as #!/bin/sh",
            )
        return path


def _not_found(word: str, looked: str) -> CommandNotStarted:
    return CommandNotStarted(
        "it was not found", program=word, path=word, code="ENOENT", exit_code=127, hint=looked
    )


def _is_program(path: str) -> bool:
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    return _head(path).startswith((b"#!", MAGIC))


def _hops(path: str) -> list[str]:
    """Return the paths of a program from link to link; the last one is no link."""
    hops = [os.path.normpath(path)]
    while os.path.islink(hops[-1]) and len(hops) <= MAX_LINKS:
        target, directory = os.readlink(hops[-1]), os.path.dirname(hops[-1])
        if ".." in target.split("/"):
            directory = os.path.realpath(directory)  # the kernel goes up from where it really is
        hops.append(os.path.normpath(os.path.join(directory, target)))
    return hops


def _links_of_environment(hops: list[str]) -> list[str]:
    """Return the links by which a virtual environment's Python is reached. A program runs by its
    last path as well as by its first, but only the path inside the environment identifies the
    environment."""
    first = next((n for n, hop in enumerate(hops) if python.environment_of(hop)), len(hops))
    return hops[first:-1]


def _shebang(path: str) -> list[str]:
    """Return the words of a script's first line; none when it is no script."""
    head = _head(path)
    if not head.startswith(b"#!"):
        return []
    return os.fsdecode(head[2:].split(b"\n", 1)[0]).split()


def _libraries_of(program: str) -> list[str]:
    """Return the libraries that a program loads from outside of the system, and its loader, by the
    paths at which they will be found, each once. An agent may have written the program. What it
    names is believed only where a library really is: else a program could name any file of the host
    to have it mounted."""
    libraries: dict[str, None] = {}
    waiting = [program]
    while waiting and len(libraries) < MAX_LIBRARIES:
        path = waiting.pop()
        elf = read_elf(path)
        if elf is None:
            continue
        if path != program:
            libraries[path] = None
        for library in dict.fromkeys(_loaded(path, elf)):
            if library not in libraries and not is_of_system(library):
                waiting.append(library)
    return list(libraries)


def _loaded(path: str, elf: Elf) -> Iterator[str]:
    if elf.interpreter and os.path.isabs(elf.interpreter):
        yield os.path.normpath(elf.interpreter)
    origin = os.path.dirname(os.path.realpath(path))
    directories = [_expanded(directory, origin) for directory in elf.search]
    for name in elf.needed:
        candidates = [name] if os.path.isabs(name) else [os.path.join(p, name) for p in directories]
        # What is in none of these places is the system's.
        yield from (c for c in candidates[:_MAX_CANDIDATES] if os.path.isfile(c))


def _expanded(directory: str, origin: str) -> str:
    for word in ("${ORIGIN}", "$ORIGIN"):
        directory = directory.replace(word, origin)
    return os.path.normpath(directory) if os.path.isabs(directory) else origin


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""
