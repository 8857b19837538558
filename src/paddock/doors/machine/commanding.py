"""Which programs are commands of the agent: those that its own processes start. What commands start
in their turn belongs to them, and is observed."""

from __future__ import annotations

from paddock.fence.container.attempts import Attempt

_MAX_CLIMB = 64  # generations of processes that never executed anything
_MAX_KNOWN = 10_000


class Commanders:
    """The processes of one agent, as the sandbox numbers them. Forks of it that execute nothing are
    the agent as well."""

    def __init__(self) -> None:
        self._own: set[int] = set()
        self._others: dict[int, None] = {}  # in order, so that the oldest can make room

    def begins(self, pid: int) -> None:
        """The agent's program was executed."""
        self._own.add(pid)

    def is_command(self, attempt: Attempt) -> bool:
        """Whether the agent starts it. A program is looked for in one directory after the other,
        so it is one only when it has been found: see `started`."""
        pid = attempt.event.pid
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
        return False


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
