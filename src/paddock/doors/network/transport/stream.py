"""The interface of byte streams, and a scripted one for tests.

HTTP is read from and written to a `ByteStream`. `Conn` is the real one, on a socket.
"""

from __future__ import annotations

from typing import Protocol

READ_BYTES = 1 << 16


class ConnLost(Exception):
    """The peer is gone, or did nothing for too long; the message says which."""

    is_stale = False  # whether a kept connection had ended before it was used again


class ConnIdle(ConnLost):
    """The peer is there, and did nothing for too long."""


class ByteStream(Protocol):
    """A connection as bytes, both ways. At most one reader and one writer at a time.

    Every method that waits raises ConnLost when the peer is gone, and ConnIdle when it did nothing
    for too long. Nothing is written any more after `linger`, `reset`, `close` or `abort`.
    """

    bytes_in: int
    is_closed: bool

    @property
    def is_gone(self) -> bool:
        """Return whether the peer has closed its side, which nobody has read yet."""
        ...

    @property
    def has_input(self) -> bool:
        """Return whether a read would return at once, be it with the end of the stream."""
        ...

    async def read(self, limit: int = READ_BYTES) -> bytes:
        """Return what has come, at least one byte; b"" at the end of the stream."""
        ...

    def unread(self, data: bytes) -> None:
        """Have the next read return this first."""
        ...

    async def write(self, data: bytes) -> None:
        """Write all of the data."""
        ...

    async def linger(self) -> None:
        """Close so that the peer gets what was written, whatever it still sends."""
        ...

    async def reset(self) -> None:
        """Close with a reset, when the peer has what was written."""
        ...

    def close(self) -> None: ...

    def abort(self) -> None:
        """Close with a reset at once."""
        ...


class ScriptedStream:
    """A stream whose peer sends what a test has written down, and whose output can be looked at.

        stream = ScriptedStream(b"GET / HTTP/1.1\\r\\n", ConnLost("gone"))

    Each read returns the next part or raises it; after the last one the stream has ended.
    """

    def __init__(self, *script: bytes | Exception) -> None:
        self.written = b""
        self.ending = ""  # the method that closed it: linger, reset, close or abort
        self.bytes_in = 0
        self.is_gone = False  # for the test to set
        self._script = list(script)

    @property
    def is_closed(self) -> bool:
        return bool(self.ending)

    @property
    def has_input(self) -> bool:
        return True

    async def read(self, limit: int = READ_BYTES) -> bytes:
        if not self._script:
            return b""
        part = self._script.pop(0)
        if isinstance(part, Exception):
            raise part
        if len(part) > limit:
            self.unread(part[limit:])
        self.bytes_in += len(part[:limit])
        return part[:limit]

    def unread(self, data: bytes) -> None:
        if data:
            self._script.insert(0, data)

    async def write(self, data: bytes) -> None:
        if self.is_closed:
            raise ConnLost("it is closed")
        self.written += data

    async def linger(self) -> None:
        self._end("linger")

    async def reset(self) -> None:
        self._end("reset")

    def close(self) -> None:
        self._end("close")

    def abort(self) -> None:
        self._end("abort")

    def _end(self, ending: str) -> None:
        self.ending = self.ending or ending
