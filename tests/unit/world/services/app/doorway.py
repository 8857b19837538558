"""A door for tests: a port of loopback that leads to a service, and a world's context for it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from paddock.world.context import Context
from paddock.world.service import LocalService, StandInFailed
from paddock.world.store import Store


def context(place: Path, options: dict[str, Any], **more: Any) -> Context:
    """Of a world below `place`, with the project beside it."""
    (place / "project").mkdir(exist_ok=True)
    name = more.pop("name", "service")
    words = {"host": "service.example", "port": 443, "project": place / "project", **more}
    store = Store.open(place / f"{name}.sqlite")
    return Context(name=name, store=store, options=options, directory=place / name, **words)


async def ask(service: LocalService, path: str = "/", *headers: str, method: str = "GET") -> bytes:
    """Status line, head and body of one request."""
    caller = await service.connect()
    words = [f"{method} {path} HTTP/1.1", "host: service.example", "connection: close", *headers]
    loop = asyncio.get_running_loop()
    with caller:
        async with asyncio.timeout(20):
            await loop.sock_sendall(caller, ("\r\n".join(words) + "\r\n\r\n").encode())
            answer = b""
            with contextlib.suppress(ConnectionResetError):  # it was killed
                while part := await loop.sock_recv(caller, 65536):
                    answer += part
    return answer


def body(answer: bytes) -> bytes:
    """Of an answer that may come in chunks."""

    class Socket:
        def makefile(self, _: str) -> io.BytesIO:
            return io.BytesIO(answer)

    parsed = http.client.HTTPResponse(Socket())  # type: ignore[arg-type]
    parsed.begin()
    return parsed.read()


@contextlib.asynccontextmanager
async def door(service: LocalService) -> AsyncIterator[int]:
    """The number of a port that leads to the service."""
    tasks: set[asyncio.Task[None]] = set()

    async def pass_on(source: socket.socket, target: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while part := await loop.sock_recv(source, 65536):
                await loop.sock_sendall(target, part)
            target.shutdown(socket.SHUT_WR)

    async def serve(client: socket.socket) -> None:
        with client:
            try:
                server = await service.connect()
            except StandInFailed:
                return
            with server:
                await asyncio.gather(pass_on(client, server), pass_on(server, client))

    async def accept(listener: socket.socket) -> None:
        while True:
            client, _ = await asyncio.get_running_loop().sock_accept(listener)
            client.setblocking(False)
            task = asyncio.ensure_future(serve(client))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        accepting = asyncio.ensure_future(accept(listener))
        try:
            yield listener.getsockname()[1]
        finally:
            for task in (accepting, *tasks):
                task.cancel()
            await asyncio.gather(accepting, *tasks, return_exceptions=True)
