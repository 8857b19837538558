"""How an attempt is made from inside a sandbox, and what came of it. No test lives here."""

from __future__ import annotations

import json
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from paddock import Sandbox

T = TypeVar("T")
# What every program below may use. `call` is the kernel itself: no library in between refuses.
_PRELUDE = '''
import ctypes, errno, json, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
found = {}

def call(number, *arguments):
    """A raw system call: its value, or the name of its error."""
    ctypes.set_errno(0)
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    libc.syscall.restype = ctypes.c_long
    value = libc.syscall(ctypes.c_long(number), *values)
    return value if value >= 0 else errno.errorcode[ctypes.get_errno()]

def attempt(action, *arguments):
    """What a Python call came to: `ok ...`, or the name of its error."""
    try:
        result = action(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except ValueError as error:
        return str(error)
    return "ok " + repr(result)[:300]

def read(path):
    with open(path, "rb") as file:
        return file.read(65536)

def in_child(action, *arguments):
    """The same in a process of its own, for calls that change the caller when they succeed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, str(action(*arguments)).encode())
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 4096).decode()
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    return answer or "died " + str(os.waitstatus_to_exitcode(status))
'''
_TELL = "\nprint(json.dumps(found))\n"


def probe(box: Sandbox, program: str, *arguments: str, timeout: float = 60) -> Any:
    """Runs a Python program inside; gives what it has put into `found`."""
    result = box.commands.run(["python3", "-c", _whole(program), *arguments], timeout=timeout)
    return json.loads(result.stdout.splitlines()[-1])


def probe_outside(program: str, *arguments: str) -> Any:
    """The same program as an ordinary child of this process: what there is without a fence."""
    words = ["/usr/bin/python3", "-c", _whole(program), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run(box: Sandbox, program: str, *arguments: str, **options: Any) -> Any:
    """Runs a Python program inside; gives the whole result, whatever its status."""
    words = ["python3", "-c", _PRELUDE + textwrap.dedent(program), *arguments]
    return outcome(lambda: box.commands.run(words, **options))


def background(box: Sandbox, program: str, *arguments: str) -> Any:
    """Starts a Python program inside and goes on once it has printed a line."""
    words = ["python3", "-c", _PRELUDE + textwrap.dedent(program), *arguments]
    handle = box.commands.run(words, background=True)
    eventually(lambda: "\n" in handle.stdout, what="the first line of the program in the sandbox")
    return handle


def shell(box: Sandbox, command: str, **options: Any) -> Any:
    """Runs a shell command; gives the result, whatever its status."""
    return outcome(lambda: box.commands.run(command, **options))


def outcome(action: Callable[[], Any]) -> Any:
    """The result of a command, also when a bad status made it an exception."""
    from paddock import CommandExitException

    try:
        return action()
    except CommandExitException as error:
        return error.result


def eventually(condition: Callable[[], T], timeout_s: float = 60.0, what: str = "") -> T:
    """The first true value; the test fails if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_s} s: {what or condition}")
        time.sleep(0.02)
    return value


def init_pid(box: Sandbox) -> int:
    """The host's pid of the sandbox's first process."""
    pid: int = box._calls.box.machine.init_pid
    return pid


def layer_of(box: Sandbox) -> Path:
    """The host's path of the sandbox's own files."""
    inner = box._calls.box
    path: Path = inner.layers.path(inner.machine.layer)
    return path


def memory_bytes() -> int:
    """Resident memory of this process."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1]) << 10


def _whole(program: str) -> str:
    return _PRELUDE + textwrap.dedent(program) + _TELL
