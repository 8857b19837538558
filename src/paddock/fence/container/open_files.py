"""Which files the processes of a sandbox hold: by descriptors, by memory maps, as directories they
work in. Read from /proc by the host, so it holds for any program, whatever language it is in.

Names are what the kernel prints for a descriptor: the path inside the sandbox, also after a rename.
A file without a name any more is printed with ` (deleted)` behind the name that it had.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from paddock.model.errors import HostCannot
from paddock.state.trees.held import HeldFiles

_DELETED = " (deleted)"


def held_files(init_pid: int) -> HeldFiles:
    """Return what everything inside holds. Complete only while the sandbox stands still.
    `HostCannot` if a process cannot be looked at: to guess would be to lose what it writes."""
    found = _Found()
    for pid in _processes(init_pid):
        try:
            found.take(pid)
        except PermissionError:
            if not _is_running(pid) or pid == init_pid:
                continue  # it has ended; or it is the guest, which holds no file of an agent's
            raise HostCannot(
                f"it cannot be seen which files process {pid} of the sandbox has open",
                hint="it forbids being looked at; root may look at it all the same",
            ) from None
    return HeldFiles(frozenset(found.files), frozenset(found.directories), frozenset(found.linked))


def shared_maps(init_pid: int) -> set[str]:
    """The files that are mapped shared somewhere inside: what is written through such a map changes
    a file later than its time of change says. Processes that cannot be looked at are left out."""
    found: set[str] = set()
    for pid in _processes(init_pid):
        with contextlib.suppress(OSError):
            found.update(path for path, is_shared in _maps(pid) if is_shared)
    return found


class _Found:
    def __init__(self) -> None:
        self.files: set[str] = set()
        self.directories: set[str] = set()
        self.linked: set[int] = set()

    def take(self, pid: int) -> None:
        for link in ("cwd", "root"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                self.directories.add(os.readlink(f"/proc/{pid}/{link}"))
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            self.files.update(path for path, _ in _maps(pid))
        for task in _listed(f"/proc/{pid}/task"):  # a thread may have descriptors of its own
            for number in _listed(f"/proc/{pid}/task/{task}/fd"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    self._descriptor(f"/proc/{pid}/task/{task}/fd/{number}")

    def _descriptor(self, link: str) -> None:
        path = os.readlink(link)
        if not path.startswith("/"):
            return  # a pipe, a socket, or one of the kernel's own
        st = os.stat(link)
        if stat.S_ISDIR(st.st_mode):
            self.directories.add(path)
            return
        if not path.endswith(_DELETED) or st.st_nlink:
            # A name may really end like that; to hold one more than there is does no harm.
            self.files.add(path)
        if stat.S_ISREG(st.st_mode) and (st.st_nlink > 1 or path.endswith(_DELETED)):
            self.linked.add(st.st_ino)


def _processes(init_pid: int) -> Iterator[int]:
    """The first process and all below it. Whose parent has ended is a child of the first."""
    pending = [init_pid]
    while pending:
        pid = pending.pop()
        yield pid
        for task in _listed(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{task}/children"
            with contextlib.suppress(OSError), open(path, "rb") as file:
                pending += map(int, file.read().split())


def _maps(pid: int) -> Iterator[tuple[str, bool]]:
    """Each mapped file, and whether the map is shared."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        for line in file:
            start = line.find(b"/")
            if start < 0:
                continue
            path = os.fsdecode(line[start:-1].replace(rb"\012", b"\n"))
            if not path.endswith(_DELETED):
                yield path, line.split(None, 2)[1][3:4] == b"s"


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return False
    return line[line.rindex(b")") + 2 :][:1] not in b"ZX"
