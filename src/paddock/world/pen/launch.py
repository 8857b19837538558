"""Programs in a pen: starting one, and running one to its end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from paddock.fence import bubblewrap
from paddock.world.pen import filter as calls
from paddock.world.pen import interpreter
from paddock.world.pen.interpreter import Interpreter
from paddock.world.pen.mounts import (
    CODE,
    OWN,
    TMP,
    PenMounts,
    bwrap_arguments,
    empty_file,
    etc_files,
)
from paddock.world.service import StandInFailed

LISTENER, READY = "PADDOCK_LISTENER", "PADDOCK_READY"  # variables that name descriptors
MAX_REPORT = 64 << 20
_MAX_OUTPUT = 1 << 20
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


class PenLimits(msgspec.Struct, frozen=True):
    """Limits of each process. The kernel does not enforce the number of processes for root."""

    memory_bytes: int = 2 << 30
    cpu_s: int = 3600
    file_bytes: int = 1 << 30
    open_files: int = 4096
    processes: int = 512

    def as_rlimits(self) -> dict[str, int]:
        # The address space is not limited: many runtimes reserve far more of it than they use.
        return {
            "RLIMIT_DATA": self.memory_bytes,
            "RLIMIT_CPU": self.cpu_s,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CORE": 0,
        }


class PenProgram(msgspec.Struct, frozen=True):
    """A program, with the files that it sees and its limits."""

    argv: tuple[str, ...]
    mounts: PenMounts
    env: Mapping[str, str] = {}
    cwd: str = OWN
    limits: PenLimits = msgspec.field(default_factory=PenLimits)
    python: Interpreter = msgspec.field(default_factory=interpreter.find)
    port: int | None = None  # on loopback; without one it accepts connections from LISTENER
    ready_s: float = 10.0


class Finished(msgspec.Struct, frozen=True):
    """The results of a program that has ended."""

    code: int
    output: str  # stdout and stderr
    report: bytes


def spawn(
    program: PenProgram,
    control: int,
    output: int,
    fds: Mapping[str, int],
    stdin: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program. Variables of its environment have the numbers of the descriptors `fds`."""
    os.makedirs(program.mounts.own, exist_ok=True)
    empty_file(program.mounts).touch()
    with contextlib.ExitStack() as stack:
        files = {path: _memory_file(stack, t) for path, t in etc_files(program.mounts).items()}
        bpf = calls.program(is_unix_allowed=program.mounts.is_unix_allowed)
        filter_fd = _memory_file(stack, bpf)
        reads = (*program.mounts.reads, *program.python.reads)
        mounts = replace(program.mounts, reads=reads, links=program.python.links)
        argv = bwrap_arguments(mounts, bubblewrap.find(), files, filter_fd)
        env = _environment(program) | {name: str(fd) for name, fd in fds.items()}
        plan = {
            "control": control, "argv": program.argv, "env": env, "cwd": program.cwd,
            "port": program.port, "limits": program.limits.as_rlimits(), "stdin": stdin is not None,
            "fds": list(fds.values()), "uid": program.mounts.uid,
        }  # fmt: skip
        warden = f"{CODE}/paddock/world/pen/warden.py"
        argv += [str(program.python.path), "-I", "-S", "-B", warden, json.dumps(plan)]
        inherited = [control, filter_fd, *files.values(), *fds.values()]
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=output,
            stderr=output,
            pass_fds=inherited,
            env={},
            cwd="/",
        )


def run_once(
    program: PenProgram, *, stdin: bytes = b"", timeout_s: float = 30.0, what: str = "it"
) -> Finished:
    """Run a program to its end. The thread waits. Raises StandInFailed when it takes too long."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, _file(stdin) as source, _file() as output, _file() as report:
        fds = {READY: report.fileno()}
        process = spawn(program, theirs.fileno(), output.fileno(), fds, source)
        theirs.close()
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise StandInFailed(f"{what} did not end within {timeout_s:g} s") from None
        finally:
            end(process)
        text = _tail(output, _MAX_OUTPUT).decode("utf-8", "replace")
        return Finished(code, text, _tail(report, MAX_REPORT))


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill everything in the pen: its first process dies with bubblewrap."""
    if process.poll() is None:
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5.0)


def _environment(program: PenProgram) -> dict[str, str]:
    return {
        "PATH": f"{program.python.path.parent}:{_SYSTEM_PATH}",
        "HOME": OWN,
        "TMPDIR": TMP,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # sets have the same order in every run
        "PYTHONUNBUFFERED": "1",
        "PADDOCK_STATE": f"{OWN}/state",
        **program.env,
    }


def _memory_file(stack: contextlib.ExitStack, data: bytes) -> int:
    fd = os.memfd_create("pen")
    stack.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _file(data: bytes = b"") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    file.write(data)
    file.seek(0)
    return file


def _tail(file: IO[bytes], max_bytes: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - max_bytes))
    return file.read(max_bytes)


def own_directory(directory: Path) -> Path:
    """Return the directory of a service that its pen may write to."""
    path = directory / "own"
    path.mkdir(parents=True, exist_ok=True)
    return path
