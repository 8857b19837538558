"""The controlling terminal: one conversation at a time, lines in, text out. What is said is not
known here. It is opened apart from stdin and stdout, which may be pipes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import termios
from collections.abc import AsyncIterator, Iterator

from paddock.state import procstat

_LOOK_S = 0.1
_READ = 4096  # the longest line that the kernel gives
_LINE_MODE = termios.ICANON | termios.ECHO | termios.ISIG
_PTS_MAJORS = range(136, 144)


class Terminal:
    """The terminal of this process. Nothing here blocks the event loop."""

    def __init__(self, fd: int, lock_fd: int) -> None:
        self.fd = fd
        self._lock_fd = lock_fd

    @classmethod
    def open(cls) -> Terminal | None:
        """Open the terminal. Returns None when the process has none."""
        # An open of our own: O_NONBLOCK must not reach the descriptors of others.
        flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            fd = os.open("/dev/tty", flags)
        except OSError:
            return None
        try:
            return cls(fd, os.open(_device(), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return cls(fd, os.dup(fd))

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._lock_fd)

    @property
    def width(self) -> int:
        try:
            return os.get_terminal_size(self.fd).columns or 80
        except OSError:
            return 80

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until no other conversation, of any process, is held here, and until this process is
        in the foreground: a line that is meant for one question must not answer another."""
        while not self._try_lock():  # noqa: ASYNC110 - of other processes nothing is heard
            await asyncio.sleep(_LOOK_S)
        try:
            while not self._is_in_front():  # noqa: ASYNC110 - nor of the shell
                await asyncio.sleep(_LOOK_S)
            with self._line_mode():
                yield
        finally:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def forget_typed(self) -> None:
        """Discard input that was typed before a question could be seen: it is no answer to it."""
        with contextlib.suppress(termios.error):
            termios.tcflush(self.fd, termios.TCIFLUSH)

    async def write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:
                await self._ready(is_read=False)

    def write_now(self, text: str) -> None:
        """Write as much as goes without waiting, for a program that is about to end."""
        with contextlib.suppress(OSError):
            os.write(self.fd, text.encode("utf-8", "backslashreplace"))

    async def line(self) -> str | None:
        """Return one line without its end, or None when there are no more."""
        while True:
            await self._ready(is_read=True)
            try:
                data = os.read(self.fd, _READ)
            except BlockingIOError:
                continue
            except OSError:  # the terminal is gone
                return None
            return data.decode("utf-8", "replace").rstrip("\r\n") if data else None

    @contextlib.contextmanager
    def lent(self) -> Iterator[int]:
        """Yield a descriptor for a program that takes the terminal over; its settings come back."""
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        before = termios.tcgetattr(fd)
        try:
            yield fd
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(fd, termios.TCSADRAIN, before)
            os.close(fd)

    async def _ready(self, *, is_read: bool) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        add, remove = (
            (loop.add_reader, loop.remove_reader)
            if is_read
            else (loop.add_writer, loop.remove_writer)
        )
        add(self.fd, ready.set)
        try:
            await ready.wait()
        finally:
            remove(self.fd)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_in_front(self) -> bool:
        # In the background the kernel stops whoever reads, or changes the settings.
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    @contextlib.contextmanager
    def _line_mode(self) -> Iterator[None]:
        """Set the terminal to whole lines with echo, whatever a program left behind, and restore it
        afterwards."""
        before = termios.tcgetattr(self.fd)
        if before[3] & _LINE_MODE == _LINE_MODE and before[0] & termios.ICRNL:
            yield
            return
        wanted = list(before)
        wanted[0] |= termios.ICRNL
        wanted[1] |= termios.OPOST | termios.ONLCR
        wanted[3] |= _LINE_MODE
        termios.tcsetattr(self.fd, termios.TCSADRAIN, wanted)
        try:
            yield
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.fd, termios.TCSADRAIN, before)


def _device() -> str:
    """Return the terminal by its own name: /dev/tty is one file for the terminals of everybody."""
    number = int(procstat.fields("self")[procstat.TERMINAL])
    major, minor = os.major(number), os.minor(number)
    if major in _PTS_MAJORS:
        return f"/dev/pts/{(major - _PTS_MAJORS[0]) * 256 + minor}"
    return f"/dev/tty{minor}" if major == 4 and minor < 64 else "/dev/tty"
