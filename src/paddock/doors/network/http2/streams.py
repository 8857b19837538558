"""A stream of HTTP/2, the same for both sides: what has come and was not taken, and who waits."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from paddock.doors.network.exchange import BadMessage, Headers
from paddock.doors.network.transport.stream import ConnLost

MAX_STREAMS = 128
_SMALL = 1024
_READ_BYTES = 64 << 10

# Of RFC 9113, section 7: those that are said here.
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM = 0x0, 0x1, 0x2, 0x7
CANCEL, ENHANCE_YOUR_CALM = 0x8, 0xB


class StreamOwner(Protocol):
    """The connection, as far as a stream needs it."""

    loop: asyncio.AbstractEventLoop

    def took(self, stream_id: int, size: int) -> None:
        """Note that so much was taken, and may come again."""
        ...

    def reset(self, stream: Http2Stream, code: int, why: ConnLost | BadMessage) -> None:
        """End a stream at once, both ways."""
        ...


class Http2Stream:
    """A stream: it holds what has come and was not taken, and wakes who waits for it. It is a
    Body."""

    __slots__ = (
        "_held",
        "_link",
        "_received",
        "error",
        "head",
        "id",
        "is_ended",
        "is_sent",
        "length",
        "moved_at",
        "reader",
        "room",
        "task",
        "trailers",
    )

    def __init__(self, link: StreamOwner, stream_id: int) -> None:
        self._link = link
        self._held: deque[bytes | bytearray] = deque()
        self._received = 0
        self.id = stream_id
        self.length: int | None = None
        self.trailers: Headers = []
        self.error: ConnLost | BadMessage | None = None
        self.is_ended = False  # nothing more comes
        self.is_sent = False  # nothing more goes out
        self.head: asyncio.Future[Any] | None = None
        self.reader: asyncio.Future[None] | None = None
        self.room: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.moved_at = link.loop.time()

    async def read(self) -> bytes:
        """Return what has come. Only what was read is allowed to come again."""
        while not self._held:
            if self.error is not None:
                raise self.error
            if self.is_ended:
                return b""
            self.reader = self._link.loop.create_future()
            await self.reader
        data = self._take()
        self._link.took(self.id, len(data))
        return data

    def cancel(self) -> None:
        """Give the rest up."""
        gone = ConnLost("it was given up")
        if self.is_ended and self.is_sent:
            self.fail(gone)
        else:
            self._link.reset(self, CANCEL, gone)

    def feed(self, data: bytes, size: int) -> None:
        """Take data that came. `size` also counts padding."""
        self._received += len(data)
        self.moved_at = self._link.loop.time()
        if self.error is not None or not data:
            self._link.took(self.id, size)
            return
        self._link.took(self.id, size - len(data))
        self._hold(data)
        wake(self.reader)

    def end(self) -> None:
        """Note that nothing more comes. The library checks the length only of what ends with DATA,
        so it is done here."""
        if self.length is not None and self._received != self.length:
            wrong = BadMessage(400, f"{self._received} bytes where {self.length} were announced")
            self._link.reset(self, PROTOCOL_ERROR, wrong)
            return
        self.is_ended = True
        self.moved_at = self._link.loop.time()
        wake(self.reader)

    def fail(self, error: ConnLost | BadMessage) -> None:
        """Raise this error for whoever waits, or comes later."""
        if self.error is not None:
            return
        self.error = error
        self._link.took(self.id, sum(map(len, self._held)))
        self._held.clear()
        for waiter in (self.head, self.reader, self.room):
            wake(waiter, error)

    def stop_sending(self, error: ConnLost) -> None:
        """Stop sending: the peer has answered in full and wants no more."""
        self.is_sent = True
        wake(self.room, error)

    def _hold(self, data: bytes) -> None:
        """Small parts become one: an object for each byte would be fifty times the window."""
        last = self._held[-1] if self._held else None
        if len(data) >= _SMALL:
            self._held.append(data)
        elif isinstance(last, bytearray) and len(last) < _READ_BYTES:
            last += data
        else:
            self._held.append(bytearray(data))

    def _take(self) -> bytes:
        """Some of what came. What was taken may come again, so one who takes and waits must not
        have all of it."""
        parts = [self._held.popleft()]
        size = len(parts[0])
        while self._held and size + len(self._held[0]) <= _READ_BYTES:
            parts.append(self._held.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    def awaited(self) -> str | None:
        """Return what someone waits for here, if anyone does."""
        if self.room is not None and not self.room.done():
            return "nothing was taken"
        waiters = (self.head, self.reader)
        is_waiting = any(waiter is not None and not waiter.done() for waiter in waiters)
        return "nothing came" if is_waiting else None


def wake(waiter: asyncio.Future[Any] | None, error: Exception | None = None) -> None:
    if waiter is None or waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
        waiter.exception()  # who waited may be gone by now; then nobody asks
