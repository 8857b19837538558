"""A real terminal for a real process: what a person would see, and keys to press."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

from polling import is_readable
from unit.gate.gates import ROOT

_PATIENCE_S = 60


class Screen:
    """The other end of the terminal of a process."""

    def __init__(self, master: int, slave: int, process: subprocess.Popen[str]) -> None:
        self._master = master
        self._slave = slave
        self.process = process
        self.text = ""
        self._read_to = 0

    def wait_for(self, text: str) -> str:
        """Until it shows, after what was waited for before; gives all since then."""
        end = time.monotonic() + _PATIENCE_S
        while (at := self.text.find(text, self._read_to)) < 0:
            assert time.monotonic() < end, f"{text!r} did not come; there is {self.text!r}"
            self._read()
        since = self.text[self._read_to : at + len(text)]
        self._read_to = at + len(text)
        return since

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def rest(self) -> str:
        """All that comes until the process has ended."""
        end = time.monotonic() + _PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end; there is {self.text!r}"
            self._read()
        while self._read():
            pass
        return self.text[self._read_to :]

    def local_flags(self) -> int:
        return int(termios.tcgetattr(self._slave)[3])

    def _read(self) -> bool:
        if not is_readable(self._master, 0.1):
            return False
        self.text += os.read(self._master, 65536).decode("utf-8", "replace")
        return True


@contextlib.contextmanager
def at_terminal(
    program: str, *words: object, columns: int = 100, raw: bool = False, **environment: str
) -> Iterator[Screen]:
    """A program whose controlling terminal is ours, and whose stdin and stdout are pipes."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    if raw:
        flags = termios.tcgetattr(slave)
        flags[3] &= ~(termios.ICANON | termios.ECHO)
        flags[0] &= ~termios.ICRNL
        termios.tcsetattr(slave, termios.TCSANOW, flags)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    usual = {key: value for key, value in os.environ.items() if key not in ("EDITOR", "VISUAL")}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**usual, "PYTHONPATH": path, **environment},
        start_new_session=True,
        preexec_fn=lambda: _take(slave),
    )
    try:
        yield Screen(master, slave, process)
    finally:
        process.kill()
        process.communicate()
        os.close(master)
        os.close(slave)


def _take(slave: int) -> Any:
    return fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
