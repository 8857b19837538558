"""The lock of one store: many may add to it at once, one alone may take things away from it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from paddock.model.errors import Conflict

# Longer than the largest save; past it a holder is stuck and waiting on would hide that.
LOCK_TIMEOUT_S = 600.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.002, 0.1


class StoreLock:
    """A file that is locked with flock, so the kernel releases it however its holder ends."""

    def __init__(self, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with readers and those who add."""
        with self._open() as fd:
            self._wait(fd, fcntl.LOCK_SH)
            yield

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone, to remove something."""
        with self._open() as fd:
            self._wait(fd, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def exclusive_if_free(self) -> Iterator[bool]:
        """Hold the lock alone where nobody holds it right now; yield whether it was given."""
        with self._open() as fd:
            yield _try(fd, fcntl.LOCK_EX)

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        # A descriptor of its own for each use: threads of one process exclude each other as well.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def _wait(self, fd: int, kind: int) -> None:
        deadline, pause_s = time.monotonic() + self._timeout_s, _FIRST_WAIT_S
        while not _try(fd, kind):
            if time.monotonic() > deadline:
                raise Conflict(
                    f"{self._path.parent} has been in use for {self._timeout_s:.0f} s",
                    hint="see which process holds its lock file (lsof, fuser) and end it",
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_WAIT_S)


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
