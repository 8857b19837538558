"""A stream connection of the door, plain or TLS. It moves bytes and does not know what they mean.

Sockets are used directly, not through asyncio's transports: TLS then runs on the socket itself, a
read that has data costs no turn of the loop, and a slow peer holds back whoever writes to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import select
import socket
import ssl
import struct
from collections.abc import Callable

from paddock.doors.network.transport.stream import READ_BYTES, ConnIdle, ConnLost
from paddock.doors.network.transport.timeouts import watch

IDLE_S = 300.0
BULK_BYTES = 448 << 10  # more goes faster, and a client that stalls holds so much memory
_LINGER_S = 2.0
_LINGER_BYTES = 64 << 20  # of what a client still sends after its answer: an upload, refused
_TLS_RECORD = 1 << 14
_TURN_READS = 32  # so many reads without a wait, then others have a turn
_OTHER_READS_S = 0.01
_RESET = struct.pack("ii", 1, 0)
_SIOCOUTQNSD = 0x894B  # how many bytes wait here because the peer does not take them
_WAITS = (BlockingIOError, ssl.SSLWantReadError)


class Conn:
    """One connection. At most one reader and one writer at a time."""

    __slots__ = (
        "__weakref__",
        "_failure",
        "_fd",
        "_held",
        "_is_reading",
        "_is_unwanted",
        "_loop",
        "_read_deadline",
        "_reader",
        "_sock",
        "_turns",
        "_write_deadline",
        "_writer",
        "alpn",
        "bytes_in",
        "bytes_out",
        "idle_s",
        "is_closed",
        "is_open_at",
        "sni",
    )

    def __init__(self, sock: socket.socket, *, idle_s: float = IDLE_S) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._fd = sock.fileno()
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self._turns = 0
        self._failure: Exception | None = None
        self._is_reading = False  # whether the loop watches for input
        self._is_unwanted = False  # whether input came since the last wait that nobody waited for
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._read_deadline = self._write_deadline = 0.0
        self.idle_s = idle_s
        self.bytes_in = self.bytes_out = 0
        self.alpn: str | None = None
        self.sni: str | None = None
        self.is_closed = False
        # Whether anybody there has the other end, by its port; None where that cannot be told.
        self.is_open_at: Callable[[int], bool] | None = None
        watch(self._loop, self)

    @property
    def sock(self) -> socket.socket:
        """For questions about addresses only."""
        return self._sock

    @property
    def is_tls(self) -> bool:
        return isinstance(self._sock, ssl.SSLSocket)

    async def read(self, limit: int = READ_BYTES) -> bytes:
        """Return what has come, at least one byte; b"" at the end of the stream."""
        if self._held:
            data, self._held = self._held[:limit], self._held[limit:]
            return data
        if self._turns >= _TURN_READS:
            # Before the read: a reader that is cancelled here has lost nothing.
            self._turns = 0
            await asyncio.sleep(0)
        while True:
            try:
                data = self._received(limit)
            except _WAITS:
                await self._readable()
                continue
            except ssl.SSLWantWriteError:
                await self._writable()
                continue
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                return b""
            except (OSError, ValueError) as error:
                raise self._lost(error) from None
            self.bytes_in += len(data)
            self._turns += 1
            return data

    def _received(self, limit: int) -> bytes:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        data = self._sock.recv(limit)
        if len(data) != _TLS_RECORD or limit <= _TLS_RECORD or not self.is_tls:
            return data
        return self._received_more(data, limit)

    def _received_more(self, data: bytes, limit: int) -> bytes:
        """TLS gives one record at a time, and whoever handles the data has a cost for each piece of
        it: what else is there is taken along. A failure is told by the next read."""
        parts, left = [data], limit - len(data)
        try:
            while left > 0 and (part := self._sock.recv(left)):
                parts.append(part)
                left -= len(part)
        except (*_WAITS, ssl.SSLWantWriteError):
            pass
        except (OSError, ValueError) as error:
            self._failure = error
        return b"".join(parts)

    def unread(self, data: bytes) -> None:
        """Have the next read return this first."""
        self._held = data + self._held

    @property
    def has_input(self) -> bool:
        """Return whether a read would return at once, be it with the end of the stream."""
        if self._held or self.is_closed or self._failure is not None:
            return True
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True
        return bool(self._polled(select.POLLIN))

    async def peek(self, limit: int = 16) -> bytes:
        """Return what has come, without taking it. Not for TLS."""
        if self._held:
            return self._held[:limit]
        while True:
            try:
                return self._sock.recv(limit, socket.MSG_PEEK)
            except BlockingIOError:
                await self._readable()
            except (OSError, ValueError) as error:
                raise self._lost(error) from None

    @property
    def is_gone(self) -> bool:
        """Return whether the peer has closed its side, which nobody has read yet."""
        if self.is_closed:
            return True
        # Not by what there is to read: in TLS 1.3 a farewell looks like any other record.
        events = self._polled(select.POLLRDHUP)
        if events != select.POLLRDHUP or self.is_open_at is None:
            return bool(events)
        try:  # it will write no more; it may still wait for what it asked
            return not self.is_open_at(self._sock.getpeername()[1])
        except OSError:
            return True

    def _polled(self, event: int) -> int:
        poll = select.poll()
        poll.register(self._fd, event)
        return next((events for _, events in poll.poll(0)), 0)

    async def write(self, data: bytes) -> None:
        """Write all of the data; return when the kernel has it."""
        left: bytes | memoryview = data
        while left:
            try:
                sent = self._sock.send(left)
            except (BlockingIOError, ssl.SSLWantWriteError):
                await self._writable()
                continue
            except ssl.SSLWantReadError:
                await self._readable()
                continue
            except (OSError, ValueError) as error:
                raise self._lost(error) from None
            self.bytes_out += sent
            if sent == len(left):
                return
            left = memoryview(left)[sent:]

    async def start_tls(
        self,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_hostname: str | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        """Begin TLS on the connection, on either side. Raises ConnLost, or ssl.SSLError."""
        if self._held:
            raise ConnLost("bytes came before TLS was agreed on")
        # What was read and not taken would be lost to TLS: nothing is, `peek` leaves it there.
        wrapped = context.wrap_socket(
            self._sock,
            server_side=server_side,
            server_hostname=server_hostname,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,
        )
        self._sock = wrapped
        try:
            async with asyncio.timeout(timeout_s):
                await self._shake_hands(wrapped)
        except TimeoutError:
            raise ConnLost(f"TLS was not agreed on within {timeout_s:g} s") from None
        self.alpn = wrapped.selected_alpn_protocol()
        self.sni = getattr(wrapped, "asked", None)

    async def _shake_hands(self, wrapped: ssl.SSLSocket) -> None:
        while True:
            try:
                wrapped.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._readable()
            except ssl.SSLWantWriteError:
                await self._writable()
            except ssl.SSLError:
                raise
            except (OSError, ValueError) as error:
                raise self._lost(error) from None

    def write_eof(self) -> None:
        """Close the own side; the peer may go on."""
        with contextlib.suppress(OSError, ValueError):
            if isinstance(self._sock, ssl.SSLSocket):
                self._sock.unwrap()  # sends its farewell, and never waits here
            else:
                self._sock.shutdown(socket.SHUT_WR)

    async def linger(self) -> None:
        """Close so that the peer gets what was written: a close with input left would reset."""
        self.write_eof()
        taken = 0
        with contextlib.suppress(ConnLost, TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while taken < _LINGER_BYTES and (dropped := await self._drop()):
                    taken += dropped
        self.close()

    async def reset(self) -> None:
        """Close like `abort`, when the peer has what was written: a reset would overtake it."""
        until = self._loop.time() + _LINGER_S
        with contextlib.suppress(OSError):
            while self._unsent() and self._loop.time() < until:  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(_OTHER_READS_S)
        self.abort()

    def _unsent(self) -> bool:
        return not self.is_closed and fcntl.ioctl(self._fd, _SIOCOUTQNSD, bytes(4)) != bytes(4)

    async def _drop(self) -> int:
        """Take what came off the wire, in TLS as it is: OpenSSL refuses to read what comes after
        its own close_notify."""
        while True:
            try:
                return len(socket.socket.recv(self._sock, BULK_BYTES))
            except BlockingIOError:
                await self._readable()
            except (OSError, ValueError) as error:
                raise self._lost(error) from None

    def close(self) -> None:
        if self.is_closed:
            return
        if self.is_tls:
            self.write_eof()
        self._end("it was closed")

    def abort(self) -> None:
        """Close so that the peer sees a reset."""
        if self.is_closed:
            return
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._end("it was cut off")

    def _end(self, why: str) -> None:
        self.is_closed = True
        if self._is_reading:
            self._loop.remove_reader(self._fd)
        if self._writer is not None:
            self._loop.remove_writer(self._fd)
        for waiter in (self._reader, self._writer):
            if waiter is not None and not waiter.done():
                waiter.set_exception(ConnLost(why))
        self._reader = self._writer = None
        self._sock.close()

    async def _readable(self) -> None:
        if self.is_closed:
            raise ConnLost("it is closed")
        if self._reader is not None:
            # TLS that wants to read before it can write, while another waits for input: that one
            # is woken and its read serves both.
            await asyncio.sleep(_OTHER_READS_S)
            return
        if not self._is_reading:
            self._loop.add_reader(self._fd, self._input_came)
            self._is_reading = True
        waiter = self._reader = self._loop.create_future()
        self._turns, self._is_unwanted = 0, False
        self._read_deadline = self._loop.time() + self.idle_s
        try:
            await waiter
        finally:
            if self._reader is waiter:
                self._reader = None

    def _input_came(self) -> None:
        """The loop goes on watching after a wait: the next one then costs no system call. Input
        that nobody waits for ends it, when it is still there in the next turn: often somebody reads
        it in this one."""
        waiter = self._reader
        if waiter is None:
            if self._is_unwanted:
                self._loop.remove_reader(self._fd)
                self._is_reading = False
            self._is_unwanted = True
        elif not waiter.done():
            waiter.set_result(None)
            self._reader = None

    async def _writable(self) -> None:
        if self.is_closed:
            raise ConnLost("it is closed")
        waiter = self._writer = self._loop.create_future()
        self._loop.add_writer(self._fd, _let_go, waiter)
        self._write_deadline = self._loop.time() + self.idle_s
        try:
            await waiter
        finally:
            if self._writer is waiter:
                self._writer = None
                self._loop.remove_writer(self._fd)

    def check(self, now: float) -> None:
        """Let a wait that took too long fail."""
        reader, writer = self._reader, self._writer
        if reader is not None and now > self._read_deadline and not reader.done():
            reader.set_exception(ConnIdle(f"nothing came for {self.idle_s:g} s"))
        if writer is not None and now > self._write_deadline and not writer.done():
            writer.set_exception(ConnIdle(f"nothing was taken for {self.idle_s:g} s"))

    def _lost(self, error: Exception) -> ConnLost:
        if self.is_closed:
            return ConnLost("it is closed")
        if isinstance(error, ssl.SSLError):
            return ConnLost(f"TLS failed: {error.reason or error}")
        return ConnLost(getattr(error, "strerror", None) or str(error))


async def pump(source: Conn, target: Conn) -> None:
    """Move bytes until the source ends, and pass the end on."""
    while data := await source.read(BULK_BYTES):
        await target.write(data)
    target.write_eof()


def _let_go(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
