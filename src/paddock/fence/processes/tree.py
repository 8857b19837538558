"""The tree of processes below one, read from /proc. Meanwhile processes may end or start others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def threads(pid: int) -> list[str]:
    """Return the threads of a process; none if it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """Return the processes that the threads of a process have started."""
    pids: list[int] = []
    for thread in threads(pid):
        path = f"/proc/{pid}/task/{thread}/children"
        with contextlib.suppress(OSError), open(path, "rb") as file:
            pids += map(int, file.read().split())
    return pids


def descendants(pid: int) -> Iterator[int]:
    """Yield every process below one, parents before children. What a process has started is looked
    up only after the caller has looked at it: one that starts another and waits for it is not
    missed."""
    pending = children(pid)
    while pending:
        child = pending.pop()
        yield child
        pending += children(child)


def status_pids(pid: int) -> tuple[int, int]:
    """Return a process's pid as its own sandbox numbers it, and its parent's as the host does.
    Raises OSError when it has ended."""
    fd = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, 8192)
    finally:
        os.close(fd)
    return int(_field(text, b"\nNSpid:")[-1]), int(_field(text, b"\nPPid:")[0])


def _field(text: bytes, name: bytes) -> list[bytes]:
    begin = text.index(name) + len(name)
    return text[begin : text.index(b"\n", begin)].split()
