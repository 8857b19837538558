"""Counts and measures the frames of an HTTP/2 peer before the protocol library holds any of them.

The library waits for a whole frame before it looks at its length, keeps no count of frames that
cost work and move nothing, and ends a connection at the first GOAWAY although streams go on.
"""

from __future__ import annotations

import asyncio

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES = 64 << 10
MAX_HEAD_BYTES = 64 << 10
_MAX_SETTINGS_BYTES = 6 * 32  # a frame with more settings than exist fills memory
_MAX_IDLE_FRAMES = 1000  # a minute, beyond what goes with real traffic
_FRAMES_PER_USEFUL = 4  # pings and window updates that one frame of content excuses
_MINUTE_S = 60.0
_HEADER_BYTES = 9

_DATA, _HEADERS, _SETTINGS, _PUSH, _GOAWAY, _CONTINUATION = 0, 1, 4, 5, 7, 9
_END_STREAM, _END_HEADERS = 0x1, 0x4


class Flood(Exception):
    """The peer sends more of something than anyone needs."""


class FrameMeter:
    """Passes bytes on unless they are too much; keeps GOAWAY frames for itself."""

    __slots__ = (
        "_debt",
        "_head_bytes",
        "_held",
        "_is_hidden",
        "_left",
        "_notice",
        "_preface_left",
        "_time",
        "_until",
        "last_stream_id",
    )

    def __init__(self, *, is_server: bool) -> None:
        self._time = asyncio.get_running_loop().time
        self._preface_left = len(PREFACE) if is_server else 0
        self._held = b""  # the start of a frame's header
        self._left = 0  # of the frame that is being passed on
        self._head_bytes: int | None = None  # of a block of headers that has not ended
        self._is_hidden = False
        self._notice = b""
        self._debt = 0
        self._until = self._time() + _MINUTE_S
        self.last_stream_id: int | None = None  # after a GOAWAY: the last that the peer answers

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that the library is to see. Raises Flood."""
        if self._held:
            data, self._held = self._held + data, b""
        at, start, end = self._skip_preface(data), 0, len(data)
        passed: list[bytes] = []
        while at < end:
            if not self._left and not self._is_hidden:
                if end - at < _HEADER_BYTES:
                    self._held, end = data[at:], at
                    break
                if self._enter(data, at):
                    passed.append(data[start:at])
                at += _HEADER_BYTES
            step = min(self._left, end - at)
            if self._is_hidden:
                self._notice = (self._notice + data[at : at + step])[:8]
                start = at + step
            at += step
            self._left -= step
            if self._is_hidden and not self._left:
                self._read_notice()
        if not passed and end == len(data) and not start:
            return data
        passed.append(data[start:end])
        return b"".join(passed)

    def excuse(self, frames: int = 1) -> None:
        """Content has moved: so many frames that move nothing are fair."""
        self._debt = max(0, self._debt - frames * _FRAMES_PER_USEFUL)

    def _skip_preface(self, data: bytes) -> int:
        step = min(self._preface_left, len(data))
        self._preface_left -= step
        return step

    def _enter(self, data: bytes, at: int) -> bool:
        """Looks at a frame's header; whether the frame is hidden from the library."""
        length = int.from_bytes(data[at : at + 3], "big")
        kind, flags = data[at + 3], data[at + 4]
        if length > MAX_FRAME_BYTES:
            raise Flood(f"a frame of {length} bytes")
        self._left = length
        if self._head_bytes is not None or kind in (_HEADERS, _PUSH, _CONTINUATION):
            self._measure_head(length, flags)
        elif kind == _DATA and (length or flags & _END_STREAM):
            self.excuse()
        elif kind == _GOAWAY and length >= 8 and not any(data[at + 5 : at + 9]):
            self._is_hidden = True
        else:
            self._count(kind, length)
        return self._is_hidden

    def _measure_head(self, length: int, flags: int) -> None:
        self._head_bytes = (self._head_bytes or 0) + length
        if self._head_bytes > MAX_HEAD_BYTES:
            raise Flood("headers of more than 64 KiB")
        if flags & _END_HEADERS:
            self._head_bytes = None

    def _count(self, kind: int, length: int) -> None:
        if kind == _SETTINGS and length > _MAX_SETTINGS_BYTES:
            raise Flood("more settings than there are")
        self._debt += 1
        if self._debt > _MAX_IDLE_FRAMES:
            now = self._time()
            if now < self._until:
                raise Flood(f"more than {_MAX_IDLE_FRAMES} frames a minute that move nothing")
            self._until = now + _MINUTE_S
            self._debt = 1

    def _read_notice(self) -> None:
        self._is_hidden = False
        last = int.from_bytes(self._notice[:4], "big") & 0x7FFFFFFF
        self._notice = b""
        self.last_stream_id = min(last, self.last_stream_id or last)
