"""File events: which files were read and written inside, reported by the kernel (fanotify). Root
only.

One group serves the whole process (the kernel grants few), with a mark on each mount of interest.
An event carries an open descriptor; its mount number says which sandbox and which target it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
import time
from functools import partial

import msgspec

from paddock.fence.container.notifier import inner_pids
from paddock.fence.event_logs import FileLog
from paddock.fence.processes.mount_table import mount_number
from paddock.model.results import FileEvent

_CLOEXEC, _NONBLOCK, _UNLIMITED_MARKS = 0x1, 0x2, 0x20
_MARK_ADD, _MARK_MOUNT = 0x1, 0x10
_OPEN, _CLOSE_WRITE, _OVERFLOW = 0x20, 0x8, 0x4000
_O_LARGEFILE = 0o100000
_METADATA = struct.Struct("=IBBHQii")
BATCH, BUDGET, PAUSE_S = 64, 5_000, 0.05  # events at once, a second, and the rest between

_libc = ctypes.CDLL(None, use_errno=True)


class _Mark(msgspec.Struct, frozen=True):
    log: FileLog
    target: str


class Auditor:
    """The process's one fanotify group."""

    def __init__(self) -> None:
        flags = _CLOEXEC | _NONBLOCK | _UNLIMITED_MARKS
        self._fd = _libc.fanotify_init(flags, os.O_RDONLY | os.O_CLOEXEC | _O_LARGEFILE)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "fanotify_init")
        self._marks: dict[int, _Mark] = {}
        self._budget, self._spent_at = float(BUDGET), 0.0
        asyncio.get_running_loop().add_reader(self._fd, self._on_readable)

    def watch(self, init_pid: int, targets: list[str], log: FileLog) -> None:
        """Marks the mounts at `targets` as the sandbox of `init_pid` sees them."""
        for target in targets:
            fd = os.open(f"/proc/{init_pid}/root{target}", os.O_PATH | os.O_CLOEXEC)
            try:
                number = mount_number(fd)
                mask = ctypes.c_uint64(_OPEN | _CLOSE_WRITE)
                path = f"/proc/self/fd/{fd}".encode()
                if _libc.fanotify_mark(self._fd, _MARK_ADD | _MARK_MOUNT, mask, -100, path) < 0:
                    raise OSError(ctypes.get_errno(), f"fanotify_mark {target}")
            finally:
                os.close(fd)
            self._marks[number] = _Mark(log, target)
            log.on_close(partial(self._marks.pop, number, None))

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1

    def _on_readable(self) -> None:
        try:
            data = os.read(self._fd, BATCH * _METADATA.size)
        except OSError:
            return
        self._spend(len(data) // _METADATA.size)
        at = 0
        while at + _METADATA.size <= len(data):
            size, _, _, _, mask, fd, pid = _METADATA.unpack_from(data, at)
            at += size
            if mask & _OVERFLOW or fd < 0:
                for mark in self._marks.values():
                    mark.log.dropped += 1
                continue
            try:
                self._note(mask, fd, pid)
            except OSError:
                continue
            finally:
                os.close(fd)

    def _spend(self, count: int) -> None:
        """Count events against the budget: an agent that opens files in a loop must not cost the
        host a core. What comes faster waits in the kernel's queue, and what overflows that is
        counted as dropped."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._budget = min(BUDGET, self._budget + (now - self._spent_at) * BUDGET) - count
        self._spent_at = now
        if self._budget < 0:
            loop.remove_reader(self._fd)
            loop.call_later(PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().add_reader(self._fd, self._on_readable)

    def _note(self, mask: int, fd: int, pid: int) -> None:
        mark = self._marks.get(mount_number(fd))
        if mark is None or pid == os.getpid():
            return
        path = os.readlink(f"/proc/self/fd/{fd}")
        inner = 0
        with contextlib.suppress(OSError):
            inner = inner_pids(pid)[0]  # 0 of a process that has ended and is not gone yet
        if not inner:
            inner = mark.log.pids.get(pid, 0)
        access = "write" if mask & _CLOSE_WRITE else "read"
        mark.log.add(FileEvent(_inner_path(mark.target, path), access, inner, time.time()))


def _inner_path(target: str, path: str) -> str:
    """Return the whole path inside: the kernel shows one that is relative to the mount."""
    return path if path == target or path.startswith(target + "/") else target + path.rstrip("/")
