"""Finds every program file that an exec would really run.

The kernel, and the dynamic loader after it, do not stop at the file that an exec names:

1. A script's first line names an interpreter, which may be a script itself.
2. An ELF file names its loader (PT_INTERP), which the kernel maps and starts in its place.
3. A loader that is executed by itself takes options, then the program that it loads.

Each file that is named is resolved like the first one: opened in the caller's root, with links
followed and descriptors of the caller understood, compared with the programs that rules name, and
looked into for further names. What cannot be followed raises OSError, and the exec is refused.

A thread can have a table of descriptors of its own, so whose descriptor a name means depends on
who opens it. The kernel opens the first two kinds during the call: `/proc/self` is then the thread
group's leader, while `/proc/thread-self` and the directory of execveat are the caller's own. A
loader opens its program after the call, when the caller has become the only thread of its group.

All of it is read while the kernel holds the call. The caller can still change names and memory
between this look and the kernel's own: see SECURITY.md.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable

import msgspec

from paddock.fence import syscalls
from paddock.fence.elf import Elf, read_elf_descriptor
from paddock.fence.processes.mount_table import MountTable
from paddock.model.results import ExecEvent
from paddock.policy.globs import any_of

_SHEBANG_BYTES = 256  # what the kernel reads of a script's first line
_MAX_HASHED = 256 << 20
_MAX_FACTS = 4096
_MAX_PROGRAMS = 8  # the kernel follows five interpreters; loaders may load loaders
# Links that the kernel resolves for the caller alone, and whether they are those of its thread.
_OWN_DESCRIPTOR = re.compile(rb"(?:/proc/(?:self|(thread-self))/fd|/dev/fd)/(\d{1,7})")
_OWN_PROGRAM = re.compile(rb"/proc/(?:self|(thread-self))/exe")
# Options of the loaders of glibc and musl, and how many words each takes beside itself. An option
# that is not in the table (musl's form with `=`, too, which glibc reads otherwise) could take the
# next word or not, so it is not known which word is the program: the exec is refused.
_LOADER_OPTIONS = {
    b"--": 0,
    b"--list": 0,
    b"--verify": 0,
    b"--inhibit-cache": 0,
    b"--list-tunables": 0,
    b"--list-diagnostics": 0,
    b"--help": 0,
    b"--version": 0,
    b"--library-path": 1,
    b"--glibc-hwcaps-prepend": 1,
    b"--glibc-hwcaps-mask": 1,
    b"--inhibit-rpath": 1,
    b"--audit": 1,
    b"--preload": 1,
    b"--argv0": 1,
}


class ExecAttempt(msgspec.Struct, frozen=True):
    """One exec before it happens.

    `is_first` marks the guest's own child, which the guest waits for: it is answered at once.
    `program` and `argv` are the bytes that the kernel will read; the texts in `event` are for
    people, and two different names can be shown as the same text.
    """

    event: ExecEvent
    is_first: bool
    host_pid: int
    directory: int  # of execveat, a descriptor of the caller's
    program: bytes
    argv: tuple[bytes, ...]


class ProgramFile(msgspec.Struct, frozen=True):
    """One file that an exec would run, and the arguments that it would get."""

    called: str
    real_path: str
    argv: tuple[str, ...]
    same_as: tuple[str, ...] = ()  # paths of programs that rules name, with the same content
    is_writable: bool = False  # by the agent


class _Facts(msgspec.Struct, frozen=True):
    """The facts about a program's file that do not depend on its name."""

    elf: Elf | None
    same_as: tuple[str, ...]
    is_writable: bool


class KnownPrograms(msgspec.Struct):
    """Programs that rules name, by size and content, so that a copy is recognised."""

    root_pid: int
    mounts: MountTable
    by_size: dict[int, list[str]] = {}
    # What is known of files that the agent cannot write. Of one that it can write, nothing is
    # remembered: a file can change through memory without a trace in its times.
    _facts: dict[tuple[int, int], _Facts] = {}

    @classmethod
    def find(cls, root_pid: int, patterns: Iterable[str], search: str) -> KnownPrograms:
        """Look patterns up in the root of a process: paths as they are, names along `search`."""
        programs = cls(root_pid, MountTable.read(root_pid))
        for pattern in patterns:
            name = pattern.removeprefix("**/")
            directories = ["/"] if "/" in name else search.split(":")
            for directory in directories:
                for path in _matching_paths(root_pid, os.path.join(directory, name)):
                    programs._add(path)
        return programs

    def facts(self, fd: int) -> _Facts:
        """Return what there is to know of a program's file."""
        info = os.fstat(fd)
        key = (info.st_dev, info.st_ino)
        if key in self._facts:
            return self._facts[key]
        facts = _Facts(read_elf_descriptor(fd), self._same_as(fd), self.mounts.is_writable(fd))
        if not facts.is_writable and len(self._facts) < _MAX_FACTS:
            self._facts[key] = facts
        return facts

    def _same_as(self, fd: int) -> tuple[str, ...]:
        """Return the known programs whose content the file has; most differ by size already. Those
        that are too large to be compared count as the same."""
        paths = self.by_size.get(os.fstat(fd).st_size, ())
        digest = _digest(fd) if paths else None
        return tuple(path for path in paths if self._digest_of(path) == digest)

    def _add(self, path: str) -> None:
        try:
            fd = _open_in_root(self.root_pid, os.fsencode(path))
        except OSError:
            return
        try:
            paths = self.by_size.setdefault(os.fstat(fd).st_size, [])
            if path not in paths:
                paths.append(path)
        finally:
            os.close(fd)

    def _digest_of(self, path: str) -> str | None:
        try:
            fd = _open_in_root(self.root_pid, os.fsencode(path))
        except OSError:
            return None
        try:
            return _digest(fd)
        finally:
            os.close(fd)


def real_path(attempt: ExecAttempt) -> str:
    """Return the file that an exec names, where links lead. Raises OSError."""
    fd = _open_attempt(attempt)
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def resolve(attempt: ExecAttempt, known: KnownPrograms) -> list[ProgramFile]:
    """Return every program that an exec would run, the one that it names first. Raises OSError."""
    resolver = _Resolver(_Caller(attempt.host_pid), known, is_cut=attempt.event.is_truncated)
    return resolver.resolve(_open_attempt(attempt), _called(attempt), attempt.argv)


def resolve_command(
    path: str, argv: Iterable[str], cwd: str, known: KnownPrograms
) -> list[ProgramFile]:
    """Return every program that a command would run if the guest started it. Raises OSError."""
    caller = _Caller(known.root_pid, os.fsencode(cwd))
    program, arguments = os.fsencode(path), tuple(map(os.fsencode, argv))
    return _Resolver(caller, known, is_cut=False).resolve(caller.open(program), program, arguments)


class _Caller(msgspec.Struct, frozen=True):
    """The thread that makes the call: names mean what they mean to it."""

    pid: int
    cwd: bytes | None = None  # where the guest would start a command; None: the thread's own

    def open(self, path: bytes) -> int:
        """Open a program as the kernel does during the call, for reading. Raises OSError."""
        own = _OWN_DESCRIPTOR.fullmatch(path)
        if own is not None:
            return _reopen(_open_handle(self._owner(own), f"fd/{int(own[2])}"))
        own = _OWN_PROGRAM.fullmatch(path)
        if own is not None:
            return _reopen(_open_handle(self._owner(own), "exe"))
        return self._open_path(path)

    def open_after(self, path: bytes) -> int:
        """Open a program as a loader does that the call has started. Raises OSError."""
        own = _OWN_DESCRIPTOR.fullmatch(path)
        if own is not None:
            return _reopen(_open_handle(self.pid, f"fd/{int(own[2])}"))
        if _OWN_PROGRAM.fullmatch(path):
            raise PermissionError(errno.EACCES, "a loader that would load itself")
        return self._open_path(path)

    def _owner(self, link: re.Match[bytes]) -> int:
        return self.pid if link[1] else _thread_group(self.pid)

    def _open_path(self, path: bytes) -> int:
        if self.cwd is None:
            return _open_in_root(self.pid, absolute_path(self.pid, "cwd", path))
        return _open_in_root(self.pid, os.path.join(self.cwd, path))


class _NamedProgram(msgspec.Struct, frozen=True):
    """A program that a program file names, with the arguments that it would get."""

    path: bytes
    argv: tuple[bytes, ...]
    is_loaded: bool = False  # by a loader, after the call


class _Resolver(msgspec.Struct, frozen=True):
    """Follows the names in program files from one exec on."""

    caller: _Caller
    known: KnownPrograms
    is_cut: bool  # whether the arguments that were read are not all

    def resolve(self, fd: int, called: bytes, argv: tuple[bytes, ...]) -> list[ProgramFile]:
        """Return the file and all that it leads to, and close it. Each names one other at most."""
        found: list[ProgramFile] = []
        while True:
            try:
                found.append(self._file(fd, called, argv))
                if len(found) > _MAX_PROGRAMS:
                    raise OSError(errno.ELOOP, "too many levels of programs that name programs")
                named = self._named_program(fd, called, argv)
            finally:
                os.close(fd)
            if named is None:
                return found
            called, argv = named.path, named.argv
            fd = self.caller.open_after(called) if named.is_loaded else self.caller.open(called)

    def _file(self, fd: int, called: bytes, argv: tuple[bytes, ...]) -> ProgramFile:
        facts = self.known.facts(fd)
        return ProgramFile(
            called=_text(called),
            real_path=os.readlink(f"/proc/self/fd/{fd}"),
            argv=tuple(_text(word) for word in argv),
            same_as=facts.same_as,
            is_writable=facts.is_writable,
        )

    def _named_program(
        self, fd: int, called: bytes, argv: tuple[bytes, ...]
    ) -> _NamedProgram | None:
        """Return the program that a file names itself, or that it loads as a loader."""
        head = os.pread(fd, _SHEBANG_BYTES, 0)
        if head.startswith(b"#!"):
            interpreter, options = _shebang(head)
            return _NamedProgram(interpreter, (interpreter, *options, called, *argv[1:]))
        elf = self.known.facts(fd).elf
        if elf is None or not elf.is_native:
            # Other formats run only by a handler that the host has registered (binfmt_misc),
            # which would start a program that no rule has seen.
            raise OSError(errno.ENOEXEC, "neither a script nor a program of this machine")
        if elf.interpreter:
            loader = os.fsencode(elf.interpreter)
            return None if self._is_trusted_loader(loader) else _NamedProgram(loader, argv)
        if elf.is_loader:
            return self._loaded_program(argv)
        return None

    def _is_trusted_loader(self, path: bytes) -> bool:
        """Return whether this is a loader that the agent cannot write: then it is part of how
        every program starts, and no program that a rule could mean."""
        fd = self.caller.open(path)
        try:
            facts = self.known.facts(fd)
            return facts.elf is not None and facts.elf.is_loader and not facts.is_writable
        finally:
            os.close(fd)

    def _loaded_program(self, argv: tuple[bytes, ...]) -> _NamedProgram | None:
        at = _loader_operand(argv)
        # Arguments are read up to a bound; the last of those that were read may be incomplete.
        if self.is_cut and (at is None or at >= len(argv) - 1):
            raise OSError(errno.E2BIG, "the program of a loader is behind too many arguments")
        if at is None:
            return None
        if b"/" not in argv[at]:
            raise PermissionError(errno.EACCES, "a program that a loader would search for")
        return _NamedProgram(argv[at], argv[at:], is_loaded=True)


def _shebang(head: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the interpreter of a script and its one optional argument, as the kernel reads them:
    words are parted by spaces and tabs only, and what follows the first is one argument."""
    line = head[2:].partition(b"\n")[0].partition(b"\0")[0]
    interpreter, *rest = re.split(rb"[ \t]+", line.strip(b" \t"), maxsplit=1)
    is_cut = len(head) == _SHEBANG_BYTES and len(line) == len(head) - 2 and not rest
    if not interpreter or is_cut:
        raise OSError(errno.ENOEXEC, "a script without an interpreter")
    return interpreter, tuple(rest)


def _loader_operand(argv: tuple[bytes, ...]) -> int | None:
    """Return the index of the program in a loader's arguments, or None if there is none."""
    at = 1
    while at < len(argv):
        word = argv[at]
        if not word.startswith(b"-"):
            return at
        if word not in _LOADER_OPTIONS:
            raise PermissionError(errno.EACCES, f"an unknown option of a loader: {_text(word)}")
        at += 1 + _LOADER_OPTIONS[word]
        if word == b"--":
            return at if at < len(argv) else None
    return None


def _called(attempt: ExecAttempt) -> bytes:
    """Return the name that a script's interpreter gets for the script, as the kernel makes it."""
    if attempt.directory < 0 or attempt.program.startswith(b"/"):
        return attempt.program
    name = b"/dev/fd/%d" % attempt.directory
    return name + b"/" + attempt.program if attempt.program else name


def _open_attempt(attempt: ExecAttempt) -> int:
    program, pid = attempt.program, attempt.host_pid
    if program.startswith(b"/") or attempt.directory < 0:  # AT_FDCWD is negative
        return _Caller(pid).open(program)
    if not program:  # a descriptor of the program itself, perhaps one without a name
        return _reopen(_open_handle(pid, f"fd/{attempt.directory}"))
    return _open_in_root(pid, absolute_path(pid, f"fd/{attempt.directory}", program))


def absolute_path(pid: int, directory: str, name: bytes) -> bytes:
    """Return the path of a name that a process takes from a directory that it holds, `cwd` or
    `fd/3`. Raises OSError.

    The kernel's text for that directory is its path only if the path leads to the same directory.
    To that of a removed directory it adds ` (deleted)`, which may be the name of another file, and
    whose `..` is another directory then.
    """
    if name.startswith(b"/"):
        return name
    held = _open_handle(pid, directory)
    try:
        path = os.readlink(b"/proc/self/fd/%d" % held)
        if not _leads_to(pid, path, held):
            raise PermissionError(errno.EACCES, "a name in a directory that was removed")
        return os.path.join(path, name)
    finally:
        os.close(held)


def _leads_to(pid: int, path: bytes, held: int) -> bool:
    """Return whether a path leads a process to the directory that is open as `held`."""
    try:
        opened = syscalls.open_in_root_of(pid, path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.path.samestat(os.fstat(held), os.fstat(opened))
    finally:
        os.close(opened)


def _thread_group(pid: int) -> int:
    """Return the leader of the group that a thread belongs to."""
    with open(f"/proc/{pid}/status", "rb") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(b"Tgid:"))


def _open_handle(pid: int, name: str) -> int:
    return os.open(f"/proc/{pid}/{name}", os.O_PATH | os.O_CLOEXEC)


def _open_in_root(pid: int, path: bytes) -> int:
    return _reopen(syscalls.open_in_root_of(pid, path, os.O_PATH | os.O_CLOEXEC))


def _reopen(path_fd: int) -> int:
    """Reopen a regular file for reading: to open anything else could block or have an effect."""
    try:
        if not stat.S_ISREG(os.fstat(path_fd).st_mode):
            raise PermissionError(errno.EACCES, "not a regular file")
        return os.open(f"/proc/self/fd/{path_fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(path_fd)


def _matching_paths(root_pid: int, pattern: str) -> list[str]:
    """Return the paths that a pattern stands for, if only its last part has wildcards."""
    directory, name = os.path.split(pattern)
    if "*" not in pattern:
        return [pattern]
    if "*" in directory or name == "**":
        return []
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        fd = syscalls.open_in_root_of(root_pid, os.fsencode(directory), flags)
    except OSError:
        return []
    try:
        is_meant = any_of([name], "")
        return [os.path.join(directory, entry) for entry in os.listdir(fd) if is_meant(entry)]
    finally:
        os.close(fd)


def _digest(fd: int) -> str | None:
    """Return the digest of an open file, or None if it is too large to be read at each exec."""
    if os.fstat(fd).st_size > _MAX_HASHED:
        return None
    with open(os.dup(fd), "rb") as file:
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
