"""A minimal client of the server: simple queries, one after the other. The thread waits."""

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
    """A session as `user` in `database`, over the socket in `directory`."""

    def __init__(self, directory: Path, database: str = "postgres", user: str = ADMIN) -> None:
        self._socket = dial(directory)
        self._file = self._socket.makefile("rb")
        parameters = {"user": user, "database": database, "client_encoding": "UTF8"}
        try:
            self._socket.sendall(wire.startup_message(parameters))
            self._read_result()
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
        """Return the rows of the last statement. Raises QueryFailed."""
        self._socket.sendall(wire.message(b"Q", sql.encode() + b"\0"))
        return self._read_result()

    def _read_result(self) -> Rows:
        """Read up to ReadyForQuery."""
        rows: Rows = []
        error = None
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
                    error = error or wire.error_text(body)
                    if b"VFATAL" in body:  # the server closes the connection
                        raise QueryFailed(error)
                case b"Z":
                    if error is not None:
                        raise QueryFailed(error)
                    return rows

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
    """Connect to the server; without a timeout it never waits. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_s)
        with short_name(directory) as short:
            connection.connect(os.path.join(short, SOCKET))
    except BaseException:
        connection.close()
        raise
    return connection


def name(text: str) -> str:
    """Quote an identifier."""
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
