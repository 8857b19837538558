"""A WebSocket between a client and a server, after both agreed to it. Frames are taken apart and
made anew, so that neither can send the other what is not one. No extension was agreed on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import READ_BYTES, ConnIdle, ConnLost
from paddock.doors.network.websocket.frames import BINARY, CLIENT, CLOSE, SERVER, TEXT, FrameLog

if TYPE_CHECKING:
    from wsproto.connection import Connection

INSPECTED_BYTES = 1 << 20  # of a message that are looked at as one
OVERLAP_BYTES = 64 << 10  # that two parts of a longer message are looked at with
_MAX_CONTROL = 123  # bytes of a farewell's reason; a ping may have two more
_CLOSING_S = 10.0  # for the second half of a farewell
_VIOLATION, _BROKEN, _POLICY = 1002, 1011, 1008

Inspect = Callable[[bytes], Awaitable[bool]]
Scrub = Callable[[bytes], Awaitable[bytes]]


class Counts(msgspec.Struct, frozen=True):
    """Counts of what went over a WebSocket; `out` is what the client sent."""

    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    closed_by: str  # client, server, policy, or error

    def record(self) -> dict[str, Any]:
        return {
            "messages_in": self.messages_in,
            "messages_out": self.messages_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "closed_by": self.closed_by,
        }


class _End(Exception):
    """The relay ends here: by whom, and the code that both are told, if any. A farewell was passed
    on and is to be answered."""

    def __init__(self, by: str, code: int | None = None, *, is_farewell: bool = False) -> None:
        super().__init__(by)
        self.by = by
        self.code = code
        self.is_farewell = is_farewell


async def relay(
    client: Conn,
    server: Conn,
    *,
    inspect: Inspect | None = None,
    scrub: Scrub | None = None,
    log: FrameLog | None = None,
) -> Counts:
    """Pass messages both ways until one side ends it, and close both. A message of the client that
    `inspect` says no to ends it with code 1008; `scrub` changes those of the server. `log` gets
    every frame that is passed on."""
    from wsproto.connection import Connection, ConnectionType

    near, far = Connection(ConnectionType.SERVER), Connection(ConnectionType.CLIENT)
    check = None if inspect is None else _judged(inspect)
    out = _Way(CLIENT, client, near, server, far, check, log)
    back = _Way(SERVER, server, far, client, near, scrub, log)
    out.other, back.other = back, out
    try:
        end = await _first_end(out, back)
        if end.code is not None and log is not None:  # both are told so, whoever is at fault
            await log.add(SERVER, CLOSE, b"", code=end.code)
        for way in (out, back):
            await way.say_farewell(end.code)
    finally:
        client.close()
        server.close()
    return Counts(back.messages, out.messages, back.bytes, out.bytes, end.by)


def _judged(inspect: Inspect) -> Scrub:
    async def check(data: bytes) -> bytes:
        if await inspect(data) is not True:
            raise _End("policy", _POLICY)
        return data

    return check


async def _first_end(*ways: _Way) -> _End:
    tasks = [asyncio.create_task(way.run()) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if all(task.result().is_farewell for task in done):
            await asyncio.wait(tasks, timeout=_CLOSING_S)
        return next(task.result() for task in tasks if task in done)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Way:
    """Passes messages from one side to the other."""

    other: _Way

    def __init__(
        self,
        name: str,
        source: Conn,
        incoming: Connection,
        target: Conn,
        outgoing: Connection,
        check: Scrub | None,
        log: FrameLog | None,
    ) -> None:
        self.messages = self.bytes = 0
        self.moved_at = 0.0
        self._name = name
        self._source, self._incoming = source, incoming
        self._target, self._outgoing = target, outgoing
        self._check = check
        self._log = log
        self._held = bytearray()  # of a message that is not checked yet
        self._is_midway = False  # whether a write was begun and not ended

    async def run(self) -> _End:
        from wsproto.utilities import LocalProtocolError, RemoteProtocolError

        try:
            while True:
                self._incoming.receive_data(await self._read() or None)
                for event in self._incoming.events():
                    await self._pass_on(event)
        except _End as end:
            return end
        except ConnLost:
            return _End(self._name)
        except (RemoteProtocolError, LocalProtocolError, UnicodeDecodeError):
            return _End("error", _VIOLATION)
        except Exception:  # of a check: what was not checked does not pass
            return _End("error", _BROKEN)

    async def say_farewell(self, code: int | None) -> None:
        """Tells the target why it ends, if nothing else was said."""
        from wsproto.events import CloseConnection
        from wsproto.utilities import LocalProtocolError

        if code is None or self._is_midway:
            return
        with contextlib.suppress(ConnLost, LocalProtocolError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._target.write(self._outgoing.send(CloseConnection(code)))

    async def _read(self) -> bytes:
        """A side may be silent as long as the other is not."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await self._source.read(READ_BYTES)
            except ConnIdle:
                if loop.time() - self.other.moved_at > self._source.idle_s:
                    raise
                continue
            self.moved_at = loop.time()
            self.bytes += len(data)
            return data

    async def _pass_on(self, event: Any) -> None:
        from wsproto.events import CloseConnection, Message, Ping, Pong

        match event:
            case Message():
                await self._pass_message(event)
            case Ping() | Pong():
                await self._send(type(event)(await self._checked(event.payload)))
            case CloseConnection() if event.code == 1006:
                raise _End(self._name)  # the connection ended without a farewell
            case CloseConnection():
                await self._pass_close(event)

    async def _pass_close(self, event: Any) -> None:
        from wsproto.connection import ConnectionState

        if self._incoming.state in (ConnectionState.OPEN, ConnectionState.LOCAL_CLOSING):
            # Not a farewell: the parser's word that the frame is none, and why.
            raise _End("error", event.code)
        if self._outgoing.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            checked = await self._checked((event.reason or "").encode())
            reason = checked.decode("utf-8", "ignore")
            if self._log is not None:
                await self._log.add(self._name, CLOSE, reason.encode(), code=event.code)
            await self._write(self._outgoing.send(type(event)(event.code, reason or None)))
        raise _End(self._name, is_farewell=True)

    async def _checked(self, data: bytes | bytearray) -> bytes:
        """Return the payload of a control frame as it may go on. A placeholder may be longer than
        the value, and is cut then."""
        checked = data if self._check is None or not data else await self._check(bytes(data))
        return bytes(checked if checked == data else checked[:_MAX_CONTROL])

    async def _pass_message(self, event: Any) -> None:
        is_text, is_last = isinstance(event.data, str), event.message_finished
        self.messages += is_last
        if self._check is None:
            if event.data or is_last:
                await self._send(event)
            return
        self._held += event.data.encode() if is_text else event.data
        if not is_last and len(self._held) < INSPECTED_BYTES:
            return
        checked = await self._check(bytes(self._held))
        end = len(checked) if is_last else _cut(checked)
        self._held = bytearray(checked[end:])
        part = checked[:end]
        await self._send(type(event)(part.decode() if is_text else part, message_finished=is_last))

    async def _send(self, event: Any) -> None:
        from wsproto.connection import ConnectionState

        if self._outgoing.state is ConnectionState.OPEN:  # after a farewell nothing is said
            await self._note(event)
            await self._write(self._outgoing.send(event))

    async def _note(self, event: Any) -> None:
        from wsproto.events import Message, Ping

        if self._log is None:
            return
        if isinstance(event, Message):
            is_text = isinstance(event.data, str)
            data = event.data.encode() if is_text else bytes(event.data)
            kind = TEXT if is_text else BINARY
            await self._log.add(self._name, kind, data, is_last=event.message_finished)
        else:
            kind = "ping" if isinstance(event, Ping) else "pong"
            await self._log.add(self._name, kind, bytes(event.payload))

    async def _write(self, data: bytes) -> None:
        self._is_midway = True
        await self._target.write(data)
        self._is_midway = False


def _cut(data: bytes) -> int:
    """Return where a part ends: before the overlap, and not inside of a character."""
    end = max(len(data) - OVERLAP_BYTES, 0)
    while end and data[end] & 0xC0 == 0x80:
        end -= 1
    return end
