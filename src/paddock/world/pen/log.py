"""The output of a process in a pen. The last part of it is kept in a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

LOG = "said.log"
_MAX_LOG, _TAIL = 256 << 10, 64 << 10
_LINES = 20


class PenLog:
    """Copies output from a pipe to a file, which it truncates when it grows too long."""

    def __init__(self, fd: int, path: Path) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self.copy)

    def copy(self) -> None:
        """Copy what the pipe has now."""
        try:
            data = os.read(self._fd, 1 << 16) if self._fd >= 0 else b""
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._fd)
            return
        self._size += os.write(self._file, data)
        if self._size > _MAX_LOG:
            tail = os.pread(self._file, _TAIL, self._size - _TAIL)
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            self._size = os.write(self._file, tail)

    def close(self) -> None:
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            os.close(self._file)
            self._fd = -1


def read_log(path: Path) -> str:
    """Return the last part of the output, or an empty string."""
    try:
        with open(path, "rb") as file:
            return file.read(2 * _MAX_LOG)[-_TAIL:].decode("utf-8", "replace")
    except OSError:
        return ""


def last_lines(directory: Path) -> list[str]:
    """Return the last lines of output of the pen in a directory, even after its end."""
    return read_log(directory / LOG).splitlines()[-_LINES:]
