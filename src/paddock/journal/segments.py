"""The files of a journal: numbered segments of lines. A line is appended by one write; what it says
is not known here. How lines are read in bounded batches lives in `objects.line_file`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path

import msgspec

from paddock.model.errors import IntegrityError, InvalidInput
from paddock.objects.file_bytes import open_to_read, sync_directory
from paddock.objects.line_file import MAX_LINE_BYTES

_NAME = re.compile(r"(\d{6})\.jsonl")
_LINE_BYTES = 4 << 10  # most lines are shorter: one read
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = _APPEND | os.O_CREAT | os.O_EXCL


def segment_name(number: int) -> str:
    return f"{number:06d}.jsonl"


def segment_number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def segments(directory: Path) -> list[Path]:
    """Return the segments of a journal in their order; gaps are for the caller to find."""
    try:
        names = sorted(name for name in os.listdir(directory) if _NAME.fullmatch(name))
    except OSError as error:
        raise InvalidInput(f"cannot read the journal {directory}: {error.strerror}") from None
    if not names:
        raise InvalidInput(f"{directory} is not a journal: it has no segment")
    return [directory / name for name in names]


class OpenSegments:
    """Segments kept open, to read single lines from anywhere in a journal."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._fds: dict[int, int] = {}

    def __enter__(self) -> OpenSegments:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def line(self, number: int, offset: int) -> bytes:
        """Return the whole line that begins at a byte of a segment."""
        if number not in self._fds:
            self._fds[number] = open_to_read(self._directory / segment_name(number))
        for size in (_LINE_BYTES, MAX_LINE_BYTES + 1):
            line, end, _ = os.pread(self._fds[number], size, offset).partition(b"\n")
            if end:
                return line
        raise IntegrityError(f"{segment_name(number)}: no whole line begins at byte {offset}")


class Appender:
    """The segment that is written, and older ones that are not on disk yet.

    One thread at a time writes; `take_unflushed` and `flush` belong to whoever makes it durable.
    """

    def __init__(self, directory: Path, number: int, fd: int, size: int) -> None:
        self.number = number
        self.size = size
        self._directory = directory
        self._fd = fd
        self._unflushed: list[int] = []
        self._is_named = size > 0  # whether its name is known to be on disk

    @classmethod
    def first(cls, directory: Path) -> Appender:
        return cls(directory, 1, os.open(directory / segment_name(1), _NEW, 0o600), 0)

    @classmethod
    def reopened(cls, path: Path, size: int) -> Appender:
        """Return the last segment, cut to its whole lines."""
        fd = os.open(path, _APPEND)
        try:
            os.ftruncate(fd, size)
        except BaseException:
            os.close(fd)
            raise
        return cls(path.parent, segment_number(path), fd, size)

    def write(self, data: bytes) -> None:
        """Append all of it or nothing: what was written in part is cut off again."""
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                # A full disk or a limit. A second write would say which; it could also succeed.
                why = f"the disk is full: there was room for {written} of {len(data)} bytes"
                raise OSError(errno.ENOSPC, why)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(data)

    def roll(self) -> None:
        """Go on in a new segment."""
        fd = os.open(self._directory / segment_name(self.number + 1), _NEW, 0o600)
        self._unflushed.append(self._fd)
        self._fd, self.size, self._is_named = fd, 0, False
        self.number += 1

    def take_unflushed(self) -> Unflushed:
        """Return what must reach the disk for everything written so far to be there."""
        taken = Unflushed(self._fd, self._unflushed, None if self._is_named else self._directory)
        self._unflushed, self._is_named = [], True
        return taken

    def close(self) -> None:
        for fd in (*self._unflushed, self._fd):
            os.close(fd)
        self._unflushed, self._fd = [], -1


class Unflushed(msgspec.Struct, frozen=True):
    """Descriptors and a directory that are to be flushed; older ones are closed by it."""

    current: int
    older: list[int]
    directory: Path | None

    def flush(self) -> None:
        try:
            for fd in self.older:
                os.fdatasync(fd)
        finally:
            for fd in self.older:
                os.close(fd)
        os.fdatasync(self.current)
        if self.directory is not None:
            sync_directory(self.directory)
            sync_directory(self.directory.parent)
