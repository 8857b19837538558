"""The secrets that sandboxes hold, by name, and those that were taken from them. No value is here.

To revoke is to put a new marker in a file of the secret's name. Who holds the secret remembers the
marker that it found when it loaded the value; another one, or none where one was, means revoked. No
clock is compared, so one that is set back gives nothing back.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from pathlib import Path

import msgspec

from paddock.model.errors import HostCannot, InvalidInput
from paddock.objects.file_bytes import sync_directory
from paddock.state import procstat
from paddock.state.home import Home

Mark = tuple[int, int, int]  # which marker it is: inode, time of change, time of content
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SANDBOX = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_MAX_RECORD = 1 << 20


class Holder(msgspec.Struct, frozen=True):
    """A running sandbox and the names of its secrets, each with the marker at its loading."""

    sandbox_id: str
    marks: dict[str, Mark | None]
    host_pid: int
    host_started: int
    started_at: float

    def lost(self, home: Home) -> set[str]:
        """Return the secrets that were revoked since."""
        return {name for name, mark in self.marks.items() if is_revoked(home, name, mark)}


class _HolderRecord(msgspec.Struct, frozen=True):
    """The file of a holder, which has the id of its sandbox as its name."""

    names: dict[str, Mark | None]
    host_pid: int
    host_started: int
    started: float


def revoke(home: Home, name: str) -> None:
    """Takes a secret from every sandbox that has it now. Returns when that is on disk."""
    path = Path(_marker(home, name))
    temporary = path.with_name(f".{secrets.token_hex(8)}")
    try:
        _make(path.parent)
        _write_durably(temporary)
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise HostCannot(f"{name} cannot be revoked: {path}: {error.strerror}") from None


def mark_of(home: Home, name: str) -> Mark | None:
    """Return the marker to remember before the value is loaded; None when it was never revoked."""
    try:
        return _stat(_marker(home, name))
    except OSError as error:
        raise HostCannot(
            f"whether {name} is revoked cannot be known: {error.filename}: {error.strerror}"
        ) from None


def is_revoked(home: Home, name: str, mark: Mark | None) -> bool:
    """Return whether it was revoked since `mark` was taken. It is one look at one file."""
    try:
        return _stat(_marker(home, name)) != mark
    except OSError:
        return True  # who cannot know must not use it


def enlist(home: Home, sandbox_id: str, marks: dict[str, Mark | None]) -> None:
    """Says that a sandbox of this process has these secrets."""
    path = _record(home, sandbox_id)
    record = _HolderRecord(marks, os.getpid(), _start_time("self"), time.time())
    temporary = path.with_name(f".{sandbox_id}-{secrets.token_hex(4)}")
    try:
        _make(path.parent)
        temporary.write_bytes(msgspec.json.encode(record))
        temporary.rename(path)
    except OSError as error:
        raise HostCannot(f"{path} cannot be written: {error.strerror}") from None


def strike(home: Home, sandbox_id: str) -> None:
    """Says that a sandbox has ended."""
    with contextlib.suppress(OSError):
        _record(home, sandbox_id).unlink()


def holders(home: Home) -> list[Holder]:
    """Return the sandboxes whose process lives. What others left behind is removed."""
    try:
        names = sorted(os.listdir(_place(home)))
    except OSError:
        return []
    living = []
    for name in names:
        if name.endswith(".json") and _SANDBOX.fullmatch(name.removesuffix(".json")):
            holder = _read(_place(home) / name)
            if holder is not None and _lives(holder):
                living.append(holder)
            else:
                strike(home, name.removesuffix(".json"))
    return living


def _place(home: Home) -> Path:
    return home.root / "secrets"


def _marker(home: Home, name: str) -> str:
    return f"{home.root}/secrets/revoked/{_checked(name)}"  # looked at for every request: no Path


def _checked(name: str) -> str:
    """Return a name that can be a part of a path: no dots, no slashes."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r:.80} is not a name for a secret", hint="write it as the paddock file does"
        )
    return name


def _record(home: Home, sandbox_id: str) -> Path:
    if not _SANDBOX.fullmatch(sandbox_id):
        raise InvalidInput(f"{sandbox_id!r:.80} is not an id of a sandbox")
    return _place(home) / f"{sandbox_id}.json"


def _make(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _stat(path: str) -> Mark | None:
    try:
        st = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return st.st_ino, st.st_ctime_ns, st.st_mtime_ns


def _write_durably(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # The kernel's own stamps are coarse, and it gives inodes out again: two could be the same.
        os.utime(fd, ns=(0, time.time_ns()))
        os.fsync(fd)
    finally:
        os.close(fd)


def _read(path: Path) -> Holder | None:
    try:
        with open(path, "rb") as file:
            record = msgspec.json.decode(file.read(_MAX_RECORD), type=_HolderRecord)
        for name in record.names:
            _checked(name)
    except (OSError, msgspec.MsgspecError, InvalidInput):
        return None
    return Holder(path.stem, record.names, record.host_pid, record.host_started, record.started)


def _lives(holder: Holder) -> bool:
    """Return whether the very process lives that wrote it; pids are used again."""
    try:
        return _start_time(holder.host_pid) == holder.host_started
    except (OSError, IndexError, ValueError):
        return False


def _start_time(pid: int | str) -> int:
    return int(procstat.fields(pid)[procstat.STARTED])
