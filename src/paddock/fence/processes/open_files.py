"""The files that the processes of a sandbox hold: by descriptors, by memory maps, as directories
they work in. Read from /proc by the host, so it holds for any program, whatever language it is in.

Names are what the kernel prints for a descriptor: the path inside the sandbox, also after a rename.
A file whose name is gone is printed with ` (deleted)` behind the name that it had. That alone says
little: the file may have another name (a hard link), and a name may really end like that. Only a
file without any link is left out. How many links a mapped file has is shown to root alone; without
that it is taken to have some.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

import msgspec

from paddock.model.errors import HostCannot
from paddock.state.trees.held_files import HeldFiles, MappedFiles

_DELETED = " (deleted)"
# Memory that the kernel prints like a deleted file, and files of the sandbox's own /dev.
_MEMORY = ("/memfd:", "/SYSV", "/dev/")


def held_files(init_pid: int) -> HeldFiles:
    """Return what everything inside holds. Complete only while the sandbox stands still.
    `HostCannot` if a process cannot be looked at, or if descriptors are in a message that nobody
    has taken yet: to guess would be to lose what is written through them. (The only other thing
    that could hold files, io_uring, is refused inside.)"""
    holdings = _Found()
    for pid in _processes(init_pid):
        try:
            holdings.take(pid, is_guest=pid == init_pid)
        except PermissionError:
            if not _is_hidden(pid, init_pid):
                continue
            raise HostCannot(
                f"it cannot be seen which files process {pid} of the sandbox has open",
                hint="it forbids being looked at; root may look at it all the same",
            ) from None
    return HeldFiles(
        frozenset(holdings.files), frozenset(holdings.directories), frozenset(holdings.nameless)
    )


def shared_maps(init_pid: int) -> MappedFiles:
    """Return the files that are mapped shared somewhere inside: what is written through such a map
    changes a file later than its time of change says."""
    inodes: dict[str, int] = {}
    nameless: set[str] = set()
    is_complete = True
    for pid in _processes(init_pid):
        try:
            for mapped in _maps(pid, only_shared=True):
                inodes.update(dict.fromkeys(mapped.paths, mapped.inode))
                if mapped.is_nameless:
                    nameless.update(mapped.paths)
        except PermissionError:
            is_complete = is_complete and not _is_hidden(pid, init_pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return MappedFiles(inodes, frozenset(nameless), is_complete)


class _Found:
    def __init__(self) -> None:
        self.files: set[str] = set()
        self.directories: set[str] = set()
        self.nameless: set[tuple[str, int]] = set()

    def take(self, pid: int, *, is_guest: bool) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for mapped in _maps(pid):
                self.files.update(mapped.paths)
                if mapped.is_nameless:
                    self.nameless.update((path, mapped.inode) for path in mapped.paths)
        for task in _listed(f"/proc/{pid}/task"):  # a thread may have all of these for itself
            directory = f"/proc/{pid}/task/{task}"
            for link in ("cwd", "root"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    self.directories.add(os.readlink(f"{directory}/{link}"))
            for number in _listed(f"{directory}/fd"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    path = os.readlink(f"{directory}/fd/{number}")
                    if path.startswith("/"):
                        self._file(path, os.stat(f"{directory}/fd/{number}"))
                    elif path.startswith("socket:") and not is_guest:
                        _check_in_flight(f"{directory}/fdinfo/{number}")

    def _file(self, path: str, st: os.stat_result) -> None:
        if stat.S_ISDIR(st.st_mode):
            self.directories.add(path)
            return
        is_deleted = path.endswith(_DELETED)
        if is_deleted and not st.st_nlink:
            return
        self.files.add(path)  # to hold one more than there is does no harm
        if is_deleted and stat.S_ISREG(st.st_mode):
            self.nameless.add((path, st.st_ino))


def _check_in_flight(fdinfo: str) -> None:
    """Raise HostCannot if descriptors wait in the queue of a Unix socket. One that waits in the
    queue of a socket which itself waits in another is counted by the outer one."""
    with open(fdinfo, "rb") as file:
        counts = [line.split()[1] for line in file if line.startswith(b"scm_fds:")]
    if any(map(int, counts)):
        raise HostCannot(
            "open files are on their way through a socket (SCM_RIGHTS), and nobody can see which",
            hint="choose another step, at which they have arrived",
        )


def _processes(init_pid: int) -> Iterator[int]:
    """Yield the first process and all below it. One whose parent has ended is a child of the
    first."""
    pending = [init_pid]
    while pending:
        pid = pending.pop()
        yield pid
        for task in _listed(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{task}/children"
            with contextlib.suppress(OSError), open(path, "rb") as file:
                pending += map(int, file.read().split())


class _Map(msgspec.Struct, frozen=True):
    """A mapped file. The kernel prints a newline in a name as \\012 and a backslash as it is, so
    there may be two paths that it can mean."""

    paths: frozenset[str]
    inode: int
    is_nameless: bool  # its name is gone, or ends as if it were, and it may have another


def _maps(pid: int, *, only_shared: bool = False) -> Iterator[_Map]:
    for line in _map_lines(pid):
        addresses, access, rest = line.split(None, 2)
        if only_shared and not access.endswith(b"s"):
            continue
        *_, inode, name = rest.removesuffix(b"\n").split(None, 3)
        if not name.startswith(b"/"):
            continue  # memory: there is no name, or one such as [stack]
        printed = os.fsdecode(name)
        is_deleted = printed.endswith(_DELETED)
        if is_deleted and (printed.startswith(_MEMORY) or _has_no_link(pid, addresses)):
            continue
        paths = frozenset((printed, printed.replace(r"\012", "\n")))
        yield _Map(paths, int(inode), is_deleted)


def _map_lines(pid: int) -> list[bytes]:
    """Read the maps of a process. A thread that has ended has no maps any more, also if it is
    the one that the process is named after; all others have the same."""
    for task in _listed(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/maps", "rb") as file:
            if lines := file.readlines():
                return lines
    return []


def _has_no_link(pid: int, addresses: bytes) -> bool:
    start, end = (int(address, 16) for address in addresses.split(b"-"))
    try:
        return os.stat(f"/proc/{pid}/map_files/{start:x}-{end:x}").st_nlink == 0
    except OSError:
        return False  # only root may look


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended


def _is_hidden(pid: int, init_pid: int) -> bool:
    """Return whether a process that cannot be looked at may hold files: some thread of it has not
    ended, and it is not the guest, which holds no file of an agent's."""
    tasks = _listed(f"/proc/{pid}/task")
    return pid != init_pid and any(_is_running(f"/proc/{pid}/task/{task}") for task in tasks)


def _is_running(task: str) -> bool:
    try:
        with open(f"{task}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return False
    return line[line.rindex(b")") + 2 :][:1] not in b"ZX"
