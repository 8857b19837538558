"""The processes that are the agent itself. Programs that these start are commands of the agent, and
steps of its run; what commands start in their turn belongs to them, and is observed.

A process that forks without executing anything is still the program that forked it. So an exec is a
command if the nearest ancestor that executed something is the agent. Where that ancestor has ended,
the process is compared with the agent by its image: the file that it runs and where the kernel, at
random, has placed its stack, arguments and environment, which a fork keeps and an exec changes."""

from __future__ import annotations

import os

from paddock.fence.processes.programs import ExecAttempt
from paddock.fence.processes.tree import status_pids
from paddock.state import procstat

_MAX_CLIMB = 64  # generations of processes that never executed anything
_MAX_OTHERS = 10_000
_MAX_IMAGES = 64
# Of /proc/PID/stat, behind the name: where its stack, its arguments and its environment begin.
_ADDRESS_FIELDS = (25, 45, 47)
Image = tuple[int, ...]


class AgentProcesses:
    """The processes of one agent, as the sandbox numbers them."""

    def __init__(self) -> None:
        self._own: set[int] = set()
        self._hosts: dict[int, None] = {}  # the same, as this host numbers them
        self._images: dict[Image, None] = {}  # of the programs that these were
        self._others: dict[int, None] = {}  # in order, so that the oldest can make room

    def begins(self, pid: int, host_pid: int) -> None:
        """Note that the agent's own program is executed."""
        self._own.add(pid)
        self._hosts[host_pid] = None

    def is_command(self, attempt: ExecAttempt) -> bool:
        """Return whether the agent starts it. A program is looked for in one directory after the
        other, so it is a command only when it has been found: see `started`."""
        pid = attempt.event.pid
        self._look()
        if pid in self._own or pid in self._others:
            return False  # it becomes another program, and stays who it is
        is_own = self._is_own(attempt)
        if not is_own:
            self.started(pid)
        return is_own

    def started(self, pid: int) -> None:
        """Note that a process is a command now: what it starts is its own matter."""
        self._others[pid] = None
        if len(self._others) > _MAX_OTHERS:
            del self._others[next(iter(self._others))]

    def refused(self, pid: int) -> None:
        """Note that an exec was refused: what it tries next, in another directory, is a command."""
        self._others.pop(pid, None)

    def _is_own(self, attempt: ExecAttempt) -> bool:
        if attempt.event.parent in self._own:
            return True
        if attempt.event.parent in self._others:
            return False
        for inner in _ancestors(attempt.host_pid):
            if inner in self._own:
                return True
            if inner in self._others:
                return False
        # Its parent has ended, and nobody knows any more who that was. But it has executed nothing
        # yet: it is still the program that forked it, laid out in memory as that one.
        return _image(attempt.host_pid) in self._images

    def _look(self) -> None:
        """Learn the images of the agent now, while it is there."""
        for host_pid in tuple(self._hosts):
            image = _image(host_pid)
            if image is None:
                del self._hosts[host_pid]  # it has ended, and another may get its number
            else:
                self._images[image] = None
        while len(self._images) > _MAX_IMAGES:
            del self._images[next(iter(self._images))]


def _image(host_pid: int) -> Image | None:
    """Return what no two executions have in common and a fork has with its parent: the file, and
    the random layout of its memory. None where that cannot be seen."""
    try:
        file = os.stat(f"/proc/{host_pid}/exe")
        fields = procstat.fields(host_pid)
        addresses = [int(fields[index]) for index in _ADDRESS_FIELDS]
    except (OSError, ValueError, IndexError):
        return None
    return (file.st_dev, file.st_ino, *addresses) if all(addresses) else None


def _ancestors(host_pid: int) -> list[int]:
    """Return the processes above one, from the nearest, as the sandbox numbers them."""
    pids: list[int] = []
    pid = host_pid
    for _ in range(_MAX_CLIMB):
        try:
            _, pid = status_pids(pid)
            inner, _ = status_pids(pid)
        except (OSError, ValueError):
            break  # it has ended meanwhile, or is not ours to look at
        pids.append(inner)
        if inner == 1:
            break
    return pids
