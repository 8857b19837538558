"""File locks of programs inside: those on files that the sandbox may not write are granted without
being taken.

A lock needs no right to write, so an agent could hold one on a file of a `read` mount, or of /usr,
and make programs of the host or of another sandbox wait for ever. The kernel cannot be told
otherwise: it tells us of each call (seccomp notification) and holds the caller meanwhile. A lock on
a mount that is read-only inside is answered with success and has no effect outside, as on a network
file system that is mounted without locks; every other call goes on to the kernel.

Another thread of the caller can exchange the descriptor after the look. The guest looks for locks
that came to be that way and kills who holds them (`lock_watch` in `fence/guest`).
"""

from __future__ import annotations

import ctypes
import errno
import os

CALLS = frozenset({72, 73} if os.uname().machine == "x86_64" else {25, 32})  # fcntl, flock


def is_without_effect(pid: int, descriptor: int) -> bool:
    """Return whether the file behind a descriptor of `pid` is on a read-only mount. Raises
    OSError."""
    number = ctypes.c_int(descriptor & 0xFFFFFFFF).value
    try:
        status = os.statvfs(f"/proc/{pid}/fd/{number}")
    except FileNotFoundError:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None
    return bool(status.f_flag & os.ST_RDONLY)
