"""A terminal that is taken over for a while: keys one by one, a screen of its own, everything as it
was afterwards, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import termios
from collections.abc import Iterator
from types import FrameType

_ENTER = "\033[?1049h\033[?25l\033[H\033[2J"  # another screen, without a cursor
_LEAVE = "\033[0m\033[?25h\033[?1049l"
_LOOK_S = 0.25  # how soon another size of the window is noticed
_ESCAPE_S = 0.05  # what follows an escape key within this belongs to it
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_KEYS = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "[H": "home", "[F": "end",
    "OA": "up", "OB": "down", "OC": "right", "OD": "left", "OH": "home", "OF": "end",
    "[1~": "home", "[4~": "end", "[5~": "pageup", "[6~": "pagedown", "[7~": "home", "[8~": "end",
}  # fmt: skip
_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]{0,16}[A-Za-z~]|O[A-Z])|(.)", re.DOTALL)


class TerminalEnded(BaseException):
    """A signal asked this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class TakenOver:
    """The terminal while it is ours."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._in = read_fd
        self._out = write_fd

    def size(self) -> tuple[int, int]:
        """Return columns and lines; 80 and 24 where the terminal claims to have none."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self._out)
            if size.columns and size.lines:
                return size.columns, size.lines
        return 80, 24

    def draw(self, lines: list[str]) -> None:
        """Write a whole screen at once, so that nothing flickers."""
        text = "\033[H" + "\r\n".join(f"{line}\033[K" for line in lines) + "\033[J"
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._out, data) :]

    def keys(self) -> list[str] | None:
        """Return the keys that were pressed; an empty list if none was for a while, None at the
        end."""
        if not self._is_ready(_LOOK_S):
            return []
        data = os.read(self._in, 1024)
        if not data:
            return None
        if data.endswith(b"\x1b") and self._is_ready(_ESCAPE_S):
            data += os.read(self._in, 1024)
        return keys_of(data.decode("utf-8", "replace"))

    def _is_ready(self, timeout_s: float) -> bool:
        return bool(select.select([self._in], [], [], timeout_s)[0])


def keys_of(text: str) -> list[str]:
    """Return keys by name; sequences that mean nothing here are left out whole."""
    keys = []
    for sequence, single in _SEQUENCE.findall(text):
        if single:
            keys.append(single)
        elif sequence in _KEYS:
            keys.append(_KEYS[sequence])
    return keys


@contextlib.contextmanager
def taken_over() -> Iterator[TakenOver]:
    """Take over the terminal of stdin and stdout. It is as it was afterwards, also when this
    process is ended by a signal."""
    read_fd, write_fd = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(read_fd)
    handlers = {number: signal.getsignal(number) for number in _ENDINGS}
    sys.stdout.flush()
    try:
        for number in _ENDINGS:
            signal.signal(number, _end)
        _one_by_one(read_fd, before)
        os.write(write_fd, _ENTER.encode())
        yield TakenOver(read_fd, write_fd)
    finally:
        with contextlib.suppress(OSError):  # the terminal may be gone
            os.write(write_fd, _LEAVE.encode())
        with contextlib.suppress(termios.error):
            termios.tcsetattr(read_fd, termios.TCSAFLUSH, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _one_by_one(fd: int, before: list[int | list[bytes | int]]) -> None:
    """Make the terminal give keys as they are pressed, without echo. An interrupt is a key like the
    others."""
    wanted = list(before)
    local = wanted[3]
    assert isinstance(local, int)
    wanted[3] = local & ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    termios.tcsetattr(fd, termios.TCSADRAIN, wanted)


def _end(number: int, _: FrameType | None) -> None:
    raise TerminalEnded(number)
