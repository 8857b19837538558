"""Every exec inside a sandbox, told by the kernel before it happens (seccomp user notification).

The program and its arguments are read from the caller's memory while the kernel holds it; then the
judge, if there is one, says whether the call is let through. What is read can be changed by another
thread of the caller before the kernel reads it again: the fence is the boundary, not this.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import select
import struct
import time
from collections.abc import Awaitable

from paddock.fence import syscalls
from paddock.fence.container import file_locks
from paddock.fence.event_logs import ExecLog
from paddock.fence.processes.programs import ExecAttempt, absolute_path
from paddock.fence.processes.tree import status_pids
from paddock.model.results import ExecEvent
from paddock.state import procstat

_RECV, _SEND, _ID_VALID, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNC_WAKE_UP = 1
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # id, pid, flags, seccomp_data(nr, arch, ip, args)
_RESPONSE = struct.Struct("=QqiI")
_EXECVEAT = {322, 281}  # x86_64, aarch64
_PIDFD_GET_INFO = 0xC048FF0B
_PIDFD_INFO_EXIT = 1 << 3
_STATUS_TRIES, _STATUS_PAUSE_S = 50, 0.01
_PAGE = 4096
_PF_FORKNOEXEC = 0x40
MAX_ARGUMENTS = 256
MAX_ARGUMENT_BYTES = 4096  # of all arguments together: ten thousand events must fit in memory
MAX_PROGRAM_BYTES = 4096
MAX_WATCHED = 64  # programs of one sandbox whose end is waited for at the same time


class Notifier:
    """Serves one listener descriptor from the engine's loop."""

    def __init__(self, listener: int, log: ExecLog, guest: int = 0) -> None:
        self._fd = listener
        self._log = log
        self._guest = guest
        self._running: dict[int, tuple[int, int]] = {}  # host pid -> (pidfd, number in the log)
        self._held: set[asyncio.Task[None]] = set()  # calls that wait for a person
        self._loop = asyncio.get_running_loop()
        os.set_blocking(listener, False)
        with contextlib.suppress(OSError):  # Linux 6.6: caller and answerer take turns on one CPU
            fcntl.ioctl(listener, _SET_FLAGS, struct.pack("=Q", _SYNC_WAKE_UP))
        self._loop.add_reader(listener, self._on_readable)

    def close(self) -> None:
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        for task in self._held:
            task.cancel()
        for pid in list(self._running):
            self._ended(pid)

    def _on_readable(self) -> None:
        notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._fd, _RECV, notification)
        except FileNotFoundError:
            if self._is_hung_up():
                self.close()  # nobody is left inside; it would be readable for ever
            return  # else the caller died while it was waiting
        except OSError:
            self.close()
            return
        number, pid, _, call, _, _, *arguments = _NOTIFICATION.unpack(notification)
        if call in file_locks.CALLS:
            self._answer_lock(number, pid, arguments[0])
            return
        # What is not noted does not happen: an exec that cannot be read fails, it does not pass.
        try:
            program, argv, observed = observe(pid, call, arguments, self._guest)
            # Only what was read while the caller still hung in the call belongs to it.
            if not self._is_valid(number):
                return
            directory = ctypes.c_int(arguments[0]).value if call in _EXECVEAT else -1
            is_first = observed.parent == 1 and _is_guests_child(pid, self._guest)
            verdict = self._judged(
                ExecAttempt(observed, is_first, pid, directory, program, tuple(argv))
            )
        except (OSError, ValueError, struct.error) as error:
            self._answer(number, getattr(error, "errno", None) or errno.EFAULT)
            return
        if isinstance(verdict, int):
            self._settle_call(number, pid, observed, verdict)
            return
        task = asyncio.ensure_future(self._when_answered(number, pid, observed, verdict))
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    def _answer_lock(self, number: int, pid: int, descriptor: int) -> None:
        try:
            is_granted = file_locks.is_without_effect(pid, descriptor)
        except OSError as error:
            self._answer(number, error.errno or errno.EBADF)
            return
        if is_granted:
            self._send(_RESPONSE.pack(number, 0, 0, 0))  # success, and nothing done
        else:
            self._answer(number, 0)

    def _judged(self, attempt: ExecAttempt) -> int | Awaitable[int]:
        return 0 if self._log.judge is None else self._log.judge(attempt)

    async def _when_answered(
        self, number: int, pid: int, observed: ExecEvent, verdict: Awaitable[int]
    ) -> None:
        try:
            code = await verdict
        except Exception:
            code = errno.EPERM
        if self._fd >= 0 and self._is_valid(number):
            self._settle_call(number, pid, observed, code)

    def _settle_call(self, number: int, pid: int, observed: ExecEvent, code: int) -> None:
        if not code:
            self._note(pid, observed)
        self._answer(number, code)

    def _answer(self, number: int, code: int) -> None:
        self._send(_RESPONSE.pack(number, 0, -code, 0 if code else _CONTINUE))

    def _send(self, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._fd, _SEND, answer)

    def _is_hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._fd, 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))

    def _is_valid(self, number: int) -> bool:
        try:
            fcntl.ioctl(self._fd, _ID_VALID, struct.pack("=Q", number))
        except OSError:
            return False
        return True

    def _note(self, pid: int, event: ExecEvent) -> None:
        self._log.remember(pid, event.pid)
        number = self._log.add(event)
        if pid in self._running:  # the same process became another program
            fd, previous = self._running[pid]
            self._log.complete(previous, None, event.started_at)
            self._running[pid] = (fd, number)
            return
        if len(self._running) >= MAX_WATCHED:
            return  # how it ends stays unknown; a swarm of programs must not use up our descriptors
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            self._running[pid] = (fd, number)
            self._loop.add_reader(fd, self._ended, pid)

    def _ended(self, pid: int) -> None:
        fd, number = self._running.pop(pid)
        self._loop.remove_reader(fd)
        self._settle(fd, number, time.time(), _STATUS_TRIES)

    def _settle(self, fd: int, number: int, ended_at: float, tries: int) -> None:
        """Complete an event with its exit status. The kernel tells it once the parent has
        reaped, which may take it a moment."""
        status = exit_status(fd)
        if status is None and tries and HAS_EXIT_STATUS and self._fd >= 0:
            again = (fd, number, ended_at, tries - 1)
            self._loop.call_later(_STATUS_PAUSE_S, self._settle, *again)
            return
        self._log.complete(number, status, ended_at)
        os.close(fd)


def observe(
    pid: int, call: int, arguments: list[int], guest: int = 0
) -> tuple[bytes, list[bytes], ExecEvent]:
    """Read what `pid` is about to execute: the program and its arguments as they are, and an event
    that shows them. Raises OSError as the kernel itself would answer."""
    shift = 1 if call in _EXECVEAT else 0
    program = read_text(pid, arguments[shift], MAX_PROGRAM_BYTES)
    argv, is_truncated = read_vector(pid, arguments[shift + 1])
    cwd = os.readlink(f"/proc/{pid}/cwd")
    real_path = None if shift else find_program(pid, program)
    inner, parent = inner_pids(pid, guest)
    event = ExecEvent(
        program=program.decode("utf-8", "backslashreplace"),
        argv=_shown(argv),
        cwd=cwd[:MAX_PROGRAM_BYTES],
        pid=inner,
        parent=parent,
        started_at=time.time(),
        is_truncated=is_truncated,
        real_path=real_path,
    )
    return program, argv, event


def _is_guests_child(pid: int, guest: int) -> bool:
    """Return whether a process is on its way from the guest to its first exec: until then it has
    the guest's memory. Where that cannot be compared, whoever never executed anything is taken
    for one."""
    try:
        return syscalls.shares_memory(pid, guest)
    except OSError:
        return bool(int(procstat.fields(pid)[procstat.FLAGS]) & _PF_FORKNOEXEC)


def _shown(argv: list[bytes]) -> tuple[str, ...]:
    """Return the arguments as text; bytes that are no text are escaped, and the whole stays
    bounded."""
    left = MAX_ARGUMENT_BYTES
    shown = []
    for argument in argv:
        shown.append(argument.decode("utf-8", "backslashreplace")[: max(left, 0)])
        left -= len(shown[-1])
    return tuple(shown)


def find_program(pid: int, program: bytes) -> str | None:
    """Return the file behind the name, looked up in the sandbox's own root; raise when there is
    none.

    A search along PATH tries many names; those that do not exist are no events. The answer given
    for them is final, or a name that appears a moment later would be executed unseen.
    """
    try:
        path = absolute_path(pid, "cwd", program)
        if path.startswith((b"/proc/", b"/dev/fd/")):
            return None  # links that mean something to the caller alone; noted without a look
        fd = syscalls.open_in_root_of(pid, path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise
        return None
    try:
        return os.readlink(f"/proc/self/fd/{fd}")[:MAX_PROGRAM_BYTES]
    finally:
        os.close(fd)


def read_text(pid: int, address: int, limit: int) -> bytes:
    """Read a NUL-terminated text, in page-sized steps so that the end of a mapping is no error."""
    text = b""
    while len(text) < limit:
        step = _PAGE - (address + len(text)) % _PAGE
        chunk = syscalls.read_memory(pid, address + len(text), min(step, limit - len(text)))
        end = chunk.find(b"\0")
        if end >= 0:
            return text + chunk[:end]
        if not chunk:
            break
        text += chunk
    return text[:limit]


def read_vector(pid: int, address: int) -> tuple[list[bytes], bool]:
    """Read the texts of a NULL-terminated array of pointers; return them and whether they were
    cut."""
    texts: list[bytes] = []
    left = MAX_ARGUMENT_BYTES
    while address and len(texts) < MAX_ARGUMENTS:
        room = max((_PAGE - address % _PAGE) // 8 * 8, 8)  # a pointer may lie across two pages
        raw = syscalls.read_memory(pid, address, min(room, 8 * (MAX_ARGUMENTS - len(texts))))
        for (pointer,) in struct.iter_unpack("=Q", raw[: len(raw) // 8 * 8]):
            if pointer == 0:
                return texts, left <= 0
            texts.append(read_text(pid, pointer, max(left, 0)))
            left -= len(texts[-1])
            if left <= 0:
                return texts, True
        if len(raw) < 8:
            break
        address += len(raw) // 8 * 8
    return texts, bool(address)


def inner_pids(pid: int, guest: int = 0) -> tuple[int, int]:
    """Return a process's pid and its parent's, as the sandbox itself numbers them; `guest` is
    its first."""
    own, outer_parent = status_pids(pid)
    if guest and outer_parent == guest:
        return own, 1
    try:
        parent, _ = status_pids(outer_parent)
    except OSError:
        parent = 0
    return own, parent


def exit_status(pidfd: int) -> int | None:
    """Return the exit status of a process that has ended (Linux 6.15 and later), else None."""
    request = bytearray(struct.pack("=QQ", _PIDFD_INFO_EXIT, 0) + bytes(56))
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, request)
    except OSError:
        return None
    if not struct.unpack_from("=Q", request)[0] & _PIDFD_INFO_EXIT:
        return None
    status = struct.unpack_from("=i", request, 60)[0]
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kernel_version() -> tuple[int, ...]:
    return tuple(int(n) for n in os.uname().release.split("-")[0].split(".")[:2] if n.isdigit())


HAS_EXIT_STATUS = _kernel_version() >= (6, 15)
