"""The sockets between a pen and the host, and what is not believed of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from paddock.world.pen.launch import end
from paddock.world.service import StandInFailed

MAX_REPORT = 4096
_GONE_S = 5.0


async def gone(process: subprocess.Popen[bytes], control: socket.socket | None) -> None:
    """Waits for bubblewrap, and then for what was inside: its end of the control closes."""
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        async with asyncio.timeout(_GONE_S):
            await _ended(process.pid)
    end(process)
    if control is None:
        return
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(_GONE_S):
            while True:
                await readable(control.fileno())
                message, fds, _, _ = socket.recv_fds(control, MAX_REPORT, 4)
                close_all(fds)
                if not message:
                    return


async def _ended(pid: int) -> None:
    fd = os.pidfd_open(pid)
    try:
        await readable(fd)
    finally:
        os.close(fd)


async def readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await waiter
    finally:
        loop.remove_reader(fd)


def connected(directory: Path) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    try:
        caller.setblocking(False)  # a queue that is full fails at once
        with short_name(directory) as short:
            caller.connect(f"{short}/socket")
    except BlockingIOError:
        caller.close()
        raise StandInFailed("it takes no more connections") from None
    except BaseException:
        caller.close()
        raise
    return caller


@contextlib.contextmanager
def short_name(directory: Path) -> Iterator[str]:
    """A name of the directory that fits into a socket's address, which has 107 bytes."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def socket_of(fd: int) -> socket.socket:
    """What a pen hands out is not believed to be a socket before it was looked at."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        os.close(fd)
        raise StandInFailed("its pen handed out something that is no socket")
    caller = socket.socket(fileno=fd)
    if caller.family not in (socket.AF_INET, socket.AF_INET6) or caller.type != socket.SOCK_STREAM:
        caller.close()
        raise StandInFailed("its pen handed out another kind of socket")
    caller.setblocking(False)
    return caller


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
