"""Runs a program, kills it after a while, and waits until all that it started is gone.

Everything that loses its parent becomes this program's own child, so nothing can hide.

usage: reaper.py DELAY_S WAIT_S PROGRAM ...
exit status: 0 when all is gone, 1 with a list of what is left otherwise
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def left() -> list[int]:
    own = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    return [int(pid) for pid in Path(own).read_text().split()]


def wait_for_all(wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            time.sleep(0.02)
    return False


def main() -> int:
    delay_s, wait_s, program = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    victim = subprocess.Popen(program, stdout=subprocess.DEVNULL)
    try:
        victim.wait(delay_s)
    except subprocess.TimeoutExpired:
        victim.send_signal(signal.SIGKILL)
    if wait_for_all(wait_s):
        return 0
    for pid in left():
        print(pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")[:300])
        os.kill(pid, signal.SIGKILL)
    return 1


sys.exit(main())
