"""What a program in ELF asks the loader for: its interpreter, libraries, and where to look for
them. Reads a file's head, with bounds, and runs nothing.
"""

from __future__ import annotations

import os
import stat
import struct

from paddock.model.values import dataclass

MAGIC = b"\x7fELF"
MAX_SEGMENTS = 256
MAX_DYNAMIC_BYTES = 64 << 10
MAX_STRINGS_BYTES = 4 << 20
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _STRINGS_SIZE, _RPATH, _RUNPATH = 1, 5, 10, 15, 29
_MAX_WORD_BYTES = 4096
_LEAST_HEAD_BYTES = 52  # of a program for 32 bits


@dataclass(frozen=True, slots=True)
class Elf:
    """One program or library. A static one has nothing in it."""

    interpreter: str = ""
    needed: tuple[str, ...] = ()
    search: tuple[str, ...] = ()  # as written, with $ORIGIN


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def read_elf(path: str) -> Elf | None:
    """What the file says; None when it is no ELF file or a broken one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return _read(fd)
    except (struct.error, ValueError, OSError, OverflowError):
        return None
    finally:
        os.close(fd)


def _read(fd: int) -> Elf | None:
    head = os.pread(fd, 64, 0)
    if not head.startswith(MAGIC) or len(head) < _LEAST_HEAD_BYTES:
        return None
    is_wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    segments = _segments(fd, head, order, is_wide=is_wide)
    interpreter = ""
    for segment in segments:
        if segment.kind == _INTERPRETER:
            word = os.pread(fd, min(segment.size, _MAX_WORD_BYTES), segment.offset)
            interpreter = os.fsdecode(word.partition(b"\0")[0])
    dynamic = next((segment for segment in segments if segment.kind == _DYNAMIC), None)
    if dynamic is None:
        return Elf(interpreter)
    entries = _dynamic(fd, dynamic, order, is_wide=is_wide)
    return _with_strings(fd, interpreter, entries, segments)


def _segments(fd: int, head: bytes, order: str, *, is_wide: bool) -> list[_Segment]:
    if is_wide:
        (offset,) = struct.unpack_from(order + "Q", head, 32)
        size, count = struct.unpack_from(order + "HH", head, 54)
        shape, at = struct.Struct(order + "IIQQQQ"), (0, 2, 3, 5)
    else:
        (offset,) = struct.unpack_from(order + "I", head, 28)
        size, count = struct.unpack_from(order + "HH", head, 42)
        shape, at = struct.Struct(order + "IIIIII"), (0, 1, 2, 4)
    if count > MAX_SEGMENTS or size < shape.size:
        raise ValueError("too many segments")
    table = os.pread(fd, size * count, offset)
    rows = (shape.unpack_from(table, n * size) for n in range(count))
    return [_Segment(*(row[index] for index in at)) for row in rows]


def _dynamic(fd: int, segment: _Segment, order: str, *, is_wide: bool) -> list[tuple[int, int]]:
    shape = struct.Struct(order + ("qQ" if is_wide else "iI"))
    data = os.pread(fd, min(segment.size, MAX_DYNAMIC_BYTES), segment.offset)
    whole = len(data) // shape.size * shape.size
    return list(shape.iter_unpack(data[:whole]))


def _with_strings(
    fd: int, interpreter: str, entries: list[tuple[int, int]], segments: list[_Segment]
) -> Elf:
    values = dict(entries)
    if _STRINGS not in values:
        return Elf(interpreter)
    size = min(values.get(_STRINGS_SIZE, 0), MAX_STRINGS_BYTES)
    strings = os.pread(fd, size, _file_offset(values[_STRINGS], segments))

    def words(*tags: int) -> list[str]:
        return [_word(strings, at) for tag, at in entries if tag in tags]

    search = [part for text in words(_RPATH, _RUNPATH) for part in text.split(":") if part]
    return Elf(interpreter, tuple(words(_NEEDED)), tuple(search))


def _file_offset(address: int, segments: list[_Segment]) -> int:
    for one in segments:
        if one.kind == _LOAD and one.address <= address < one.address + one.size:
            return address - one.address + one.offset
    raise ValueError("the strings are in no segment")


def _word(strings: bytes, at: int) -> str:
    return os.fsdecode(strings[at : at + _MAX_WORD_BYTES].partition(b"\0")[0])
