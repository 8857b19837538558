"""The proxy between a client and the server. Every client becomes its world's role in its world's
database, whatever it sends. After the startup message bytes are passed on unchanged."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

from paddock_services.postgres import wire
from paddock_services.postgres.session import dial

_STARTUP_S = 30.0
_CHUNK = 1 << 16
_MAX_REQUESTS = 4  # for encryption, before the startup message


async def serve(client: socket.socket, run: Path, role: str) -> None:
    """Serve one connection to its end, and close it."""
    loop = asyncio.get_running_loop()
    with client:
        try:
            async with asyncio.timeout(_STARTUP_S):
                startup = await _startup(client)
                server = dial(run, timeout_s=0)  # with a full queue it fails at once
        except (wire.BadMessage, EOFError, TimeoutError):
            await _refuse(client, "08P01", "this is no beginning of a session")
            return
        except OSError:
            await _refuse(client, "57P03", "the database system is not there")
            return
        with server, contextlib.suppress(OSError, wire.BadMessage):
            await loop.sock_sendall(server, _startup_bytes(startup, role))
            await _splice(client, server)


async def _startup(client: socket.socket) -> wire.Startup:
    """Return the startup message, after requests for encryption have been denied."""
    for _ in range(_MAX_REQUESTS):
        body = await _read_exactly(client, wire.startup_length(await _read_exactly(client, 4)))
        startup = wire.parse_startup(body)
        if startup.code not in (wire.SSL, wire.GSS):
            if not startup.is_session and startup.code != wire.CANCEL:
                raise wire.BadMessage("an unknown protocol")
            return startup
        await asyncio.get_running_loop().sock_sendall(client, b"N")
    raise wire.BadMessage("only questions")


def _startup_bytes(startup: wire.Startup, role: str) -> bytes:
    if startup.code == wire.CANCEL:
        return wire.packet(startup.code.to_bytes(4, "big") + startup.body)
    return wire.rewrite_startup(startup, user=role, database=role)


async def _splice(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions until one side has ended."""
    upload = asyncio.ensure_future(_copy(client, server))
    download = asyncio.ensure_future(_copy(server, client))
    tasks = [upload, download]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if upload.done() and not download.done():  # the server may still be answering
            await asyncio.wait(tasks, timeout=_STARTUP_S)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while chunk := await loop.sock_recv(source, _CHUNK):
            await loop.sock_sendall(target, chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


async def _read_exactly(client: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        part = await loop.sock_recv(client, size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


async def _refuse(client: socket.socket, code: str, text: str) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):
            await asyncio.get_running_loop().sock_sendall(client, wire.error(code, text))
