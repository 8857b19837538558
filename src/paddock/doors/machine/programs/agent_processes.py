"""Which programs are commands of the agent: those that its own processes start. What commands start
in their turn belongs to them, and is observed."""

from __future__ import annotations

import os

from paddock.fence.processes.programs import Attempt
from paddock.state import procstat

_MAX_CLIMB = 64  # generations of processes that never executed anything
_MAX_KNOWN = 10_000
_MAX_IMAGES = 64
# Of /proc/PID/stat, behind the name: where its stack, its words and its environment begin.
_PLACES = (25, 45, 47)
Image = tuple[int, ...]


class Commanders:
    """The processes of one agent, as the sandbox numbers them. Forks of it that execute nothing are
    the agent as well."""

    def __init__(self) -> None:
        self._own: set[int] = set()
        self._hosts: dict[int, None] = {}  # the same, as this host numbers them
        self._images: dict[Image, None] = {}  # of the programs that these were
        self._others: dict[int, None] = {}  # in order, so that the oldest can make room

    def begins(self, pid: int, host_pid: int) -> None:
        """The agent's program is executed."""
        self._own.add(pid)
        self._hosts[host_pid] = None

    def is_command(self, attempt: Attempt) -> bool:
        """Whether the agent starts it. A program is looked for in one directory after the other,
        so it is one only when it has been found: see `started`."""
        pid = attempt.event.pid
        self._look()
        if pid in self._own or pid in self._others:
            return False  # it becomes another program, and stays who it is
        is_own = self._is_own(attempt)
        if not is_own:
            self.started(pid)
        return is_own

    def started(self, pid: int) -> None:
        """From now on what it starts is its own matter."""
        self._others[pid] = None
        if len(self._others) > _MAX_KNOWN:
            del self._others[next(iter(self._others))]

    def refused(self, pid: int) -> None:
        """It did not become a program: what it tries next, in another directory, is a command."""
        self._others.pop(pid, None)

    def _is_own(self, attempt: Attempt) -> bool:
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
        """Learns what the agent is now, while it is there."""
        for host_pid in tuple(self._hosts):
            image = _image(host_pid)
            if image is None:
                del self._hosts[host_pid]  # it has ended, and another may get its number
            else:
                self._images[image] = None
        while len(self._images) > _MAX_IMAGES:
            del self._images[next(iter(self._images))]


def _image(host_pid: int) -> Image | None:
    """What no two executions have in common, and a fork has with what it is a fork of: the file,
    and the chance by which its memory was laid out. None where that cannot be seen."""
    try:
        file = os.stat(f"/proc/{host_pid}/exe")
        words = procstat.fields(host_pid)
        places = [int(words[place]) for place in _PLACES]
    except (OSError, ValueError, IndexError):
        return None
    return (file.st_dev, file.st_ino, *places) if all(places) else None


def _ancestors(host_pid: int) -> list[int]:
    """The processes above one, from the nearest, as the sandbox numbers them."""
    found: list[int] = []
    pid = host_pid
    for _ in range(_MAX_CLIMB):
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                lines = dict(line.split(b":", 1) for line in file if b":" in line)
            pid = int(lines[b"PPid"])
            with open(f"/proc/{pid}/status", "rb") as file:
                inner = next(line for line in file if line.startswith(b"NSpid:")).split()[-1]
        except (OSError, ValueError, KeyError, StopIteration):
            break  # it has ended meanwhile, or is not ours to look at
        found.append(int(inner))
        if found[-1] == 1:
            break
    return found
