"""A recorded WebSocket, given again: the agent's messages are compared with those it sent, and what
the server said comes where it came. Nobody is asked.

The log is walked in its order. What the server sent goes out when all that happened before it has
happened again; what the client sent is waited for. That cannot lock up: a client's message that
was passed on before a server's was sent without knowing it. Pings and pongs belong to the transport
and come by the clock: those of the client are answered, those of the record are left out.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import READ_BYTES, ConnIdle, ConnLost
from paddock.doors.network.websocket.frames import (
    BINARY,
    CLIENT,
    CLOSE,
    SERVER,
    TEXT,
    Frame,
    FrameLog,
)
from paddock.gate.recorded_answers import RecordedOutcome

_MAX_SHOWN = 1 << 20  # bytes of a message that rules are tried on; a longer one has its digest
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
_CLOSING_S = 5.0
_NO_CODE = 1005  # a farewell that says none


def accept_of(key: bytes) -> bytes:
    """The Sec-WebSocket-Accept for a client's key."""
    return base64.b64encode(hashlib.sha1(key.strip() + _GUID, usedforsecurity=False).digest())


class ClientMessage(msgspec.Struct, frozen=True):
    """A message of the client, or its farewell. None: it is gone without one."""

    kind: str
    size: int
    sha256: str
    text: str | None  # of a text that is not too long
    code: int | None = None

    def shown(self) -> Any:
        if self.kind == CLOSE:
            return f"close {self.code}"
        return f"{self.kind} of {self.size} bytes" if self.text is None else self.text[:500]


class _Message:
    """A message that comes in fragments."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._text: bytes | None = b""
        self._size = 0

    def add(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        if self._text is not None:
            self._text = self._text + data if self._size <= _MAX_SHOWN else None

    def said(self, kind: str) -> ClientMessage:
        text = None if self._text is None or kind != TEXT else self._text.decode("utf-8", "replace")
        return ClientMessage(kind, self._size, self._digest.hexdigest(), text)


class _Client:
    """The agent's side of the connection."""

    def __init__(self, conn: Conn) -> None:
        from wsproto.connection import Connection, ConnectionType

        self._conn = conn
        self._protocol = Connection(ConnectionType.SERVER)
        self._came: deque[ClientMessage | None] = deque()
        self._message = _Message()

    async def next(self) -> ClientMessage | None:
        """Return what it says next. Raises ConnLost only while something is sent."""
        from wsproto.utilities import RemoteProtocolError

        while not self._came:
            try:
                data = await self._conn.read(READ_BYTES)
                self._protocol.receive_data(data or None)
                for event in self._protocol.events():
                    await self._take(event)
            except ConnIdle:
                continue
            except (ConnLost, RemoteProtocolError):
                self._came.append(None)
        return self._came.popleft()

    async def _take(self, event: Any) -> None:
        from wsproto.events import CloseConnection, Message, Ping

        match event:
            case Message():
                is_text = isinstance(event.data, str)
                self._message.add(event.data.encode() if is_text else bytes(event.data))
                if event.message_finished:
                    self._came.append(self._message.said(TEXT if is_text else BINARY))
                    self._message = _Message()
            case Ping():
                await self._conn.write(self._protocol.send(event.response()))
            case CloseConnection():
                is_gone = event.code == 1006
                reason = (event.reason or "").encode()
                digest = hashlib.sha256(reason).hexdigest()
                close = ClientMessage(CLOSE, len(reason), digest, None, event.code)
                self._came.append(None if is_gone else close)

    async def send(self, frame: Frame) -> None:
        from wsproto.connection import ConnectionState
        from wsproto.events import BytesMessage, CloseConnection, TextMessage

        event: Any
        if frame.kind == CLOSE:
            if self._protocol.state not in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                return
            code = _NO_CODE if frame.code is None else frame.code
            event = CloseConnection(code, frame.data.decode("utf-8", "replace") or None)
        elif self._protocol.state is not ConnectionState.OPEN:
            return
        elif frame.kind == TEXT:
            event = TextMessage(frame.data.decode("utf-8"), message_finished=frame.is_last)
        else:
            event = BytesMessage(frame.data, message_finished=frame.is_last)
        await self._conn.write(self._protocol.send(event))


async def replay_frames(
    conn: Conn,
    frames: Callable[[], Awaitable[Frame | None]],
    outcome: RecordedOutcome,
    log: FrameLog,
    ended_by: str,
) -> None:
    """Walk through the frames to their end, and log them. Raises ReplayDiverged."""
    client, pending, number = _Client(conn), _Message(), 0
    closed_by = ""
    while (frame := await frames()) is not None:
        match frame.by, frame.kind:
            case "server", ("text" | "binary" | "close"):
                await outcome.until(frame.n)
                await client.send(frame)
            case "client", ("text" | "binary"):
                pending.add(frame.data)
                if frame.is_last:
                    number += 1
                    await _expect(client, pending.said(frame.kind), number, outcome)
                    pending = _Message()
            case "client", "close":
                digest = hashlib.sha256(frame.data).hexdigest()
                farewell = ClientMessage(CLOSE, len(frame.data), digest, None, frame.code)
                # Two farewells may cross: whoever was told first answers with the same code.
                if not closed_by:
                    await _expect(client, farewell, number + 1, outcome)
        if frame.kind == CLOSE:
            closed_by = closed_by or frame.by
        await log.add(frame.by, frame.kind, frame.data, is_last=frame.is_last, code=frame.code)
    is_dropped = not closed_by and ended_by != CLIENT  # by the server, without a farewell
    if closed_by != CLIENT and not is_dropped:
        await _expect_end(client, number + 1, outcome, is_over=closed_by == SERVER)


async def _expect(
    client: _Client, recorded: ClientMessage, number: int, outcome: RecordedOutcome
) -> None:
    at = f"websocket message {number}"
    try:
        async with asyncio.timeout(outcome.wait_s):
            came = await client.next()
    except TimeoutError:
        raise outcome.diverged(at, recorded.shown(), "nothing came") from None
    if came is None:
        raise outcome.diverged(at, recorded.shown(), "the connection ended")
    is_same = (came.kind, came.code) == (recorded.kind, recorded.code)
    if is_same and came.sha256 == recorded.sha256:
        return
    has_texts = recorded.text is not None and came.text is not None
    if is_same and has_texts and outcome.is_same_text(str(recorded.text), str(came.text)):
        return
    raise outcome.diverged(at, recorded.shown(), came.shown())


async def _expect_end(
    client: _Client, number: int, outcome: RecordedOutcome, *, is_over: bool
) -> None:
    """Check that a client says nothing more whose connection ended without a close frame."""
    try:
        async with asyncio.timeout(_CLOSING_S if is_over else outcome.wait_s):
            while (came := await client.next()) is not None:
                if is_over and came.kind == CLOSE:
                    return
                if not is_over:
                    at = f"websocket message {number}"
                    raise outcome.diverged(at, "nothing more", came.shown())
    except TimeoutError:
        return
