"""The first program in a pen: sets the limits, starts what is kept, and opens connections to it.

It runs alone, with the standard library only. It and the host talk over one socket.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

_PR_SET_DUMPABLE = 4
_CONNECT_S = 5.0
_END_S = 8.0
_STOP_S = 3.0


def main() -> None:
    plan = json.loads(sys.argv[1])
    if plan["uid"] is not None:
        become(plan["uid"])
    # The child has the same uid. Not dumpable means that it cannot look in here or steal sockets.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    control = socket.socket(fileno=plan["control"])
    control.set_inheritable(False)
    child = start(plan)
    serve(control, child, plan.get("port"))


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def start(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    def limit() -> None:
        for name, most in plan["limits"].items():
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(number, (wanted, wanted))

    try:
        return subprocess.Popen(
            plan["words"],
            env=plan["env"],
            cwd=plan["cwd"],
            stdin=None if plan["stdin"] else subprocess.DEVNULL,
            pass_fds=plan["fds"],
            preexec_fn=limit,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"cannot start {plan['words'][0]}: {error}", file=sys.stderr, flush=True)
        os._exit(127)
    finally:
        for fd in plan["fds"]:
            with contextlib.suppress(OSError):
                os.close(fd)


def serve(control: socket.socket, child: subprocess.Popen[bytes], port: int | None) -> None:
    ended = os.pidfd_open(child.pid)
    watch = select.poll()
    watch.register(control, select.POLLIN)
    watch.register(ended, select.POLLIN)
    while True:
        ready = {fd for fd, _ in watch.poll()}
        if ended in ready:
            os._exit(code(child.wait()))
        asked = control.recv(16)
        if not asked:
            os._exit(0)  # the host is gone
        answer(control, child, asked, port)


def answer(
    control: socket.socket, child: subprocess.Popen[bytes], asked: bytes, port: int | None
) -> None:
    if asked == b"connect" and port is not None:
        connect(control, port)
    elif asked == b"stop":
        control.send(b"done" if stop_all() else b"no")
    elif asked == b"go":
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGCONT)
        control.send(b"done")
    elif asked == b"end":
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)
        os._exit(0)


def stop_all() -> bool:
    """All but this one and the first of the namespace. A signal takes a moment to arrive, and new
    processes may come meanwhile."""
    deadline = time.monotonic() + _STOP_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
        if all(state in "TtZX" for state in states()):
            return True
        time.sleep(0.002)
    return False


def states() -> Iterator[str]:
    """Of every thread of the others, as the kernel's letter."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in (1, os.getpid()):
            continue
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                    yield chr(file.read().rpartition(b") ")[2][0])


def connect(control: socket.socket, port: int) -> None:
    try:
        to_it = socket.create_connection(("127.0.0.1", port), _CONNECT_S)
    except OSError as error:
        control.send(b"no " + str(error).encode()[:200])
        return
    with to_it:
        to_it.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        to_it.setblocking(False)
        control.sendmsg(
            [b"ok"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [to_it.fileno()]))]
        )


def code(status: int) -> int:
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    main()
