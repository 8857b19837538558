"""A session of our own with the server: plain queries, one after the other, from a thread that may
wait. No library is needed for that."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import Self

from paddock.world.pen.sockets import short_name
from paddock.world.service import StandInFailed
from paddock_services.postgres import wire

SOCKET = ".s.PGSQL.5432"
ADMIN = "paddock"
_TIMEOUT_S = 60.0
_MAX_MESSAGE = 64 << 20
_MAX_ANSWER = 256 << 20
Rows = list[list[str | None]]


class QueryFailed(StandInFailed):
    """The server refused a statement."""


class Session:
    """As `user` in `database`, over the socket in `directory`."""

    def __init__(self, directory: Path, database: str = "postgres", user: str = ADMIN) -> None:
        self._socket = dial(directory)
        self._file = self._socket.makefile("rb")
        words = {"user": user, "database": database, "client_encoding": "UTF8"}
        try:
            self._socket.sendall(wire.startup_message(words))
            self._take()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(wire.message(b"X", b""))
        self._file.close()
        self._socket.close()

    def run(self, sql: str) -> Rows:
        """The rows of the last statement. Raises QueryFailed."""
        self._socket.sendall(wire.message(b"Q", sql.encode() + b"\0"))
        return self._take()

    def _take(self) -> Rows:
        """Everything up to the server's word that it is ready."""
        rows: Rows = []
        failed = None
        size = 0
        while True:
            kind, body = self._message()
            size += len(body)
            if size > _MAX_ANSWER:
                raise StandInFailed("the database answered more than can be looked at")
            match kind:
                case b"D":
                    rows.append(wire.row(body))
                case b"T":
                    rows = []
                case b"E":
                    failed = failed or wire.error_text(body)
                    if not self._is_going_on(body):
                        raise QueryFailed(failed)
                case b"Z":
                    if failed is not None:
                        raise QueryFailed(failed)
                    return rows

    def _is_going_on(self, body: bytes) -> bool:
        return b"VFATAL" not in body

    def _message(self) -> tuple[bytes, bytes]:
        try:
            head = self._file.read(5)
            if len(head) < 5:
                raise QueryFailed("the database ended the session")
            length = struct.unpack("!I", head[1:])[0] - 4
            if not 0 <= length <= _MAX_MESSAGE:
                raise StandInFailed("the database answered with a message without end")
            return head[:1], self._file.read(length)
        except TimeoutError:
            raise StandInFailed("the database did not answer in time") from None


def dial(directory: Path, timeout_s: float = _TIMEOUT_S) -> socket.socket:
    """A connection to the server, which never waits when there is no time. Raises OSError."""
    caller = socket.socket(socket.AF_UNIX)
    try:
        caller.settimeout(timeout_s)
        with short_name(directory) as short:
            caller.connect(os.path.join(short, SOCKET))
    except BaseException:
        caller.close()
        raise
    return caller


def name(text: str) -> str:
    """An identifier, quoted."""
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
