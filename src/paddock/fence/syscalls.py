"""Kernel calls of the host side that the standard library lacks: safe opening, reading memory."""

from __future__ import annotations

import ctypes
import os
import struct

_NR_OPENAT2 = 437
_NR_KCMP = {"x86_64": 312, "aarch64": 272}
_KCMP_VM = 1
_NO_MAGICLINKS, _NO_SYMLINKS, _IN_ROOT = 0x02, 0x04, 0x10
_libc = ctypes.CDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def open_in_root(root: int, path: bytes, flags: int) -> int:
    """Open `path` as a process whose root is `root` would: links and `..` stay below it."""
    return _openat2(root, path, flags, _IN_ROOT)


def open_in_root_of(pid: int, path: bytes, flags: int) -> int:
    """Open `path` as a process would, from its own root."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_in_root(root, path, flags)
    finally:
        os.close(root)


def open_without_links(path: str, flags: int = os.O_PATH | os.O_CLOEXEC) -> int:
    """Open an absolute path none of whose parts is a link."""
    return _openat2(-100, os.fsencode(path), flags, _NO_SYMLINKS | _NO_MAGICLINKS)


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Read the memory of another process: by this call, because /proc/PID/mem is closed to the
    host's user for the moment in which a program shares the memory of the guest that starts it."""
    buffer = bytearray(size)  # a buffer of ctypes would be a type of its own for each size
    local = _Vector(ctypes.addressof(ctypes.c_char.from_buffer(buffer)), size)
    remote = _Vector(address, size)
    got = _libc.process_vm_readv(
        pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, ctypes.c_ulong(0)
    )
    return bytes(memoryview(buffer)[: _checked(got)])


def shares_memory(pid: int, other: int) -> bool:
    """Return whether two processes have the same memory, not equal copies. Needs the right to
    look."""
    number = ctypes.c_long(_NR_KCMP[os.uname().machine])
    ids = (ctypes.c_int(pid), ctypes.c_int(other), ctypes.c_int(_KCMP_VM))
    return _checked(_libc.syscall(number, *ids, ctypes.c_ulong(0), ctypes.c_ulong(0))) == 0


def _openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    how = struct.pack("=QQQ", flags, 0, resolve)
    number = ctypes.c_long(_NR_OPENAT2)
    arguments = (ctypes.c_int(directory), ctypes.c_char_p(path), ctypes.c_char_p(how))
    return _checked(_libc.syscall(number, *arguments, ctypes.c_size_t(len(how))))


def _checked(value: int) -> int:
    if value < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return value
