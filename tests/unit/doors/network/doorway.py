"""A whole door without a sandbox: real sockets over loopback, a real gate, scripted servers.

Where a connection was meant to lead is all that a namespace would have told. No test lives here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from paddock.doors.network import door as door_module
from paddock.doors.network.connection import PROXY
from paddock.doors.network.door import DoorOptions, NetworkDoor
from paddock.doors.network.secrets.custody import Custody
from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.fence.network import AttemptLog, DoorSockets
from paddock.gate.approvals import Approval
from paddock.gate.gate import Gate
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.model.steps import Step
from paddock.policy.network import network_of
from paddock.state.home import Home
from unit.gate.gates import asked, make_gate

HOST = "api.example"
VALUE = "sk_live_2f9c1d7ab3e4"
WAIT_S = 20.0


class Asked(NamedTuple):
    """A request as a server read it."""

    line: str
    head: str
    body: bytes
    connection: int  # the how manieth of the server


Answer = Callable[[Asked], bytes | None]  # None ends the connection


def ok(asked: Asked) -> bytes:
    body = b"" if asked.line.startswith("HEAD") else b"ok"
    return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body


@dataclass
class Server:
    """HTTP/1 by hand, or bytes as they come."""

    answer: Answer
    place: str = ""
    port: int = 0
    seen: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def lines(self) -> list[str]:
        return [one.line for one in self.seen]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while (request := await _request(reader, number)) is not None:
                self.seen.append(request)
                answer = self.answer(request)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        writer.close()


async def _request(reader: asyncio.StreamReader, number: int) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, _, rest = head.partition("\r\n")
    fields = dict(one.lower().split(": ", 1) for one in rest.strip().split("\r\n"))
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    return Asked(line, head, body, number)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port of loopback; whatever is open there at the end is cut."""
    tasks: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks[asyncio.current_task()] = writer  # type: ignore[index]
        with contextlib.suppress(asyncio.CancelledError):
            await serve(reader, writer)

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in tasks.values():
            with contextlib.suppress(AttributeError):  # early 3.11 forgets one that is gone
                writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def origin(answer: Answer = ok, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    async with listening(server.serve, tls) as port:
        server.port, server.place = port, f"127.0.0.1:{port}"
        yield server


class Told(NamedTuple):
    """An answer as a client read it; no status when it was cut before."""

    status: int
    head: str
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


class Client:
    """One connection out of what would be the sandbox."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def told(self, *, is_head: bool = False) -> Told:
        """The next answer."""
        try:
            async with asyncio.timeout(WAIT_S):
                head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                fields = dict(one.lower().split(": ", 1) for one in head.strip().split("\r\n")[1:])
                size = 0 if is_head else int(fields.get("content-length", 0))
                return Told(int(head[9:12]), head, await self.reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            return Told(0, "", b"")

    async def ends(self) -> None:
        """Returns when nothing more comes."""
        async with asyncio.timeout(WAIT_S):
            with contextlib.suppress(OSError):
                while await self.reader.read(65536):
                    pass

    def close(self) -> None:
        self.writer.close()


@dataclass
class Doorway:
    """The door under test, and what is around it."""

    door: NetworkDoor
    gate: Gate
    run: Path
    listener: socket.socket
    wanted: dict[int, tuple[str, int]]
    clients: list[Client] = field(default_factory=list)

    async def dial(self, host: str = HOST, port: int = 80, tls: str | None = None) -> Client:
        """As a program would that was told the address of a name. `tls`: the version."""
        return await self._dial((self.door.table.address_of(host), port), tls)

    async def dial_proxy(self) -> Client:
        return await self._dial(PROXY, None)

    async def _dial(self, wanted: tuple[str, int], tls: str | None) -> Client:
        context = None
        if tls is not None:
            context = ssl.create_default_context(cadata=self.door.authority.ca_pem.decode())
            context.minimum_version = context.maximum_version = ssl.TLSVersion[tls]
        return await self.adopt(self.socket_to(wanted), context)

    async def adopt(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> Client:
        """A client on a socket that is connected."""
        more: dict[str, Any] = {}
        if tls is not None:  # a client that leaves says so, and does not wait for an answer
            more = {"ssl": tls, "server_hostname": HOST, "ssl_shutdown_timeout": 0.1}
        opened = await asyncio.open_connection(sock=sock, **more)
        self.clients.append(Client(*opened))
        return self.clients[-1]

    def socket_to(self, wanted: tuple[str, int]) -> socket.socket:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        self.wanted[sock.getsockname()[1]] = wanted
        sock.connect(self.listener.getsockname())
        sock.setblocking(False)
        return sock

    async def ask(self, head: str, body: bytes = b"", port: int = 80) -> Told:
        """One request on a connection of its own; `head` is its first line and more fields."""
        client = await self.dial(port=port)
        await client.send(written(head, body, port))
        told = await client.told(is_head=head.startswith("HEAD"))
        client.close()
        return told

    def update(self, **words: Any) -> None:
        network = network_of(words)
        self.gate.policy = self.gate.policy.with_network(network)
        self.door.update(network)

    async def asked(self) -> Approval:
        (one,) = await asked(self.gate.approvals)
        return one

    async def settled(self, kind: str, count: int = 1) -> list[Step]:
        """All steps of a kind, when so many have ended."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = self.steps(kind)
                if sum(one.settled is not None for one in found) >= count:
                    return found
                await asyncio.sleep(0.02)

    def steps(self, kind: str) -> list[Step]:
        return [step for step in RunLog(self.run).steps() if step.kind == kind]

    def deciders(self, kind: str) -> list[str]:
        """Who decided on each step of a kind."""
        return [step.decided_by for step in self.steps(kind) if step.decided_by is not None]

    @property
    def alerts(self) -> list[str]:
        return [one.name for one in self.gate.alerts.all()]


def written(head: str, body: bytes = b"", port: int = 80) -> bytes:
    line, _, fields = head.partition("\n")
    host = HOST if port == 80 else f"{HOST}:{port}"
    lines = [f"{line} HTTP/1.1", f"Host: {host}", *fields.splitlines()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.asynccontextmanager
async def doorway(
    directory: Path, network: dict[str, Any], *rules: dict[str, Any], **words: Any
) -> AsyncIterator[Doorway]:
    """`words`: `stage`, and `secrets` as in a file; they all have VALUE."""
    file = {"version": 1, "agent": "tester", "stage": "broad", "approvals": {"timeout": "60s"}}
    text = json.dumps({**file, "network": network, "rules": list(rules), **words})
    gate = make_gate(directory, SigningKey.open(directory / "keys"), text)
    home = Home(directory / "home")
    home.make()
    names = gate.policy.secrets
    keeper = SecretKeeper.load(home, names, {terms.place: VALUE for terms in names.values()})
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    log, silent = socket.socketpair()
    for sock in (listener, udp, log):
        sock.setblocking(False)
    around = DoorOptions(lambda: gate, lambda: gate.policy, lambda sock: None)
    assert gate.policy.network is not None
    sockets = DoorSockets(listener, None, udp, None, AttemptLog(log, lambda datagram: []))
    door = NetworkDoor(sockets, gate.policy.network, Custody(keeper), around)
    wanted: dict[int, tuple[str, int]] = {}
    way = Doorway(door, gate, directory / "run-1", listener, wanted)
    with patch.object(door_module, "original_destination", lambda s: wanted[s.getpeername()[1]]):
        door.open()
        try:
            async with asyncio.timeout(3 * WAIT_S):
                yield way
        finally:
            for client in way.clients:
                client.writer.transport.abort()
            await door.close()
            silent.close()
            gate._journal.abandon()


def staged(server: Server, *ports: int) -> dict[str, Any]:
    """A network in which the name leads to this server."""
    return {"allow": [f"{HOST}:{port}" for port in ports or (80,)], "hosts": {HOST: server.place}}


KEY = {"KEY": {"from": "env:K", "to": [HOST], "as": "header:Authorization=Bearer"}}
