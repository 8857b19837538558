"""The output of an HTTP/2 connection: written together, by one writer, each stream in its turn."""

from __future__ import annotations

import asyncio
from collections import deque

import h2.connection
import h2.exceptions

from paddock.doors.network.exchange import Headers
from paddock.doors.network.http2.meter import MAX_FRAME_BYTES, FrameMeter
from paddock.doors.network.http2.streams import Http2Stream
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost

MAX_PENDING = 256 << 10  # bytes that wait to be written before nobody adds to them


class Outflow:
    """Sends for all streams of a connection."""

    def __init__(self, conn: Conn, protocol: h2.connection.H2Connection, meter: FrameMeter) -> None:
        self._conn = conn
        self._h2 = protocol
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._pending = 0
        self._more = asyncio.Event()
        self._written = asyncio.Event()
        self._queue: deque[asyncio.Future[None]] = deque()

    def pump(self) -> None:
        """Have what the protocol wants to say written in the next turn of the loop, all
        together."""
        data = self._h2.data_to_send()
        if data:
            self._parts.append(data)
            self._pending += len(data)
            self._more.set()

    async def write(self) -> None:
        """Writes for ever. Only this task does: one that is cancelled would tear a frame."""
        while True:
            await self._more.wait()
            self._more.clear()
            data = b"".join(self._parts)
            self._parts.clear()
            await self._conn.write(data)
            self._pending -= len(data)
            self._written.set()
            self.pass_on()

    async def drained(self, most: int = MAX_PENDING) -> None:
        """Waits while more than that is unwritten."""
        while self._pending > most:
            self._written.clear()
            await self._written.wait()

    def send_head(self, stream: Http2Stream, headers: Headers, *, is_end: bool) -> None:
        """Headers, or trailers. Raises ConnLost."""
        _check(stream)
        try:
            self._h2.send_headers(stream.id, headers, end_stream=is_end)
        except h2.exceptions.H2Error as error:
            raise ConnLost(f"headers could not be sent: {error}") from None
        self._meter.excuse()
        self._sent(stream, is_end=is_end)

    async def send(self, stream: Http2Stream, data: bytes) -> None:
        """Waits for the stream's window, and for its turn at what streams share. Raises
        ConnLost."""
        left, has_turn = memoryview(data), False
        try:
            while left:
                _check(stream)
                window = self.window(stream)
                if window <= 0 < self._h2.outbound_flow_control_window:
                    self.pass_on()
                    has_turn = False
                    await self._wait_for_room(stream)
                    continue
                shared = self._shared_room()
                if shared <= 0 or (self._queue and not has_turn):
                    await self._wait_for_turn(stream)
                    has_turn = True
                    continue
                size = min(len(left), window, shared)
                self._send_part(stream, left[:size])
                left, has_turn = left[size:], False
                self.pass_on()
        finally:
            if has_turn:
                self.pass_on()  # it was given, and nobody used it

    def send_end(self, stream: Http2Stream) -> None:
        _check(stream)
        try:
            self._h2.end_stream(stream.id)
        except h2.exceptions.H2Error as error:
            raise ConnLost(f"the end could not be sent: {error}") from None
        self._sent(stream, is_end=True)

    def window(self, stream: Http2Stream) -> int:
        """Return how many bytes the peer takes on this stream now."""
        try:
            return int(self._h2.local_flow_control_window(stream.id))
        except h2.exceptions.H2Error as error:
            raise ConnLost(f"the stream has ended: {error}") from None

    def pass_on(self) -> None:
        """Gives the turn to whom has waited longest; after one frame it comes back here."""
        while self._queue and self._shared_room() > 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _send_part(self, stream: Http2Stream, part: memoryview) -> None:
        try:
            self._h2.send_data(stream.id, part)
        except h2.exceptions.H2Error as error:
            raise ConnLost(f"the body could not be sent: {error}") from None
        self._meter.excuse()
        self._sent(stream)

    def _sent(self, stream: Http2Stream, *, is_end: bool = False) -> None:
        stream.is_sent = is_end
        stream.moved_at = self._loop.time()
        self.pump()

    def _shared_room(self) -> int:
        """That any stream could use now: the connection's window, and what is not written yet."""
        window = int(self._h2.outbound_flow_control_window)
        frame = min(self._h2.max_outbound_frame_size, MAX_FRAME_BYTES)
        return min(window, MAX_PENDING - self._pending, frame)

    async def _wait_for_room(self, stream: Http2Stream) -> None:
        stream.room = self._loop.create_future()
        await stream.room

    async def _wait_for_turn(self, stream: Http2Stream) -> None:
        turn = stream.room = self._loop.create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.pass_on()  # it was given, and nobody will use it
            raise


def _check(stream: Http2Stream) -> None:
    if stream.error is not None:
        raise ConnLost(str(stream.error))
    if stream.is_sent:
        raise ConnLost("the stream has ended")
