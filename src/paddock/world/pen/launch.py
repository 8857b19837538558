"""Starts a process in a pen, and runs one to its end there."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from paddock.fence import bubblewrap
from paddock.world.pen import filter as calls
from paddock.world.pen import interpreter
from paddock.world.pen.interpreter import Interpreter
from paddock.world.pen.walls import CODE, OWN, TMP, Walls, arguments, empty_file, names
from paddock.world.service import StandInFailed

LISTENER, READY = "PADDOCK_LISTENER", "PADDOCK_READY"  # name the descriptors of what is kept
MAX_REPORT = 64 << 20
_MAX_SAID = 1 << 20
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


class Limits(msgspec.Struct, frozen=True):
    """Of each process. The kernel does not count the processes of root."""

    memory_bytes: int = 2 << 30
    cpu_s: int = 3600
    file_bytes: int = 1 << 30
    open_files: int = 4096
    processes: int = 512

    def words(self) -> dict[str, int]:
        # Not the address space: many runtimes reserve far more of it than they use.
        return {
            "RLIMIT_DATA": self.memory_bytes,
            "RLIMIT_CPU": self.cpu_s,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CORE": 0,
        }


class Kept(msgspec.Struct, frozen=True):
    """A program, what it sees and what it may use."""

    words: tuple[str, ...]
    walls: Walls
    env: Mapping[str, str] = {}
    cwd: str = OWN
    limits: Limits = msgspec.field(default_factory=Limits)
    python: Interpreter = msgspec.field(default_factory=interpreter.find)
    port: int | None = None  # of loopback, where it listens; else it takes callers from LISTENER
    ready_s: float = 10.0


class Finished(msgspec.Struct, frozen=True):
    """What a program that ran to its end left."""

    code: int
    said: str  # on stdout and stderr
    report: bytes


def spawn(
    kept: Kept, control: int, said: int, fds: Mapping[str, int], given: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Starts it; it finds the descriptors `fds` by these names in its environment."""
    os.makedirs(kept.walls.own, exist_ok=True)
    empty_file(kept.walls).touch()
    with contextlib.ExitStack() as held:
        data = {target: _memory(held, text) for target, text in names(kept.walls).items()}
        rules = _memory(held, calls.program(is_unix_allowed=kept.walls.is_unix_allowed))
        reads = (*kept.walls.reads, *kept.python.reads)
        walls = replace(kept.walls, reads=reads, links=kept.python.links)
        inner = arguments(walls, bubblewrap.find(), data, rules)
        env = _environment(kept) | {name: str(fd) for name, fd in fds.items()}
        plan = {
            "control": control, "words": kept.words, "env": env, "cwd": kept.cwd,
            "port": kept.port, "limits": kept.limits.words(), "stdin": given is not None,
            "fds": list(fds.values()), "uid": kept.walls.uid,
        }  # fmt: skip
        warden = f"{CODE}/paddock/world/pen/warden.py"
        inner += [str(kept.python.path), "-I", "-S", "-B", warden, json.dumps(plan)]
        return _start(inner, said, given, [control, rules, *data.values(), *fds.values()])


def run_once(
    kept: Kept, *, given: bytes = b"", timeout_s: float = 30.0, what: str = "it"
) -> Finished:
    """Runs a program to its end, from a thread that may wait. Raises StandInFailed when it does
    not end in time."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, _file(given) as source, _file() as said, _file() as report:
        fds = {READY: report.fileno()}
        process = spawn(kept, theirs.fileno(), said.fileno(), fds, source)
        theirs.close()
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise StandInFailed(f"{what} did not end within {timeout_s:g} s") from None
        finally:
            end(process)
        return Finished(code, _tail(said, _MAX_SAID).decode("utf-8", "replace"),
                        _tail(report, MAX_REPORT))  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills all that is in the pen: its first process dies with bubblewrap."""
    if process.poll() is None:
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5.0)


def _start(
    words: Sequence[str], said: int, given: IO[bytes] | None, fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL if given is None else given,
        stdout=said,
        stderr=said,
        pass_fds=fds,
        env={},
        cwd="/",
    )


def _environment(kept: Kept) -> dict[str, str]:
    return {
        "PATH": f"{kept.python.path.parent}:{_SYSTEM_PATH}",
        "HOME": OWN,
        "TMPDIR": TMP,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # the order of a set must not differ from run to run
        "PYTHONUNBUFFERED": "1",
        "PADDOCK_STATE": f"{OWN}/state",
        **kept.env,
    }


def _memory(held: contextlib.ExitStack, data: bytes) -> int:
    fd = os.memfd_create("pen")
    held.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _file(data: bytes = b"") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    file.write(data)
    file.seek(0)
    return file


def _tail(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read(most)


def own_directory(directory: Path) -> Path:
    """Of a service: what a pen of it may write."""
    path = directory / "own"
    path.mkdir(parents=True, exist_ok=True)
    return path
