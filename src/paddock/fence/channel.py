"""The host's end of the frames: streams with credit over one socket. Knows no driver, no operation.

The guest is inside the fence, so its bytes are hostile: a frame that breaks the protocol, or data
beyond the credit that was given, ends the machine instead of growing this process.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.fence.guest import wire
from paddock.model.errors import Conflict, InvalidInput, SandboxDied

MAX_QUEUED_EVENT_BYTES = 32 << 20  # a listing of 100,000 files fits; a flood does not
MAX_QUEUED_ITEMS = 100_000  # small ones weigh far more here than on the wire
_CREDIT_STEP = wire.WINDOW // 4
_LARGE_BYTES = 64 << 10  # such a payload is received in place, without a copy
_JOINED_BYTES = 4096  # below this one copy is cheaper than a second system call


class StreamData(msgspec.Struct, frozen=True):
    """Bytes on one port of a stream: 1 is stdout or file content, 2 is stderr."""

    port: int
    content: bytes | bytearray


class StreamEvent(msgspec.Struct, frozen=True):
    """Something happened on a stream; `size` is what it weighed on the wire."""

    value: dict[str, Any]
    size: int = 0


class StreamEnd(msgspec.Struct, frozen=True):
    """The stream is over."""

    value: dict[str, Any]


Item = StreamData | StreamEvent | StreamEnd


class Channel(asyncio.BufferedProtocol):
    """All streams of one machine."""

    def __init__(self, machine_id: str) -> None:
        self._machine_id = machine_id
        self._on_lost: Callable[[str], None] | None = None
        self._decoder = wire.FrameDecoder()  # type: ignore[no-untyped-call]
        self._streams: dict[int, Any] = {}
        self._next = 1
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(wire.CHUNK)
        self._view = memoryview(self._buffer)
        self._partial: tuple[int, int, int, bytearray] | None = None
        self._filled = 0
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_write_paused = False
        self._held: list[tuple[int, int, bytes, int]] | None = None  # frames, while held back
        self._unheld: set[int] = set()  # streams that are not held back
        self._lost: str | None = None
        self._sock: socket.socket | None = None

    @classmethod
    async def connect(cls, sock: socket.socket, machine_id: str) -> Channel:
        """Takes over a connected stream socket."""
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(lambda: cls(machine_id), sock=sock)
        channel._sock = sock
        return channel

    def when_lost(self, callback: Callable[[str], None]) -> None:
        """Call back with the reason when the channel is lost; at once if it is lost already."""
        self._on_lost = callback
        if self._lost is not None:
            callback(self._lost)

    def close_in_child(self) -> None:
        """Close the socket in a forked child, or the guest would never see its host end."""
        if self._sock is not None:
            self._sock.close()

    def open(self, op: str, **arguments: Any) -> GuestStream:
        """Begins an operation in the guest."""
        if self._lost is not None:
            raise SandboxDied(self._machine_id, self._lost)
        payload = _packed({"op": op, **arguments})
        number, self._next = self._next, self._next + 1
        stream = self._streams[number] = GuestStream(self, number)
        self.send(wire.OPEN, number, payload)
        return stream

    def relay(self, receiver: Any, payload: bytes) -> int:
        """Begins an operation whose frames go to `receiver` as they come; it keeps the credit."""
        self.check_alive()
        number, self._next = self._next, self._next + 1
        self._streams[number] = receiver
        self.send(wire.OPEN, number, payload)
        return number

    async def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Run an operation that has nothing but an ending, and return that."""
        with self.open(op, **arguments) as stream:
            return await stream.end()

    async def ask_at_once(self, op: str) -> dict[str, Any]:
        """Do what `ask` does, also while other requests are held back."""
        number = self._next
        self._unheld.add(number)
        try:
            return await self.ask(op)
        finally:
            self._unheld.discard(number)

    def hold(self) -> None:
        """Keep back what is sent from now on, in its order, until `release`. Senders of much data
        wait; requests are few and small."""
        if self._held is None:
            self._held = []
            self._can_write.clear()

    def release(self) -> None:
        """Send what was held back."""
        held, self._held = self._held or [], None
        for frame in held:
            self.send(*frame)
        if not self._is_write_paused:
            self._can_write.set()

    def send(self, kind: int, number: int, payload: bytes | memoryview, port: int = 0) -> None:
        if self._transport is None or self._lost is not None:
            return
        if self._held is not None and number not in self._unheld:
            self._held.append((kind, number, bytes(payload), port))
            return
        header = wire.HEADER.pack(len(payload), kind, port, number)
        if len(payload) < _JOINED_BYTES:
            self._transport.write(header + payload)
        else:
            self._transport.write(header)
            self._transport.write(payload)

    async def writable(self) -> None:
        await self._can_write.wait()
        self.check_alive()

    def check_alive(self) -> None:
        if self._lost is not None:
            raise SandboxDied(self._machine_id, self._lost)

    def forget(self, number: int) -> None:
        self._streams.pop(number, None)

    def lose(self, reason: str) -> None:
        """Ends every stream at once with the reason. The first reason stays."""
        if self._lost is not None:
            return
        self._lost = reason
        self._can_write.set()
        if self._transport is not None:
            self._transport.abort()
        for stream in list(self._streams.values()):
            stream.fail(SandboxDied(self._machine_id, reason))
        self._streams.clear()
        if self._on_lost is not None:
            self._on_lost(reason)

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._partial is None:
            return self._view
        return memoryview(self._partial[3])[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._partial is not None:
                self._fill(nbytes)
                return
            frames = self._decoder.feed(self._view[:nbytes])  # type: ignore[no-untyped-call]
            for kind, port, number, payload in frames:
                self._dispatch(kind, port, number, payload)
            partial = self._decoder.take_partial(_LARGE_BYTES)  # type: ignore[no-untyped-call]
            if partial is not None:
                self._partial, self._filled = partial[:4], partial[4]
        except wire.WireError as error:
            self.lose(f"the guest broke the protocol: {error}")

    def _fill(self, nbytes: int) -> None:
        assert self._partial is not None
        self._filled += nbytes
        if self._filled == len(self._partial[3]):
            frame, self._partial = self._partial, None
            self._dispatch(*frame)

    def _dispatch(self, kind: int, port: int, number: int, payload: bytes | bytearray) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            stream.receive(
                kind, port, payload
            )  # may find the frame malformed: then all streams fail
            if kind == wire.END:
                self.forget(number)

    def eof_received(self) -> bool:
        self.lose("the guest exited")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose("the guest exited")

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._held is None:
            self._can_write.set()


class GuestStream:
    """One operation under way. Use it as a context: leaving it makes the guest forget it."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self._number = number
        self._items: deque[Item] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._sending = asyncio.Lock()
        self._error: Exception | None = None
        self._send_credit = wire.WINDOW
        self._receive_credit = wire.WINDOW
        self._owed = 0
        self._event_bytes = 0
        self.is_ended = False

    def __enter__(self) -> GuestStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Makes the guest forget the stream; what it started goes on without it."""
        if not self.is_ended:
            self.is_ended = True
            self._channel.send(wire.CLOSE, self._number, b"")
            self._channel.forget(self._number)
        self.fail(SandboxDied("?", "the stream was closed"))

    async def next(self) -> Item:
        """Return the next item; credit goes back as data is taken. Raises SandboxDied when it
        died."""
        while not self._items:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._items.popleft()
        if isinstance(item, StreamData):
            self._give_credit(len(item.content))
        elif isinstance(item, StreamEvent):
            self._event_bytes -= item.size
            self._give_credit(item.size)
        return item

    async def end(self) -> dict[str, Any]:
        """Wait for the ending, dropping what comes before."""
        while True:
            item = await self.next()
            if isinstance(item, StreamEnd):
                return item.value

    async def event(self) -> dict[str, Any]:
        """Return the next event or the ending, whichever comes first, as a map."""
        while True:
            item = await self.next()
            if not isinstance(item, StreamData):
                return item.value

    def call(self, op: str, **arguments: Any) -> None:
        """Send a request within the stream."""
        self._channel.check_alive()
        self._channel.send(wire.CALL, self._number, _packed({"op": op, **arguments}))

    async def send(self, content: bytes | memoryview, port: int = 0) -> None:
        """Send bytes as credit allows; return when the last of them is on its way."""
        async with self._sending:  # two senders take turns, and both hear of an end
            await self._send(memoryview(content).cast("B"), port)

    async def _send(self, view: memoryview, port: int) -> None:
        while view:
            while self._send_credit <= 0 and not self.is_ended:
                self._room = asyncio.get_running_loop().create_future()
                await self._room
            if self._error is not None:
                raise self._error
            if self.is_ended:
                return  # the ending says why; the caller reads it
            await self._channel.writable()
            chunk = view[: min(wire.CHUNK, max(self._send_credit, 0))]
            self._send_credit -= len(chunk)
            view = view[len(chunk) :]
            self._channel.send(wire.DATA, self._number, chunk, port)

    def send_eof(self, port: int = 0) -> None:
        self._channel.send(wire.EOF, self._number, b"", port)

    def receive(self, kind: int, port: int, payload: bytes | bytearray) -> None:
        if kind == wire.DATA:
            self._receive_credit -= len(payload)
            if self._receive_credit < 0:
                raise wire.WireError("data beyond credit")
            self._put(StreamData(port, payload))
        elif kind == wire.EVENT:
            self._event_bytes += len(payload)
            self._receive_credit -= len(payload)
            if self._event_bytes > MAX_QUEUED_EVENT_BYTES:
                raise wire.WireError("too many events")
            self._put(StreamEvent(_unpacked(payload), len(payload)))
        elif kind == wire.CREDIT and len(payload) == 4:
            self._send_credit += wire.U32.unpack(payload)[0]
            self._wake_sender()
        elif kind == wire.END:
            self.is_ended = True
            ending = _unpacked(payload)
            error = ending.get("error")
            if isinstance(error, dict) and error.get("conflict"):
                self.fail(Conflict(str(error.get("message"))))  # refused by the owner, not by us
                return
            self._put(StreamEnd(ending))
            self._wake_sender()

    def fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self.is_ended = True
        self._wake_sender()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _put(self, item: Item) -> None:
        if len(self._items) >= MAX_QUEUED_ITEMS:
            raise wire.WireError("too many frames on one stream")
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _wake_sender(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _give_credit(self, size: int) -> None:
        self._owed += size
        if self._owed >= _CREDIT_STEP and not self.is_ended:
            self._receive_credit += self._owed
            self._channel.send(wire.CREDIT, self._number, wire.U32.pack(self._owed))
            self._owed = 0


def _packed(value: Mapping[str, Any]) -> bytes:
    try:
        payload: bytes = wire.pack(dict(value))  # type: ignore[no-untyped-call]
    except (wire.WireError, UnicodeEncodeError) as error:
        raise InvalidInput(f"cannot send this request to the sandbox: {error}") from None
    if len(payload) > wire.MAX_PAYLOAD:
        raise InvalidInput(
            f"the request has {len(payload)} bytes, over the limit of {wire.MAX_PAYLOAD}",
            hint="pass large input by box.files.write or by stdin, not as arguments",
        )
    return payload


def _unpacked(payload: bytes | bytearray) -> dict[str, Any]:
    value: dict[str, Any] = wire.unpack_map(payload)  # type: ignore[no-untyped-call]
    return value
