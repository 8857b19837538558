"""Between a client and the server: every client becomes its world's own role in its world's own
database, whatever it calls itself. Then bytes are passed on as they are."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

from paddock_services.postgres import wire
from paddock_services.postgres.session import dial

_STARTUP_S = 30.0
_PART = 1 << 16
_MAX_OFFERS = 4  # of encryption, before it begins


async def serve(client: socket.socket, run: Path, role: str) -> None:
    """One connection, to its end. Owns the socket."""
    loop = asyncio.get_running_loop()
    with client:
        try:
            async with asyncio.timeout(_STARTUP_S):
                startup = await _startup(client)
                server = dial(run, timeout_s=0)  # a queue that is full fails at once
        except (wire.BadMessage, EOFError, TimeoutError):
            await _refuse(client, "08P01", "this is no beginning of a session")
            return
        except OSError:
            await _refuse(client, "57P03", "the database system is not there")
            return
        with server, contextlib.suppress(OSError, wire.BadMessage):
            await loop.sock_sendall(server, _forwarded(startup, role))
            await _splice(client, server)


async def _startup(client: socket.socket) -> wire.Startup:
    """What the client begins with, after its questions for encryption have been denied."""
    for _ in range(_MAX_OFFERS):
        body = await _exactly(client, wire.startup_length(await _exactly(client, 4)))
        startup = wire.parse_startup(body)
        if startup.code not in (wire.SSL, wire.GSS):
            if not startup.is_session and startup.code != wire.CANCEL:
                raise wire.BadMessage("an unknown protocol")
            return startup
        await asyncio.get_running_loop().sock_sendall(client, b"N")
    raise wire.BadMessage("only questions")


def _forwarded(startup: wire.Startup, role: str) -> bytes:
    if startup.code == wire.CANCEL:
        return wire.packet(startup.code.to_bytes(4, "big") + startup.body)
    return wire.rewritten(startup, user=role, database=role)


async def _splice(client: socket.socket, server: socket.socket) -> None:
    """Both ways, until either is gone."""
    ways = [asyncio.ensure_future(_pass_on(*way)) for way in ((client, server), (server, client))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if ways[0].done() and not ways[1].done():  # the client said all; the rest may still come
            await asyncio.wait(ways, timeout=_STARTUP_S)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while part := await loop.sock_recv(source, _PART):
            await loop.sock_sendall(target, part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


async def _exactly(client: socket.socket, size: int) -> bytes:
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
