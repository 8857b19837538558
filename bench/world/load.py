"""The load of the world's figures: a program of its own that imports nothing of Paddock, because it
runs inside a sandbox. It verifies certificates like any client, before it begins to count.

It takes one JSON object as its argument and prints one.
"""

from __future__ import annotations

import json
import os
import select
import socket
import ssl
import sys
import time
from typing import Any

_TIMEOUT_S = 60.0
_READ = 1 << 16
_OK = b"HTTP/1.1 200"
_LENGTH = b"\r\ncontent-length:"
_CHUNKED = b"\r\ntransfer-encoding: chunked\r\n"
_LAST = b"\r\n0\r\n\r\n"
_NUMBER = b"@"  # in a path: a number that is another one in each request


class Load:
    """One request, asked again and again on each of some connections, all at once."""

    def __init__(self, words: dict[str, Any]) -> None:
        self._host, self._port = str(words["host"]), int(words["port"])
        self._count, self._seconds = int(words["connections"]), float(words["seconds"])
        self._numbers = int(words.get("numbers", 1))
        self._before, self._mark, self._after = _request(words).partition(_NUMBER)
        self._context = ssl.create_default_context()
        self._partly: dict[int, bytes] = {}
        self._taken: list[float] = []
        self._asked: dict[int, float] = {}

    def run(self) -> dict[str, Any]:
        socks = [self._connect() for _ in range(self._count)]
        for sock in socks:  # what is opened for the first request of a connection is not counted
            sock.sendall(self._next())
            data = _some(sock.recv(_READ))
            while not is_whole(data):
                data += _some(sock.recv(_READ))
        return self._rally({sock.fileno(): sock for sock in socks})

    def _rally(self, socks: dict[int, ssl.SSLSocket]) -> dict[str, Any]:
        began = now = time.perf_counter()
        with select.epoll() as poll:
            for fd, sock in socks.items():
                sock.setblocking(False)
                poll.register(fd, select.EPOLLIN)
                self._ask(sock)
            while (now := time.perf_counter()) - began < self._seconds:
                for fd, _ in poll.poll(1.0):
                    if self._has_answer(socks[fd]):
                        self._ask(socks[fd])
        return _told(self._taken, now - began)

    def _ask(self, sock: ssl.SSLSocket) -> None:
        request = self._next()
        self._asked[sock.fileno()] = time.perf_counter()
        sock.send(request)

    def _has_answer(self, sock: ssl.SSLSocket) -> bool:
        fd = sock.fileno()
        try:
            data = self._partly.pop(fd, b"") + _some(sock.recv(_READ))
        except ssl.SSLWantReadError:
            return False
        if not is_whole(data):
            self._partly[fd] = data
            return False
        self._taken.append(time.perf_counter() - self._asked[fd])
        return True

    def _next(self) -> bytes:
        if not self._mark:
            return self._before
        return b"%b%d%b" % (self._before, len(self._taken) % self._numbers, self._after)

    def _connect(self) -> ssl.SSLSocket:
        sock = socket.create_connection((self._host, self._port), timeout=_TIMEOUT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(sock, server_hostname=self._host)


def is_whole(data: bytes) -> bool:
    """Return whether one answer is there to its end. End the program at one that is no good."""
    if not data.startswith(_OK):
        raise SystemExit(f"not an answer: {data[:500]!r}")
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[: end + 2].lower()
    at = head.find(_LENGTH)
    if at < 0 and _CHUNKED in head:
        return data.endswith(_LAST)  # which no JSON has in it
    if at < 0:
        raise SystemExit(f"an answer without its length: {data[:500]!r}")
    first = at + len(_LENGTH)
    wanted = end + 4 + int(data[first : data.index(b"\r", first)])
    if len(data) > wanted:
        raise SystemExit("more came than was asked for")
    return len(data) == wanted


def _request(words: dict[str, Any]) -> bytes:
    body = str(words.get("body", "")).encode()
    headers = {"Host": words["host"], "Accept": "*/*", "User-Agent": "bench/1", **words["headers"]}
    if body:
        headers["Content-Length"] = str(len(body))
    lines = [f"{words['method']} {words['path']} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _some(data: bytes) -> bytes:
    if not data:
        raise SystemExit("the connection ended")
    return data


def _told(taken: list[float], seconds: float) -> dict[str, Any]:
    ordered = sorted(taken)
    if not ordered:
        raise SystemExit("not one answer came")
    return {
        "requests": len(ordered),
        "rate": len(ordered) / seconds,
        "p50_s": ordered[len(ordered) // 2],
        "p99_s": ordered[len(ordered) * 99 // 100],
    }


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given.get("core") is not None:
        os.sched_setaffinity(0, {given["core"]})
    print(json.dumps(Load(given).run()), flush=True)
