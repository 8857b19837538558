"""Looks for file locks that no program in here should hold, and kills who holds one.

The host grants locks on files of read-only mounts without taking them. A program with two threads
can exchange the descriptor after the host has looked, and so come to hold a real one, which would
make others wait. It has to keep the file open for that, so each descriptor is looked at in turn.
"""

import _signal
import os

INTERVAL_S = 1.0
MAX_LOOKED_AT = 5000  # descriptors at one look, so that pid 1 serves the host in between


class LockWatch:
    """Goes round all processes, a bounded number of descriptors at a time."""

    def __init__(self, loop, pids):
        self._loop = loop
        self._pids = pids
        self._waiting = []  # processes of this round that were not looked at yet
        self._closed = set()  # those that could not be looked into in this round
        self._closed_before = set()
        loop.after(INTERVAL_S, self._look)

    def _look(self):
        self._loop.after(INTERVAL_S, self._look)
        if not self._waiting:
            self._waiting = self._pids()
            self._closed_before, self._closed = self._closed, set()
        left = MAX_LOOKED_AT
        while self._waiting and left > 0:
            pid = self._waiting.pop()
            try:
                count, is_holding = _look_into(pid)
            except PermissionError:
                # Nobody needs to be closed to pid 1; in the middle of an exec it passes.
                count, is_holding = 1, pid in self._closed_before
                self._closed.add(pid)
            left -= count
            if is_holding:
                _kill(pid)


def _look_into(pid):
    """Return how many descriptors a process has, and whether it holds a lock on a read-only
    mount."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError):
        return 1, False
    held = any(_is_held(pid, number) for number in numbers)
    return len(numbers) + 1, held


def _is_held(pid, number):
    try:
        if not os.statvfs(f"/proc/{pid}/fd/{number}").f_flag & os.ST_RDONLY:
            return False
        with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
            return b"\nlock:" in file.read()
    except (FileNotFoundError, ProcessLookupError):
        return False  # closed meanwhile
    except PermissionError:
        raise
    except OSError:
        return False  # a pipe or a socket that knows no such question


def _kill(pid):
    try:
        os.kill(pid, _signal.SIGKILL)
    except ProcessLookupError:
        pass
