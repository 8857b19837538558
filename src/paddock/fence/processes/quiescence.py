"""Quiescence: whether anything inside a sandbox is at work at this moment, or all of it waits. A
replay gives the next answer only then, so that an agent sees answers in the order in which they
came.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from paddock.fence.processes.tree import children, descendants, threads

_LIMIT_S = 0.5  # of a program that computes in the background
_LOOK_S = 0.001
_TURN_NS = 5_000_000  # on a core: enough to take an answer
_BUSY_S = 0.3  # that a busy machine is waited for
MANY, ONE = 3, 1  # looks in a row: of several threads one may be between two waits
_MAX_TASKS = 4096
# Functions of the kernel in which the parent of vfork and posix_spawn stands still, by the kernel's
# version, until the child has executed its program. That is when a fork of a run goes live at a
# program. The state of the parent is D meanwhile, which is otherwise that of a thread at work.
_VFORK_WAITS = (b"kernel_clone", b"_do_fork", b"wait_for_vfork_done")
# Those and functions in which a process waits for a child, or for what that writes to a pipe.
_WAITS = (b"do_wait", b"pipe_read", b"anon_pipe_read", b"pipe_wait", *_VFORK_WAITS)


async def wait_until_quiescent(init_pid: int, limit_s: float = _LIMIT_S, looks: int = MANY) -> bool:
    """Return True when every thread inside waits, or False after the limit. On a busy machine what
    could run may have to wait for a core: then it is left the time to run a little."""
    until, seen = time.monotonic() + limit_s, 0
    had: int | None = None  # what all inside had worked when the limit was over
    while True:
        seen = 0 if is_at_work(init_pid) else seen + 1
        if seen >= looks:
            return True
        if time.monotonic() > until:
            worked = work_of(init_pid)
            had = worked if had is None else had
            if worked - had > _TURN_NS or time.monotonic() > until + _BUSY_S:
                return False
        await asyncio.sleep(_LOOK_S)


def is_at_work(init_pid: int) -> bool:
    """Return whether some thread of a descendant of the process runs, or could run."""
    return any(_is_busy(pid, task) for pid, tasks in _below(init_pid) for task in tasks)


def work_of(init_pid: int) -> int:
    """Return how long everything inside has been on a core in its life, in nanoseconds."""
    return sum(_worked(pid, task) for pid, tasks in _below(init_pid) for task in tasks)


def concurrency(init_pid: int) -> int:
    """Count the threads inside that could do something of their own accord: all, except that of a
    process with a single thread that waits for another one to end or to write to it."""
    return sum(0 if _waits_for_child(pid, tasks) else len(tasks) for pid, tasks in _below(init_pid))


def _waits_for_child(pid: int, tasks: list[str]) -> bool:
    """Return whether the kernel says so. Where it says nothing, the process counts as one at
    work."""
    if len(tasks) != 1 or not children(pid):
        return False
    return _wait_function(pid, tasks[0]) in _WAITS


def _below(init_pid: int) -> Iterator[tuple[int, list[str]]]:
    """Yield every process inside with its threads. A sandbox with very many is not looked through
    to its end."""
    looked = 0
    for pid in descendants(init_pid):
        tasks = threads(pid)
        looked += len(tasks)
        yield pid, tasks
        if looked >= _MAX_TASKS:
            return


def _worked(pid: int, task: str) -> int:
    with (
        contextlib.suppress(OSError, ValueError),
        open(f"/proc/{pid}/task/{task}/schedstat", "rb") as file,
    ):
        return int(file.read().partition(b" ")[0])
    return 0


def is_stopped(pid: int) -> bool:
    """Return whether a process runs nothing of its own until it is continued: every thread is
    stopped, has ended, or waits for a child that is stopped before its first exec."""
    return all(_state(pid, task) in (b"T", b"t", b"Z", b"X", b"") for task in threads(pid))


def _is_busy(pid: int, task: str) -> bool:
    return _state(pid, task) in (b"R", b"D")


def _state(pid: int, task: str) -> bytes:
    """Return the state of a thread as proc(5) has it, T for one that waits in vfork, and nothing
    for one that has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
        line = file.read()
        # Behind the name, which may hold anything, and ends with the last bracket.
        state = line[line.rindex(b")") + 2 :][:1]
        if state == b"D" and _wait_function(pid, task) in _VFORK_WAITS:
            return b"T"
        return state
    return b""


def _wait_function(pid: int, task: str) -> bytes:
    """Return the function of the kernel in which a thread waits; empty where that is not told."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/wchan", "rb") as file:
        return file.read()
    return b""
