"""The head of an ELF file: its loader, its libraries, and where to look for them.

Reads with bounds and runs nothing. Like the kernel, it takes the first PT_INTERP of a file.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable

import msgspec

MAGIC = b"\x7fELF"
MAX_SEGMENTS = 256
MAX_DYNAMIC_BYTES = 64 << 10
MAX_STRINGS_BYTES = 4 << 20
_SHARED_OBJECT = 3  # e_type: a library, a loader, or a program that can be loaded anywhere
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _STRINGS_SIZE, _RPATH, _RUNPATH, _FLAGS_1 = 1, 5, 10, 15, 29, 0x6FFFFFFB
_PROGRAM_FLAG = 0x08000000  # in DT_FLAGS_1: a program that can be loaded anywhere (DF_1_PIE)
# Machines whose programs this kernel runs by itself, with those of 32 bits.
_NATIVE_MACHINES = {"x86_64": (62, 3), "aarch64": (183, 40)}
# The kernel goes by the machine, and does not look at what the head says of its own shape.
_SHAPES = {62: (2, 1), 3: (1, 1), 183: (2, 1), 40: (1, 1)}  # class and byte order
_MAX_WORD_BYTES = 4096
_LEAST_HEAD_BYTES = 52  # of a program for 32 bits


class Elf(msgspec.Struct, frozen=True):
    """One program or library. A static program names neither a loader nor libraries."""

    interpreter: str = ""
    needed: tuple[str, ...] = ()
    search: tuple[str, ...] = ()  # as written, with $ORIGIN
    is_native: bool = True
    is_loader: bool = False


class _Segment(msgspec.Struct, frozen=True):
    kind: int
    offset: int
    address: int
    size: int


def read_elf(path: str) -> Elf | None:
    """Return what the head of a file says; None when it is no ELF file or a broken one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return read_elf_descriptor(fd)
    finally:
        os.close(fd)


def read_elf_descriptor(fd: int) -> Elf | None:
    """Return what the head of an open file says; None when it is no ELF file or a broken one."""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return _read(fd)
    except (struct.error, ValueError, OSError, OverflowError):
        return None


def _read(fd: int) -> Elf | None:
    head = os.pread(fd, 64, 0)
    if not head.startswith(MAGIC) or len(head) < _LEAST_HEAD_BYTES:
        return None
    is_wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    kind, machine = struct.unpack_from(order + "HH", head, 16)
    (entry,) = struct.unpack_from(order + ("Q" if is_wide else "I"), head, 24)
    segments = _segments(fd, head, order, is_wide=is_wide)
    interpreter = ""
    for segment in segments:
        if segment.kind == _INTERPRETER:
            word = os.pread(fd, min(segment.size, _MAX_WORD_BYTES), segment.offset)
            interpreter = os.fsdecode(word.partition(b"\0")[0])
            break
    is_native = machine in _NATIVE_MACHINES.get(os.uname().machine, (machine,))
    is_native = is_native and _SHAPES.get(machine, (head[4], head[5])) == (head[4], head[5])
    dynamic = next((segment for segment in segments if segment.kind == _DYNAMIC), None)
    if dynamic is None:
        return Elf(interpreter, is_native=is_native)
    tags = _dynamic(fd, dynamic, order, is_wide=is_wide)
    words = _words(fd, tags, segments)
    # Shared objects without PT_INTERP are libraries, static programs, which say what they are in
    # DT_FLAGS_1, and loaders. An entry point, to be executed, is rare in libraries.
    is_program = bool(dict(tags).get(_FLAGS_1, 0) & _PROGRAM_FLAG)
    is_loader = kind == _SHARED_OBJECT and not interpreter and entry != 0 and not is_program
    search = [part for text in words(_RPATH, _RUNPATH) for part in text.split(":") if part]
    return Elf(interpreter, tuple(words(_NEEDED)), tuple(search), is_native, is_loader)


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


def _words(
    fd: int, tags: list[tuple[int, int]], segments: list[_Segment]
) -> Callable[..., list[str]]:
    """Return a function that gives the texts of dynamic entries by their tags."""
    values = dict(tags)
    strings = b""
    if _STRINGS in values:
        size = min(values.get(_STRINGS_SIZE, 0), MAX_STRINGS_BYTES)
        strings = os.pread(fd, size, _file_offset(values[_STRINGS], segments))
    return lambda *wanted: [_word(strings, at) for tag, at in tags if tag in wanted and strings]


def _file_offset(address: int, segments: list[_Segment]) -> int:
    for segment in segments:
        if segment.kind == _LOAD and segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise ValueError("the strings are in no segment")


def _word(strings: bytes, at: int) -> str:
    return os.fsdecode(strings[at : at + _MAX_WORD_BYTES].partition(b"\0")[0])
