"""One HTTP/2 connection, the same for both sides: frames in, streams kept, limits held. What a
stream means is the business of its side.

Only this file and `outflow` import the protocol library; import them when a connection needs
them, and not earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import msgspec

from paddock.doors.network.exchange import BadMessage, Headers
from paddock.doors.network.http2.heads import read_trailers
from paddock.doors.network.http2.meter import MAX_FRAME_BYTES, MAX_HEAD_BYTES, Flood, FrameMeter
from paddock.doors.network.http2.outflow import MAX_PENDING, Outflow
from paddock.doors.network.http2.streams import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    INTERNAL_ERROR,
    MAX_STREAMS,
    PROTOCOL_ERROR,
    Http2Stream,
    wake,
)
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost

_FIRST_WINDOW = 65535  # of any connection; settings do not change it
_MAX_REMOTE_SETTINGS = 64
_HEADER_TABLE_BYTES = 4096  # a peer may ask for gigabytes
_FAREWELL_S = 2.0
_LONGEST_TICK_S = 15.0


class Side(Protocol):
    """The part of a connection that differs between server and client. Nothing here waits."""

    def head_came(self, stream_id: int, headers: Headers, *, is_end: bool) -> None: ...

    def stream_ended(self, stream: Http2Stream) -> None: ...

    def was_reset(self, stream: Http2Stream, code: int, *, by_peer: bool) -> None: ...

    def peer_leaves(self, last_stream_id: int) -> None: ...


class Windows(msgspec.Struct, frozen=True):
    """Bytes that a peer may send before they are taken: on one stream, and on all together."""

    stream: int
    connection: int


class _Protocol(h2.connection.H2Connection):
    MAX_CLOSED_STREAMS = 1024  # enough for frames that were under way

    def _begin_new_stream(self, stream_id: int, allowed_ids: Any) -> Any:
        """A length that is wrong ends its stream, which our own looks after, and not all others."""
        stream = super()._begin_new_stream(stream_id, allowed_ids)
        stream._initialize_content_length = lambda headers: None  # type: ignore[method-assign]
        return stream


class Http2Link:
    """One connection. `run` reads and writes it until it ends."""

    def __init__(self, conn: Conn, side: Side, windows: Windows, *, is_client: bool) -> None:
        self.conn = conn
        self.loop = asyncio.get_running_loop()
        self.streams: dict[int, Http2Stream] = {}
        self.error: ConnLost | None = None  # why it is over
        self._side = side
        self._windows = windows
        self._meter = FrameMeter(is_server=not is_client)
        self._h2 = _protocol(is_client, windows.stream)
        self.out = Outflow(conn, self._h2, self._meter)
        self._group: asyncio.TaskGroup | None = None
        self._events: dict[type, Callable[[Any], None]] = {
            h2.events.RequestReceived: self._head_came,
            h2.events.ResponseReceived: self._head_came,
            h2.events.DataReceived: self._data_came,
            h2.events.StreamEnded: self._end_came,
            h2.events.TrailersReceived: self._trailers_came,
            h2.events.StreamReset: self._reset_came,
            h2.events.WindowUpdated: self._window_opened,
            h2.events.RemoteSettingsChanged: self._settings_came,
        }
        self._greet()

    async def run(self) -> None:
        """Until the connection ends, for whatever reason; its tasks end with it."""
        error = ConnLost("the connection was given up")
        try:
            async with asyncio.TaskGroup() as self._group:
                for work in (self.out.write(), self._sweep()):
                    self._group.create_task(work)
                error = await self._read()
                self.lose(error)
                raise _Over
        except* (_Over, ConnLost) as group:
            lost = [error for error in group.exceptions if isinstance(error, ConnLost)]
            error = lost[0] if lost else error
        finally:
            self.lose(error)
            self.conn.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that ends with the connection."""
        assert self._group is not None
        return self._group.create_task(work)

    def lose(self, error: ConnLost) -> None:
        """Nothing more comes or goes."""
        self.error = self.error or error
        for stream in list(self.streams.values()):
            stream.fail(error)
        self.streams.clear()

    @property
    def max_streams(self) -> int:
        """That the peer takes at a time."""
        return int(self._h2.remote_settings.max_concurrent_streams)

    @property
    def window_left(self) -> int:
        """Bytes that the peer may send now, on all streams together."""
        return int(self._h2.inbound_flow_control_window)

    def open_stream(self) -> Http2Stream:
        if self.error is not None:
            raise ConnLost(str(self.error))
        try:
            return self.add_stream(self._h2.get_next_available_stream_id())
        except h2.exceptions.NoAvailableStreamIDError:
            raise ConnLost("the connection has used up its streams") from None

    def add_stream(self, stream_id: int) -> Http2Stream:
        stream = self.streams[stream_id] = Http2Stream(self, stream_id)
        return stream

    def reset(self, stream: Http2Stream, code: int, why: ConnLost | BadMessage) -> None:
        stream.fail(why)
        self.streams.pop(stream.id, None)
        self.refuse(stream.id, code)

    def refuse(self, stream_id: int, code: int) -> None:
        with contextlib.suppress(h2.exceptions.H2Error):
            self._h2.reset_stream(stream_id, code)
        self.out.pump()

    def took(self, stream_id: int, size: int) -> None:
        if not size or self.error is not None:
            return
        with contextlib.suppress(h2.exceptions.H2Error):
            self._h2.acknowledge_received_data(size, stream_id)
        self.out.pump()

    def _greet(self) -> None:
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(self._windows.connection - _FIRST_WINDOW)
        self.out.pump()

    async def _read(self) -> ConnLost:
        """Until the end; the result says why."""
        try:
            while data := await self._read_some():
                self._receive(data)
                # Who reads no answers is not read either. Twice the backlog, or two ends that wait
                # for each other to read would wait for ever.
                await self.out.drained(2 * MAX_PENDING)
            return ConnLost("the connection was closed")
        except ConnLost:
            raise
        except Flood as error:
            return await self._part(ENHANCE_YOUR_CALM, f"too much was sent: {error}")
        except h2.exceptions.ProtocolError as error:
            # Not in the library's words: they repeat what the peer sent, which may be a secret.
            return await self._part(None, f"the protocol was broken ({type(error).__name__})")
        except Exception as error:  # of the library, on input that nobody thought of
            return await self._part(
                INTERNAL_ERROR, f"it could not be read ({type(error).__name__})"
            )

    async def _read_some(self) -> bytes:
        """A connection is idle only while no stream is open: each of those has its own limit."""
        while True:
            began = self.loop.time()
            try:
                return await self.conn.read()
            except ConnLost:
                was_idle = self.loop.time() - began >= self.conn.idle_s * 0.9
                if not was_idle or not self.streams or self.conn.is_closed:
                    raise

    def _receive(self, data: bytes) -> None:
        last_before = self._meter.last_stream_id
        try:
            for event in self._h2.receive_data(self._meter.feed(data)):
                handle = self._events.get(type(event))
                if handle is not None:
                    handle(event)
        finally:
            self.out.pump()
        last = self._meter.last_stream_id
        if last is not None and last != last_before:
            self._side.peer_leaves(last)

    async def _part(self, code: int | None, why: str) -> ConnLost:
        """Says why before the end, to a peer that reads it in time."""
        error = ConnLost(why)
        self.lose(error)
        if code is not None:
            with contextlib.suppress(h2.exceptions.H2Error):
                self._h2.close_connection(code)
        self.out.pump()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self.out.drained(0)
                await self.conn.linger()
        return error

    async def _sweep(self) -> None:
        """Ends streams on which someone waits and nothing has moved for too long."""
        idle_s = self.conn.idle_s
        while True:
            await asyncio.sleep(min(idle_s / 4, _LONGEST_TICK_S))
            limit = self.loop.time() - idle_s
            for stream in list(self.streams.values()):
                what = stream.awaited() if stream.moved_at < limit else None
                if what is not None:
                    self.reset(stream, CANCEL, ConnLost(f"{what} for {idle_s:g} s"))

    def _head_came(self, event: Any) -> None:
        is_end = event.stream_ended is not None
        self._side.head_came(event.stream_id, event.headers, is_end=is_end)

    def _data_came(self, event: Any) -> None:
        stream, size = self.streams.get(event.stream_id), event.flow_controlled_length
        if stream is None:
            self.took(event.stream_id, size)
        else:
            stream.feed(event.data, size)

    def _end_came(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.end()
            self._side.stream_ended(stream)

    def _trailers_came(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        try:
            stream.trailers = read_trailers(event.headers)
        except BadMessage as error:
            self.reset(stream, PROTOCOL_ERROR, error)

    def _reset_came(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            by_peer = bool(event.remote_reset)
            self._side.was_reset(stream, int(event.error_code or 0), by_peer=by_peer)

    def _window_opened(self, event: Any) -> None:
        if event.stream_id:
            stream = self.streams.get(event.stream_id)
            wake(stream.room if stream is not None else None)
        else:
            self.out.pass_on()

    def _settings_came(self, event: Any) -> None:
        if len(self._h2.remote_settings) > _MAX_REMOTE_SETTINGS:
            raise Flood("settings that nobody knows")
        if self._h2.encoder.header_table_size > _HEADER_TABLE_BYTES:
            self._h2.encoder.header_table_size = _HEADER_TABLE_BYTES
        for stream in self.streams.values():
            wake(stream.room)
        self.out.pass_on()


class _Over(Exception):
    """Ends the tasks of a connection."""


def _protocol(is_client: bool, stream_window: int) -> h2.connection.H2Connection:
    # Headers are checked in `heads`: the library would end all streams for one bad head.
    config = h2.config.H2Configuration(
        client_side=is_client, header_encoding=None, validate_inbound_headers=False
    )
    protocol = _Protocol(config)
    code = h2.settings.SettingCodes
    values = {
        code.ENABLE_PUSH: 0,
        code.INITIAL_WINDOW_SIZE: stream_window,
        code.MAX_FRAME_SIZE: MAX_FRAME_BYTES,
        code.MAX_HEADER_LIST_SIZE: MAX_HEAD_BYTES,
    }
    if not is_client:
        values[code.MAX_CONCURRENT_STREAMS] = MAX_STREAMS
    protocol.local_settings = h2.settings.Settings(client=is_client, initial_values=values)
    protocol.max_inbound_frame_size = MAX_FRAME_BYTES
    return protocol
