"""What goes on below a process: whether anything is at work, and how many could be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paddock.fence.processes.quiescence import (
    concurrency,
    is_at_work,
    wait_until_quiescent,
    work_of,
)

pytestmark = pytest.mark.anyio

WAITS = "import os, sys; os.write(1, b'up\\n'); sys.stdin.read()"
WORKS = "print('up', flush=True)\nwhile True: pass"
THREADS = (
    "import sys, threading\n"
    "for _ in range(2): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    f"{WAITS}"
)
STARTS = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITS!r}])"
STARTS_TWO = (
    "import subprocess, sys\n"
    f"two = [subprocess.Popen([sys.executable, '-c', {WAITS!r}]) for _ in range(2)]\n"
    "for one in two: one.wait()"
)
# The child of a vfork holds its parent up until it executes a program or ends. It runs a function
# of C, because it shares the parent's memory.
VFORKS = (
    "import ctypes, signal, sys\n"
    "libc = ctypes.CDLL(None)\n"
    "print('up', flush=True)\n"
    "CLONE_VM, CLONE_VFORK = 0x100, 0x4000\n"
    "stack = ctypes.create_string_buffer(1 << 16)\n"
    "top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 16) - 64)\n"
    "libc.clone(libc.sleep, top, CLONE_VM | CLONE_VFORK | signal.SIGCHLD, 3)\n"
)


@contextmanager
def below(program: str, lines: int = 1) -> Iterator[int]:
    """The id of a process that has this one below it, which has said that it is up."""
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"
    words = [sys.executable, "-c", outer]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            for _ in range(lines):
                assert process.stdout.readline() == b"up\n"
            yield process.pid
        finally:
            subprocess.run(["pkill", "-KILL", "-P", str(process.pid)], check=False)
            process.kill()


@pytest.mark.parametrize(
    ("program", "said", "count"),
    [(WAITS, 1, 1), (THREADS, 1, 3), (STARTS, 1, 1), (STARTS_TWO, 2, 2)],
    ids=["one", "threads", "one that waits for another", "two programs"],
)
async def test_lines_of_work_are_counted(program: str, said: int, count: int) -> None:
    with below(program, said) as pid:
        await wait_until_quiescent(pid, 5)
        assert concurrency(pid) == count


async def test_the_parent_of_a_vfork_is_no_line_of_work() -> None:
    with below(VFORKS) as pid:
        await wait_until_quiescent(pid, 0.3)
        assert concurrency(pid) == 1


async def test_the_parent_of_a_vfork_is_not_at_work() -> None:
    """It stands still in the state that a thread at work has otherwise. A replay that took it for
    work would wait in vain before every program that a rule refuses."""
    with below(VFORKS) as pid:
        assert await wait_until_quiescent(pid, 2)


async def test_one_that_computes_is_at_work_and_one_that_waits_is_not() -> None:
    with below(WORKS) as pid:
        assert is_at_work(pid)
    with below(WAITS) as pid:
        await wait_until_quiescent(pid, 5)
        assert not is_at_work(pid)


async def test_one_that_computes_is_left_its_turn_and_no_more() -> None:
    with below(WORKS) as pid:
        before = work_of(pid)
        await wait_until_quiescent(pid, 0.01)
        assert work_of(pid) - before > 5_000_000
