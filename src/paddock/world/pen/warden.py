"""The first program in a pen: it sets limits, starts the real program and opens connections to it.

It uses the standard library only, and takes commands from the host over one socket: `connect`,
`stop` and `go` (freeze and continue all processes), `end`.
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
    # The child has the same uid. It must not read this process's memory or take its sockets.
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
        for name, maximum in plan["limits"].items():
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            if hard != resource.RLIM_INFINITY:
                maximum = min(maximum, hard)
            resource.setrlimit(number, (maximum, maximum))

    try:
        return subprocess.Popen(
            plan["argv"],
            env=plan["env"],
            cwd=plan["cwd"],
            stdin=None if plan["stdin"] else subprocess.DEVNULL,
            pass_fds=plan["fds"],
            preexec_fn=limit,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"cannot start {plan['argv'][0]}: {error}", file=sys.stderr, flush=True)
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
        command = control.recv(16)
        if not command:
            os._exit(0)  # the host is gone
        answer(control, child, command, port)


def answer(
    control: socket.socket, child: subprocess.Popen[bytes], command: bytes, port: int | None
) -> None:
    if command == b"connect" and port is not None:
        connect(control, port)
    elif command == b"stop":
        control.send(b"done" if stop_all() else b"no")
    elif command == b"go":
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGCONT)
        control.send(b"done")
    elif command == b"end":
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)
        os._exit(0)


def stop_all() -> bool:
    """Stop all processes but this one and the first of the namespace. A signal takes a moment to
    arrive, and new processes may appear meanwhile, so it is repeated until all have stopped."""
    deadline = time.monotonic() + _STOP_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
        if all(state in "TtZX" for state in states()):
            return True
        time.sleep(0.002)
    return False


def states() -> Iterator[str]:
    """Yield the state of every thread of the other processes, as the kernel's letter."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in (1, os.getpid()):
            continue
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                    yield chr(file.read().rpartition(b") ")[2][0])


def connect(control: socket.socket, port: int) -> None:
    try:
        connection = socket.create_connection(("127.0.0.1", port), _CONNECT_S)
    except OSError as error:
        control.send(b"no " + str(error).encode()[:200])
        return
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        control.sendmsg(
            [b"ok"],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno()]))],
        )


def code(status: int) -> int:
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    main()
