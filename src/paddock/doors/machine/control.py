"""The control socket: how other processes of the same user reach the sandboxes of this one.

It speaks the guest's own frames. What is for the guest is passed on, stream by stream, with its
credit; what begins with `host.` is answered here. Only the user's own directory leads to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

import msgspec

from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.fence.guest import wire
from paddock.model.errors import Blocked, Conflict, NotFound, PaddockError, SandboxDied

MAX_QUEUED = 32 << 20  # a client that does not read is let go beyond this


class Control:
    """One listening socket for all sandboxes of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._server: asyncio.AbstractServer | None = None
        self._clients: set[_Client] = set()
        self.path = engine.home.hosts / f"{os.getpid()}.sock"

    async def open(self) -> None:
        self._engine.home.hosts.mkdir(mode=0o700, exist_ok=True)
        _sweep(self._engine.home.hosts)
        sock = _bound(self.path)
        self._server = await self._engine.loop.create_unix_server(self._client, sock=sock)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.drop()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _client(self) -> asyncio.Protocol:
        client = _Client(self._engine, self._clients.discard)
        self._clients.add(client)
        return client


class _Client(asyncio.Protocol):
    """One connection: attached to one sandbox by its first message."""

    def __init__(self, engine: Engine, on_gone: Any) -> None:
        self._engine = engine
        self._on_gone = on_gone
        self._decoder = wire.FrameDecoder()  # type: ignore[no-untyped-call]
        self._transport: asyncio.Transport | None = None
        self._box: Box | None = None
        self._numbers: dict[int, int] = {}  # the client's stream -> the guest's
        self._work: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_gone(self)
        if self._box is not None:
            for number in self._numbers.values():
                self._box.machine.channel.send(wire.CLOSE, number, b"")
                self._box.machine.channel.forget(number)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, port, number, payload in self._decoder.feed(data):  # type: ignore[no-untyped-call]
                self._take(kind, port, number, payload)
        except (wire.WireError, PaddockError, KeyError, TypeError) as error:
            self.send(wire.END, 0, 0, _packed({"error": {"errno": 0, "message": str(error)}}))
            self.drop()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def send(self, kind: int, port: int, number: int, payload: bytes | bytearray) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        header = wire.HEADER.pack(len(payload), kind, port, number)
        self._transport.write(header + payload)
        if self._transport.get_write_buffer_size() > MAX_QUEUED:
            self._transport.abort()

    def _take(self, kind: int, port: int, number: int, payload: bytes) -> None:
        if kind == wire.OPEN:
            ask = wire.unpack_map(payload)  # type: ignore[no-untyped-call]
            if str(ask.get("op", "")).startswith("host."):
                self._later(self._answer(number, ask))
                return
            self._open(number, payload)
            return
        inner = self._numbers.get(number)
        if inner is not None and self._box is not None:
            self._box.machine.channel.send(kind, inner, payload, port)
            if kind == wire.CLOSE:
                self._box.machine.channel.forget(inner)
                del self._numbers[number]

    def _open(self, number: int, payload: bytes) -> None:
        try:
            if self._box is None:
                raise NotFound("not attached to a sandbox")
            self._numbers[number] = self._box.channel.relay(_Relay(self, number), payload)
        except SandboxDied:
            self.drop()  # the end of the connection is what tells that the sandbox has ended
        except PaddockError as error:
            self.send(wire.END, 0, number, _packed(_refusal(error)))

    def ended(self, number: int) -> None:
        self._numbers.pop(number, None)

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _answer(self, number: int, ask: dict[str, Any]) -> None:
        try:
            value = await self._host(ask)
        except SandboxDied:
            self.drop()
            return
        except PaddockError as error:
            value = _refusal(error)
        self.send(wire.END, 0, number, _packed(value))

    async def _host(self, ask: dict[str, Any]) -> dict[str, Any]:
        op = ask["op"]
        if op == "host.attach":
            self._box = self._engine.boxes.get(ask["id"])
            if self._box is None:
                return {"found": False}
            return {"found": True, "envs": self._box.envs(None)}
        if self._box is None:
            return {"found": False}
        box = self._box
        if op == "host.kill":
            await box.end("killed by another process of its owner")
        elif op == "host.pause":
            await box.pause()
        elif op == "host.resume":
            await box.resume()
        elif op == "host.set_timeout":
            box.set_timeout(float(ask["timeout"]))
        elif op == "host.cross":
            await box.actions.admit(ask)
        elif op == "host.snapshot":
            return {"id": await box.snapshot(ask.get("name"))}
        elif op == "host.metrics":
            return {"metrics": msgspec.structs.asdict(await box.metrics())}
        elif op == "host.hits":
            return {"hits": box.machine.hits()}
        elif op == "host.info":
            return {"info": _plain(box)}
        return {}


class _Relay:
    """A guest's stream whose frames go to a client as they are."""

    def __init__(self, client: _Client, number: int) -> None:
        self._client = client
        self._number = number

    def receive(self, kind: int, port: int, payload: bytes | bytearray) -> None:
        self._client.send(kind, port, self._number, payload)
        if kind == wire.END:
            self._client.ended(self._number)

    def fail(self, error: Exception) -> None:
        self._client.drop()


def _refusal(error: PaddockError) -> dict[str, Any]:
    answer = {"errno": 0, "message": error.message, "conflict": isinstance(error, Conflict)}
    if isinstance(error, Blocked):
        answer["blocked"] = {"why": error.why, "rule": error.rule, "step": error.step}
    return {"error": answer}


def _plain(box: Box) -> dict[str, Any]:
    info = msgspec.structs.asdict(box.info())
    for name in ("started_at", "end_at"):
        info[name] = info[name].isoformat() if info[name] is not None else None
    return info


def _packed(value: dict[str, Any]) -> bytes:
    data: bytes = wire.pack(value)  # type: ignore[no-untyped-call]
    return data


def _bound(path: Any) -> socket.socket:
    """Bind a socket by way of a descriptor: the home's own path may be longer than an address
    can be."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=directory)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(f"/proc/self/fd/{directory}/{path.name}")
        os.chmod(path, 0o600)
        return sock
    finally:
        os.close(directory)


def _sweep(directory: Any) -> None:
    """Remove the sockets of processes that are gone."""
    for path in directory.glob("*.sock"):
        if not os.path.exists(f"/proc/{path.stem}"):
            with contextlib.suppress(OSError):
                path.unlink()
