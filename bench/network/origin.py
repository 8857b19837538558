"""The server of the network figures: a program of its own, with nothing of Paddock in it, that
answers fixed bytes as fast as one process can. Plain and TLS, on two ports of loopback.

`/bytes/N` gives so many, `/drip` some every tenth of a second without an end, anything else 1 KiB.
No two answers are equal: each has a number in its head. It prints its two ports and runs until its
input ends.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import sys
import threading
import time

_READ = 1 << 16
_BULK = 1 << 18
_TICK_S = 0.1
_BODY = b"x" * 1024
_HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\nX-Request-Id: %d\r\n"
    b"Content-Length: %d\r\n\r\n"
)
_ENDLESS = _HEAD % (0, 1 << 40)
_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Server:
    """One loop over all connections; a long answer gets a thread of its own."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._answers = 0
        self._poll = select.epoll()
        self._socks: dict[int, socket.socket] = {}
        self._shaking: set[int] = set()
        self._dripping: list[socket.socket] = []
        self._plain, self._secure = _listener(), _listener()
        for listener in (self._plain, self._secure):
            self._poll.register(listener.fileno(), select.EPOLLIN)
        self._poll.register(0, select.EPOLLIN | select.EPOLLHUP)

    @property
    def ports(self) -> tuple[int, int]:
        return self._plain.getsockname()[1], self._secure.getsockname()[1]

    def run(self) -> None:
        next_drip = 0.0
        while True:
            for fd, _ in self._poll.poll(_TICK_S):
                if fd == 0:
                    return
                sock = self._socks.get(fd)
                if sock is not None:
                    self._serve(fd, sock)
                else:
                    self._accept(self._plain if fd == self._plain.fileno() else self._secure)
            if self._dripping and time.monotonic() >= next_drip:
                next_drip = time.monotonic() + _TICK_S
                self._drip()

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if listener is self._secure:
            sock = self._context.wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
            )
            self._shaking.add(sock.fileno())
        self._socks[sock.fileno()] = sock
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _serve(self, fd: int, sock: socket.socket) -> None:
        try:
            if fd in self._shaking:
                assert isinstance(sock, ssl.SSLSocket)
                sock.do_handshake()
                self._shaking.discard(fd)
            data = sock.recv(_READ)
            if data:
                self._answer(fd, sock, data)
                return
        except _WAITS:
            return
        except OSError:
            pass
        self._leave(fd)
        sock.close()

    def _answer(self, fd: int, sock: socket.socket, data: bytes) -> None:
        """The requests of the bench are small and come whole."""
        path = data[: data.index(b"\r\n")].split(b" ")[1]
        if path.startswith(b"/bytes/"):
            self._leave(fd)
            size = int(path[7:])
            threading.Thread(target=_pour, args=(sock, size), daemon=True).start()
        elif path == b"/drip":
            sock.send(_ENDLESS + _BODY)
            self._dripping.append(sock)
        else:
            self._answers += 1
            sock.send(_HEAD % (self._answers, len(_BODY)) + _BODY)

    def _leave(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._shaking.discard(fd)
        del self._socks[fd]

    def _drip(self) -> None:
        for sock in list(self._dripping):
            try:
                sock.send(_BODY)
            except _WAITS:
                pass
            except OSError:
                self._dripping.remove(sock)


def _pour(sock: socket.socket, size: int) -> None:
    block = memoryview(bytes(_BULK))
    with contextlib.suppress(OSError), sock:
        sock.setblocking(True)
        sock.sendall(_HEAD % (0, size))
        while size > 0:
            sock.sendall(block[: min(size, _BULK)])
            size -= _BULK


def _listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=1024)


if __name__ == "__main__":
    ended = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ended.load_cert_chain(sys.argv[1], sys.argv[2])
    server = Server(ended)
    print(*server.ports, flush=True)
    server.run()
