"""The files of a journal: numbered segments of lines. Lines are read here in bounded pieces, and
appended by one write each; what a line says is not known here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paddock.journal.records import MAX_LINE_BYTES
from paddock.model.errors import IntegrityError, InvalidInput

_NAME = re.compile(r"(\d{6})\.jsonl")
_READ_BYTES = 1 << 20
_LINE_BYTES = 4 << 10  # most lines are shorter: one read
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = _APPEND | os.O_CREAT | os.O_EXCL


class Batch(msgspec.Struct, frozen=True):
    """Some whole lines, without their ends, from `offset` on; `torn` follows the last of them."""

    offset: int
    lines: list[bytes]
    torn: bytes = b""


def segment_name(number: int) -> str:
    return f"{number:06d}.jsonl"


def segment_number(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    return int(found[1]) if found else 0


def segments(directory: Path) -> list[Path]:
    """The segments of a journal in their order; gaps are for the caller to find."""
    try:
        names = sorted(name for name in os.listdir(directory) if _NAME.fullmatch(name))
    except OSError as error:
        raise InvalidInput(f"cannot read the journal {directory}: {error.strerror}") from None
    if not names:
        raise InvalidInput(f"{directory} is not a journal: it has no segment")
    return [directory / name for name in names]


def batches(path: Path, start: int = 0) -> Iterator[Batch]:
    """The lines of a segment from the byte `start` on; only the last batch can have a torn rest."""
    with open(path, "rb", buffering=0, opener=open_to_read) as file:
        file.seek(start)
        offset, rest = start, b""
        while piece := file.read(_READ_BYTES):
            lines = (rest + piece).split(b"\n") if rest else piece.split(b"\n")
            rest = lines.pop()
            if len(rest) > MAX_LINE_BYTES:
                raise IntegrityError(f"{path.name}: a line has more than {MAX_LINE_BYTES} bytes")
            if lines:
                yield Batch(offset, lines)
                offset += sum(map(len, lines)) + len(lines)
        if rest:
            yield Batch(offset, [], rest)


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
        """The whole line that begins at a byte of a segment."""
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
        """The last segment, cut to its whole lines."""
        fd = os.open(path, _APPEND)
        try:
            os.ftruncate(fd, size)
        except BaseException:
            os.close(fd)
            raise
        return cls(path.parent, segment_number(path), fd, size)

    def write(self, data: bytes) -> None:
        """Appends all of it or nothing: what was written in part is cut off again."""
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
        """Goes on in a new segment."""
        fd = os.open(self._directory / segment_name(self.number + 1), _NEW, 0o600)
        self._unflushed.append(self._fd)
        self._fd, self.size, self._is_named = fd, 0, False
        self.number += 1

    def take_unflushed(self) -> Unflushed:
        """What must reach the disk for everything written so far to be there."""
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


def sync_directory(path: Path) -> None:
    """Returns when the names in it are on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_to_read(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Opens a file of a journal. IntegrityError where it cannot be opened or is no file: a link, a
    directory, or a named pipe, which would be waited for without end."""
    name = os.path.basename(path)
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise IntegrityError(f"{name} is unreadable: {error.strerror}") from None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise IntegrityError(f"{name} is not a file")
