"""What a program that is about to be executed really is: the file behind the name, its script's
interpreter, and which known program it is a copy of. Read while the kernel holds the call.

The caller can change names and memory between this look and the kernel's own: see SECURITY.md.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import field

from paddock.fence.container import kernel
from paddock.model.results import ExecEvent
from paddock.model.values import dataclass

_AT_FDCWD = -100
_SHEBANG_BYTES = 256  # what the kernel reads of a script's first line
_MAX_HASHED = 256 << 20
_LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-2.")
_CACHE_SIZE = 4096
_digests: dict[tuple[int, int, int, int], str] = {}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One exec before it happens. `is_first` is the guest's own child, which the guest waits for:
    it must be answered at once."""

    event: ExecEvent
    is_first: bool
    host_pid: int
    directory: int  # of execveat, a descriptor of the caller's


@dataclass(frozen=True, slots=True)
class Truth:
    """What an attempt would run. `others` are programs that come into it beside the file itself:
    the interpreter of a script, the program that a loader is told to load."""

    real_path: str | None
    same_as: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class KnownPrograms:
    """Programs that rules name, by content, to know a copy again."""

    by_digest: dict[str, list[str]] = field(default_factory=dict)
    sizes: set[int] = field(default_factory=set)

    @classmethod
    def find(cls, root_pid: int, names: Iterable[str], search: str) -> KnownPrograms:
        """Looks the names up in the root of a process: paths as they are, others along `search`."""
        known = cls()
        for name in names:
            places = [name] if "/" in name else [f"{d}/{name}" for d in search.split(":")]
            for place in places:
                known._add(root_pid, place)
        return known

    def same_as(self, fd: int) -> tuple[str, ...]:
        size = os.fstat(fd).st_size
        if size not in self.sizes:  # most programs are told apart without reading them
            return ()
        return tuple(self.by_digest.get(_digest(fd) or "", ()))

    def _add(self, root_pid: int, place: str) -> None:
        try:
            fd = _open_regular(root_pid, os.fsencode(place))
        except OSError:
            return
        try:
            digest = _digest(fd)
            if digest is not None:
                self.by_digest.setdefault(digest, []).append(place)
                self.sizes.add(os.fstat(fd).st_size)
        finally:
            os.close(fd)


def look(attempt: Attempt, known: KnownPrograms) -> Truth:
    """Raises OSError when it cannot be told what would be run."""
    event = attempt.event
    fd = _open_attempt(attempt)
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
        script = _interpreter(fd)
        others = [script] if script else []
        if os.path.basename(path).startswith(_LOADERS) and len(event.argv) > 1:
            others += [word for word in event.argv[1:] if not word.startswith("-")][:1]
        return Truth(path, known.same_as(fd), tuple(others))
    finally:
        os.close(fd)


def _open_attempt(attempt: Attempt) -> int:
    program, pid = attempt.event.program, attempt.host_pid
    if program.startswith("/"):
        return _open_regular(pid, os.fsencode(program))
    if attempt.directory == _AT_FDCWD or attempt.directory < 0:
        return _open_regular(pid, os.fsencode(os.path.join(attempt.event.cwd, program)))
    handle = f"/proc/{pid}/fd/{attempt.directory}"
    if not program:  # a descriptor of the program itself, perhaps one without a name
        return _reopened(os.open(handle, os.O_PATH | os.O_CLOEXEC))
    base = os.readlink(handle)
    return _open_regular(pid, os.fsencode(os.path.join(base, program)))


def _open_regular(pid: int, path: bytes) -> int:
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _reopened(kernel.open_in_root(root, path, os.O_PATH | os.O_CLOEXEC))
    finally:
        os.close(root)


def _reopened(path_fd: int) -> int:
    """For reading, when it is a file: to open anything else could block or have an effect."""
    try:
        if not stat.S_ISREG(os.fstat(path_fd).st_mode):
            raise PermissionError(13, "not a file")
        return os.open(f"/proc/self/fd/{path_fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(path_fd)


def _interpreter(fd: int) -> str | None:
    line = os.pread(fd, _SHEBANG_BYTES, 0).split(b"\n")[0]
    if not line.startswith(b"#!"):
        return None
    words = line[2:].split()
    return os.fsdecode(words[0]) if words else None


def _digest(fd: int) -> str | None:
    info = os.fstat(fd)
    if info.st_size > _MAX_HASHED:
        return None
    key = (info.st_dev, info.st_ino, info.st_size, info.st_ctime_ns)
    if key not in _digests:
        if len(_digests) >= _CACHE_SIZE:
            _digests.clear()
        with open(os.dup(fd), "rb") as file:
            file.seek(0)
            _digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _digests[key]
