"""Servers on the host's loopback that believe whatever they are told. No test lives here."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"(?im)^content-length:\s*(\d+)")
_HOST = re.compile(rb"(?im)^host:\s*(\S*)")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as a careless server understood it."""

    line: str
    host: str
    head: bytes
    body: bytes

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]


Answer = Callable[[Asked], bytes]


@dataclass
class Origin:
    """What a server heard: its requests, and every byte."""

    place: str
    answer: Answer = lambda asked: OK
    asked: list[Asked] = field(default_factory=list)
    heard: bytearray = field(default_factory=bytearray)

    def clear(self) -> None:
        self.asked.clear()
        self.heard.clear()

    @property
    def targets(self) -> list[str]:
        return [one.target for one in self.asked]


@contextmanager
def careless(context: ssl.SSLContext | None = None) -> Iterator[Origin]:
    """Takes bare line feeds, any spelling of `chunked`, several lengths, requests in a row."""
    with _accepting(context) as (origin, serve):
        serve(lambda sock: _answer_all(origin, sock))
        yield origin


@contextmanager
def scripted(speak: Callable[[socket.socket], None]) -> Iterator[Origin]:
    """Does with each connection what `speak` does."""
    with _accepting(None) as (origin, serve):
        serve(speak)
        yield origin


@contextmanager
def _accepting(
    context: ssl.SSLContext | None,
) -> Iterator[tuple[Origin, Callable[[Callable[[socket.socket], None]], None]]]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    origin = Origin(f"127.0.0.1:{listener.getsockname()[1]}")

    def serve(speak: Callable[[socket.socket], None]) -> None:
        threading.Thread(target=_accept, args=(listener, context, speak), daemon=True).start()

    try:
        yield origin, serve
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(
    listener: socket.socket,
    context: ssl.SSLContext | None,
    speak: Callable[[socket.socket], None],
) -> None:
    def one(sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            sock.settimeout(60)
            with context.wrap_socket(sock, server_side=True) if context else sock as spoken:
                speak(spoken)

    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=one, args=(sock,), daemon=True).start()


def _answer_all(origin: Origin, sock: socket.socket) -> None:
    data = b""
    while True:
        while (found := _HEAD_END.search(data)) is None:
            more = sock.recv(65536)
            if not more:
                return
            origin.heard += more
            data += more
        head, data = data[: found.start()], data[found.end() :]
        body, data = _body(origin, sock, head, data)
        line, host = head.split(b"\n")[0].strip().decode("latin-1"), _HOST.search(head)
        asked = Asked(line, host[1].decode("latin-1") if host else "", head, body)
        origin.asked.append(asked)
        answer = origin.answer(asked)
        sock.sendall(answer)
        if answer.startswith(b"HTTP/1.0") or b"\nConnection: close" in answer:
            return


def _body(origin: Origin, sock: socket.socket, head: bytes, data: bytes) -> tuple[bytes, bytes]:
    def more() -> bytes:
        got = sock.recv(65536)
        origin.heard.extend(got)
        if not got:
            raise OSError("it ended in a body")
        return got

    if b"chunked" in head.lower():
        while b"0\r\n" not in data or b"\r\n\r\n" not in data[data.rindex(b"0\r\n") :]:
            data += more()
        body, _, rest = data.partition(b"\r\n\r\n")
        return body, rest
    length = _LENGTH.search(head)
    size = int(length[1]) if length else 0
    while len(data) < size:
        data += more()
    return data[:size], data[size:]
