"""The host as the finders see it: where the project lies, whose home it is, and small files read
with a bound. Nothing here decides what is mounted.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

MAX_TEXT_BYTES = 256 << 10
MAX_LEVELS = 32  # of directories above the project that are looked at
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/etc/alternatives")


class Host(msgspec.Struct, frozen=True):
    """The host as the user has it: directories and environment. All paths are real ones."""

    cwd: str
    home: str  # where programs keep what is the user's
    homes: tuple[str, ...]  # that one, and the one that the system knows: both are kept closed
    environ: Mapping[str, str]

    @classmethod
    def of(cls, cwd: Path, environ: Mapping[str, str]) -> Host:
        account_home = _known_home()
        home = os.path.realpath(environ.get("HOME") or account_home)
        homes = tuple(dict.fromkeys((home, os.path.realpath(account_home))))
        return cls(os.path.realpath(cwd), home, homes, environ)

    def ancestors(self) -> Iterator[str]:
        """Yield the project and the directories above it that can belong to it: up to the root of
        its repository, never the home directory or what contains it."""
        directory = self.cwd
        for _ in range(MAX_LEVELS):
            if any(is_within(home, directory) for home in self.homes):
                return
            yield directory
            if os.path.lexists(os.path.join(directory, ".git")):
                return
            directory = os.path.dirname(directory)


def _known_home() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"  # a uid without a name, as containers have them


def is_within(path: str, place: str) -> bool:
    """Return whether a path is the directory or lies in it; both must be absolute and
    normalised."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def is_of_system(path: str) -> bool:
    """Return whether every sandbox sees the path anyway."""
    return any(is_within(path, directory) for directory in SYSTEM)


def read_text(path: str) -> str | None:
    """Read a small text file of the user; None when it is missing, not a regular file, or too
    large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a FIFO
    except OSError:
        return None
    with open(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_TEXT_BYTES:
            return None
        return file.read(MAX_TEXT_BYTES).decode("utf-8", "surrogateescape")


def names_in(directory: str, limit: int = 5000) -> list[str]:
    """Return the sorted names in a directory; none when it cannot be read or has too many."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for _, entry in zip(range(limit + 1), entries, strict=False)]
    except OSError:
        return []
    return sorted(names) if len(names) <= limit else []
