"""The few messages of PostgreSQL's protocol that are read or written here. No I/O."""

from __future__ import annotations

import struct

import msgspec

MAX_STARTUP = 10_000  # as the server has it
SSL, GSS, CANCEL = 80877103, 80877104, 80877102
_VERSION_3 = 3
_OURS = ("user", "database", "replication")  # never the client's choice


class BadMessage(Exception):
    """What came is no message of the protocol."""


class Startup(msgspec.Struct, frozen=True):
    """How a client begins: a code, and what is set."""

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
    """Of what follows the four bytes that say so."""
    length = struct.unpack("!I", head)[0] - 4
    if not 4 <= length <= MAX_STARTUP:
        raise BadMessage("no length that a beginning has")
    return int(length)


def rewritten(startup: Startup, user: str, database: str) -> bytes:
    """The same beginning for another user and database; any password will do later."""
    words = startup.body.split(b"\0")
    if len(words) < 2 or words[-2:] != [b"", b""]:
        raise BadMessage("its parameters do not end")
    names, values = words[:-2:2], words[1:-2:2]
    if len(names) != len(values):
        raise BadMessage("a parameter has no value")
    kept = [
        (name, value)
        for name, value in zip(names, values, strict=True)
        if name.decode("latin-1").lower() not in _OURS
    ]
    return startup_message({"user": user, "database": database}, startup.code, kept)


def startup_message(
    words: dict[str, str],
    code: int = _VERSION_3 << 16,
    more: list[tuple[bytes, bytes]] | None = None,
) -> bytes:
    pairs = [(name.encode(), value.encode()) for name, value in words.items()] + (more or [])
    body = b"".join(name + b"\0" + value + b"\0" for name, value in pairs) + b"\0"
    return packet(struct.pack("!I", code) + body)


def packet(body: bytes) -> bytes:
    """A message without a type, as the first ones are."""
    return struct.pack("!I", len(body) + 4) + body


def message(kind: bytes, body: bytes) -> bytes:
    return kind + packet(body)


def error(code: str, text: str) -> bytes:
    fields = (b"SFATAL", b"VFATAL", b"C" + code.encode(), b"M" + text.encode())
    return message(b"E", b"\0".join(fields) + b"\0\0")


def error_text(body: bytes) -> str:
    """What an ErrorResponse says."""
    fields = {part[:1]: part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}
    return fields.get(b"M", "it failed")


def row(body: bytes) -> list[str | None]:
    """The values of a DataRow, as text."""
    (count,) = struct.unpack("!H", body[:2])
    values: list[str | None] = []
    at = 2
    for _ in range(count):
        (length,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        values.append(None if length < 0 else body[at : at + length].decode("utf-8", "replace"))
        at += max(length, 0)
    return values
