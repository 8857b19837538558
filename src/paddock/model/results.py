"""Results, infos and events that calls on a sandbox return. Values only."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any

import msgspec


class CommandResult(msgspec.Struct, frozen=True):
    """The end of a command. `killed_by` names the limit that stopped it, if one did: memory, time,
    output, disk, pids, cpu or timeout."""

    stdout: str
    stderr: str
    exit_code: int
    duration_s: float
    killed_by: str | None = None
    limits_hit: tuple[str, ...] = ()
    error: str | None = None
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""

    def __repr__(self) -> str:
        return (
            f"CommandResult(stdout={self.stdout!r}, stderr={self.stderr!r}, "
            f"exit_code={self.exit_code!r}, duration_s={self.duration_s!r}, "
            f"killed_by={self.killed_by!r}, limits_hit={self.limits_hit!r}, error={self.error!r})"
        )


class ProcessInfo(msgspec.Struct, frozen=True):
    """A process that was started through the API and still runs. `pid` is the sandbox's own."""

    pid: int
    cmd: str
    args: tuple[str, ...]
    cwd: str
    is_pty: bool
    started_at: float


class FileType(enum.Enum):
    """The type of a path."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"
    OTHER = "other"


class EntryInfo(msgspec.Struct, frozen=True):
    """One file or directory inside the sandbox."""

    name: str
    path: str
    type: FileType
    size: int
    mode: int
    modified_at: float
    symlink_target: str | None = None

    @property
    def permissions(self) -> str:
        return "".join(
            letter if self.mode >> (8 - i) & 1 else "-" for i, letter in enumerate("rwxrwxrwx")
        )


class WatchEvent(msgspec.Struct, frozen=True):
    """One change under a watched directory. `type`: create, write, remove, rename, chmod."""

    type: str
    name: str


class ExecEvent(msgspec.Struct, frozen=True):
    """One program that was really executed inside, whoever started it. Pids are the sandbox's."""

    program: str
    argv: tuple[str, ...]
    cwd: str
    pid: int
    parent: int
    started_at: float
    is_truncated: bool = False
    exit_code: int | None = None
    duration_s: float | None = None
    real_path: str | None = None  # of the file that `program` leads to


class FileEvent(msgspec.Struct, frozen=True):
    """One open or finished write of a file, as the kernel told it."""

    path: str
    access: str  # "read" | "write"
    pid: int
    at: float


class Metrics(msgspec.Struct, frozen=True):
    """One sample of what a sandbox uses."""

    at: float
    cpu_used_s: float
    cpu_percent: float
    memory_bytes: int
    memory_limit_bytes: int
    pids: int
    disk_bytes: int
    disk_limit_bytes: int
    io_read_bytes: int
    io_write_bytes: int


class SandboxInfo(msgspec.Struct, frozen=True):
    """A description of a sandbox; `enforcement` maps each limit to the mechanism that keeps it."""

    sandbox_id: str
    state: str  # running | paused | ended
    template: str
    started_at: datetime
    end_at: datetime | None
    limits: dict[str, Any]
    enforcement: dict[str, str]
    metadata: dict[str, str]
    hostname: str
    uid: int
    isolation: str = "container"
    ended_by: str | None = None
    parent_id: str | None = None
