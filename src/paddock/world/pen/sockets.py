"""The sockets between a pen and the host. Whatever comes out of a pen is checked first."""

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
_END_S = 5.0


async def wait_for_end(process: subprocess.Popen[bytes], control: socket.socket | None) -> None:
    """Wait for the end of bubblewrap, and then of the pen, which closes its end of the control."""
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        async with asyncio.timeout(_END_S):
            await _process_end(process.pid)
    end(process)
    if control is None:
        return
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(_END_S):
            while True:
                await readable(control.fileno())
                message, fds, _, _ = socket.recv_fds(control, MAX_REPORT, 4)
                close_all(fds)
                if not message:
                    return


async def _process_end(pid: int) -> None:
    fd = os.pidfd_open(pid)
    try:
        await readable(fd)
    finally:
        os.close(fd)


async def readable(fd: int) -> None:
    """Wait until a descriptor can be read."""
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


def connect(directory: Path) -> socket.socket:
    """Connect to the listener in a pen's directory."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)  # with a full queue it fails at once
        with short_name(directory) as short:
            connection.connect(f"{short}/socket")
    except BlockingIOError:
        connection.close()
        raise StandInFailed("it takes no more connections") from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def short_name(directory: Path) -> Iterator[str]:
    """Yield a path of the directory that fits into a socket's address, which has 107 bytes."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def socket_of(fd: int) -> socket.socket:
    """Return the socket that a pen handed out, after checking that it is one of the right kind."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        os.close(fd)
        raise StandInFailed("its pen handed out something that is no socket")
    connection = socket.socket(fileno=fd)
    if (
        connection.family not in (socket.AF_INET, socket.AF_INET6)
        or connection.type != socket.SOCK_STREAM
    ):
        connection.close()
        raise StandInFailed("its pen handed out another kind of socket")
    connection.setblocking(False)
    return connection


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
