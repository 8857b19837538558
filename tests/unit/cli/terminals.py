"""The command line in a terminal of its own, with a person who types one thing."""

from __future__ import annotations

import os
import pty
import signal
import sys
import time
from pathlib import Path

from polling import is_readable

ASKED = b"left) > "
INTERRUPT = b"\x03"


def in_terminal(
    words: list[str],
    cwd: Path,
    home: Path,
    answer: bytes = b"",
    *,
    when: bytes = ASKED,
    wait_s: float = 0.0,
) -> tuple[str, int]:
    """Runs the command, types the answer once `when` is to be seen, and gives all that was
    written, and the exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        # A background job of a shell ignores it, and its children would too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.update(PADDOCK_HOME=str(home), TERM="xterm", NO_COLOR="1")
        os.execv(sys.executable, [sys.executable, "-m", "paddock.cli.main", *words])
    data, end = b"", time.monotonic() + 90
    is_answered = not answer
    while time.monotonic() < end:
        if is_readable(fd, 0.2):
            try:
                piece = os.read(fd, 65536)
            except OSError:  # the other side has closed
                break
            if not piece:
                break
            data += piece
        if not is_answered and when in data:
            time.sleep(wait_s)  # for what the agent writes meanwhile
            os.write(fd, answer)
            is_answered = True
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return data.decode(errors="replace"), os.waitstatus_to_exitcode(status)
