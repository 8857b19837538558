"""The messages of PostgreSQL's protocol that the proxy and the session need. No I/O."""

from __future__ import annotations

import struct

import msgspec

MAX_STARTUP = 10_000  # the same as the server's
SSL, GSS, CANCEL = 80877103, 80877104, 80877102
_VERSION_3 = 3
_REPLACED = ("user", "database", "replication")  # the client cannot choose these


class BadMessage(Exception):
    """Bytes that are no message of the protocol."""


class Startup(msgspec.Struct, frozen=True):
    """A startup message: a code and its parameters."""

    code: int
    body: bytes

    @property
    def is_session(self) -> bool:
        return self.code >> 16 == _VERSION_3


def parse_startup(body: bytes) -> Startup:
    if len(body) < 4:
        raise BadMessage("too short")
    return Startup(struct.unpack("!I", body[:4])[0], body[4:])


def startup_length(head: bytes) -> int:
    """Return the length of the rest of a startup message."""
    length = struct.unpack("!I", head)[0] - 4
    if not 4 <= length <= MAX_STARTUP:
        raise BadMessage("no length that a beginning has")
    return int(length)


def rewrite_startup(startup: Startup, user: str, database: str) -> bytes:
    """Return the startup message for another user and database."""
    parts = startup.body.split(b"\0")
    if len(parts) < 2 or parts[-2:] != [b"", b""]:
        raise BadMessage("its parameters do not end")
    names, values = parts[:-2:2], parts[1:-2:2]
    if len(names) != len(values):
        raise BadMessage("a parameter has no value")
    others = [
        (name, value)
        for name, value in zip(names, values, strict=True)
        if name.decode("latin-1").lower() not in _REPLACED
    ]
    return startup_message({"user": user, "database": database}, startup.code, others)


def startup_message(
    parameters: dict[str, str],
    code: int = _VERSION_3 << 16,
    more: list[tuple[bytes, bytes]] | None = None,
) -> bytes:
    pairs = [(name.encode(), value.encode()) for name, value in parameters.items()] + (more or [])
    body = b"".join(name + b"\0" + value + b"\0" for name, value in pairs) + b"\0"
    return packet(struct.pack("!I", code) + body)


def packet(body: bytes) -> bytes:
    """Return a message without a type, such as the startup message."""
    return struct.pack("!I", len(body) + 4) + body


def message(kind: bytes, body: bytes) -> bytes:
    return kind + packet(body)


def error(code: str, text: str) -> bytes:
    fields = (b"SFATAL", b"VFATAL", b"C" + code.encode(), b"M" + text.encode())
    return message(b"E", b"\0".join(fields) + b"\0\0")


def error_text(body: bytes) -> str:
    """Return the text of an ErrorResponse."""
    fields = {part[:1]: part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}
    return fields.get(b"M", "it failed")


def row(body: bytes) -> list[str | None]:
    """Return the values of a DataRow, as text."""
    (count,) = struct.unpack("!H", body[:2])
    values: list[str | None] = []
    position = 2
    for _ in range(count):
        (length,) = struct.unpack("!i", body[position : position + 4])
        position += 4
        if length < 0:
            values.append(None)
            continue
        values.append(body[position : position + length].decode("utf-8", "replace"))
        position += length
    return values
