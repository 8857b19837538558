"""Frames between host and guest: pure bytes in, frames out. No I/O lives here.

A frame is a 4-byte length, a kind, a port, a 4-byte stream number, then the payload. Control
payloads are MessagePack (the part of it that has nil, bool, int, float, str, bin, array, map),
written here because both ends must start in milliseconds and one of them may import nothing.
Each end treats the other as hostile: lengths are checked before bytes are kept.
"""

import _struct

OPEN = 1  # host: begin an operation on a new stream (map)
DATA = 2  # both: raw bytes on a port; spends credit
EOF = 3  # both: no more data on that port
CREDIT = 4  # both: u32, so many more data bytes may be sent on this stream
CALL = 5  # host: a request within an open stream (map)
EVENT = 6  # guest: something happened on this stream (map)
END = 7  # guest: the stream is over (map: result or error)
CLOSE = 8  # host: forget this stream

HEADER = _struct.Struct(">IBBI")
HEADER_BYTES = 10
U32 = _struct.Struct(">I")
MAX_PAYLOAD = 4 << 20  # a control map with a 2 MiB argv (the kernel's own ceiling) still fits
MAX_DEPTH = 16
MAX_ITEMS = 500_000  # a small frame of empty items would become a hundred times its size
CHUNK = 256 << 10  # one data frame; large enough that per-frame cost vanishes
WINDOW = 2 << 20  # data bytes that may be under way on one stream without credit


class WireError(Exception):
    """The other end sent something that is not the protocol."""


def header(kind, stream, payload, port=0):
    """Return what goes before the payload."""
    if len(payload) > MAX_PAYLOAD:
        raise WireError(f"frame of {len(payload)} bytes is over the limit of {MAX_PAYLOAD}")
    return HEADER.pack(len(payload), kind, port, stream)


class FrameDecoder:
    """Collects bytes and hands out whole frames as (kind, port, stream, payload)."""

    def __init__(self):
        self._buffer = bytearray()

    def feed(self, data):
        """Return all frames that are whole after `data`; raise WireError on an impossible one."""
        buffer = self._buffer
        buffer += data
        frames = []
        at = 0
        end = len(buffer)
        view = memoryview(buffer)
        try:
            while end - at >= HEADER_BYTES:
                size, kind, port, stream = HEADER.unpack_from(view, at)
                if size > MAX_PAYLOAD or not OPEN <= kind <= CLOSE:
                    raise WireError(f"bad frame: kind {kind}, {size} bytes")
                begin = at + HEADER_BYTES
                if end - begin < size:
                    break
                frames.append((kind, port, stream, bytes(view[begin : begin + size])))
                at = begin + size
        finally:
            view.release()
        if at:
            del buffer[:at]
        return frames

    def take_partial(self, least):
        """A frame of at least `least` bytes that is under way, as (kind, port, stream, payload,
        filled): whoever reads on may put the rest straight into the payload."""
        if len(self._buffer) < HEADER_BYTES:
            return None
        size, kind, port, stream = HEADER.unpack_from(self._buffer)
        if size < least:
            return None
        payload = bytearray(size)
        filled = len(self._buffer) - HEADER_BYTES
        payload[:filled] = memoryview(self._buffer)[HEADER_BYTES:]
        self._buffer = bytearray()
        return kind, port, stream, payload, filled


def pack(value):
    """Return a value as MessagePack."""
    out = []
    _pack(value, out, 0)
    return b"".join(out)


def unpack(data):
    """Return the one value in `data`; raise WireError if it is malformed or has a tail."""
    try:
        value, at = _unpack(data, 0, 0, [MAX_ITEMS])
    except (IndexError, _struct.error, UnicodeDecodeError, TypeError) as error:
        raise WireError(f"malformed message: {error}") from None
    if at != len(data):
        raise WireError(f"malformed message: {len(data) - at} bytes too many")
    return value


def unpack_map(data):
    """Return the map in `data`; anything else is a WireError."""
    value = unpack(data)
    if type(value) is not dict:
        raise WireError("malformed message: not a map")
    return value


def _pack(value, out, depth):
    if depth > MAX_DEPTH:
        raise WireError("message is nested too deeply")
    kind = type(value)
    if value is None:
        out.append(b"\xc0")
    elif kind is bool:
        out.append(b"\xc3" if value else b"\xc2")
    elif kind is int:
        _pack_int(value, out)
    elif kind is float:
        out.append(_struct.pack(">Bd", 0xCB, value))
    elif kind is str:
        # surrogateescape: file names and argv are bytes, and must survive the trip.
        raw = value.encode("utf-8", "surrogateescape")
        out.append(_head(raw, 0xA0, 32, 0xD9))
        out.append(raw)
    elif kind is bytes:
        out.append(_head(value, None, 0, 0xC4))
        out.append(value)
    elif kind is list or kind is tuple:
        out.append(_count(len(value), 0x90, 0xDC))
        for item in value:
            _pack(item, out, depth + 1)
    elif kind is dict:
        out.append(_count(len(value), 0x80, 0xDE))
        for key, item in value.items():
            _pack(key, out, depth + 1)
            _pack(item, out, depth + 1)
    else:
        raise WireError(f"cannot send a {kind.__name__}")


def _pack_int(value, out):
    if 0 <= value < 128:
        out.append(bytes((value,)))
    elif -(1 << 63) <= value < 1 << 63:
        out.append(_struct.pack(">Bq", 0xD3, value))
    elif 0 <= value < 1 << 64:
        out.append(_struct.pack(">BQ", 0xCF, value))
    else:
        raise WireError("integer out of range")


def _head(raw, fix, fix_limit, base):
    size = len(raw)
    if size < fix_limit:
        return bytes((fix | size,))
    if size < 256:
        return bytes((base, size))
    if size < 65536:
        return _struct.pack(">BH", base + 1, size)
    return _struct.pack(">BI", base + 2, size)


def _count(size, fix, base):
    if size < 16:
        return bytes((fix | size,))
    if size < 65536:
        return _struct.pack(">BH", base, size)
    return _struct.pack(">BI", base + 1, size)


def _unpack(data, at, depth, left):
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0:
        raise WireError("message is nested too deeply or has too many items")
    tag = data[at]
    at += 1
    if tag < 0x80:
        return tag, at
    if tag < 0x90:
        return _unpack_map(data, at, tag & 15, depth, left)
    if tag < 0xA0:
        return _unpack_list(data, at, tag & 15, depth, left)
    if tag < 0xC0:
        return _text(data, at, tag & 31)
    if tag in _SIMPLE:
        return _SIMPLE[tag], at
    if tag in _SCALARS:
        scalar = _SCALARS[tag]
        return scalar.unpack_from(data, at)[0], at + scalar.size
    if tag in _SIZED:
        size_of, then = _SIZED[tag]
        count = size_of.unpack_from(data, at)[0]
        return _SIZED_READERS[then](data, at + size_of.size, count, depth, left)
    raise WireError(f"unknown tag 0x{tag:02x}")


def _text(data, at, size, depth=0, left=None):
    return str(_slice(data, at, size), "utf-8", "surrogateescape"), at + size


def _bytes(data, at, size, depth=0, left=None):
    return bytes(_slice(data, at, size)), at + size


def _slice(data, at, size):
    if at + size > len(data):
        raise WireError("malformed message: cut short")
    return data[at : at + size]


def _unpack_list(data, at, size, depth, left):
    items = []
    for _ in range(size):  # a false count fails on the first missing item: nothing is reserved
        item, at = _unpack(data, at, depth + 1, left)
        items.append(item)
    return items, at


def _unpack_map(data, at, size, depth, left):
    items = {}
    for _ in range(size):
        key, at = _unpack(data, at, depth + 1, left)
        items[key], at = _unpack(data, at, depth + 1, left)
    return items, at


_SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
_SCALARS = {
    0xCB: _struct.Struct(">d"),
    0xCC: _struct.Struct(">B"),
    0xCD: _struct.Struct(">H"),
    0xCE: U32,
    0xCF: _struct.Struct(">Q"),
    0xD0: _struct.Struct(">b"),
    0xD1: _struct.Struct(">h"),
    0xD2: _struct.Struct(">i"),
    0xD3: _struct.Struct(">q"),
}
_B, _H = _struct.Struct(">B"), _struct.Struct(">H")
_SIZED = {
    0xC4: (_B, 0), 0xC5: (_H, 0), 0xC6: (U32, 0),
    0xD9: (_B, 1), 0xDA: (_H, 1), 0xDB: (U32, 1),
    0xDC: (_H, 2), 0xDD: (U32, 2),
    0xDE: (_H, 3), 0xDF: (U32, 3),
}  # fmt: skip
_SIZED_READERS = (_bytes, _text, _unpack_list, _unpack_map)
