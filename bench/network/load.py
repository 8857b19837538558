"""The load of the network figures: a program of its own that imports nothing of Paddock, because it
also runs inside a sandbox. The same program asks directly, through a peer and through the door.

It takes one JSON object as its argument and prints one. It does not verify certificates: that is a
client's work, and would count for every way alike.
"""

from __future__ import annotations

import contextlib
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
_BULK = 1 << 20
_OK = b"HTTP/1.1 200"
_NUMBER = b"@"  # in a path: a number that is another one in each request


class Way:
    """The way to the origin: the name that is asked for, over TLS or not, by a proxy or not."""

    def __init__(self, words: dict[str, Any]) -> None:
        self.host, self.port = str(words["host"]), int(words["port"])
        self.is_tls = bool(words.get("tls"))
        self._proxy = words.get("proxy")
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def request(self, path: str) -> bytes:
        is_absolute = self._proxy is not None and not self.is_tls
        target = f"http://{self.host}:{self.port}{path}" if is_absolute else path
        lines = (f"GET {target} HTTP/1.1", f"Host: {self.host}:{self.port}", "Accept: */*",
                 "User-Agent: bench/1")  # fmt: skip
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def connect(self) -> socket.socket:
        """A connection on which requests can be sent, still one that blocks."""
        place = tuple(self._proxy) if self._proxy else (self.host, self.port)
        sock = socket.create_connection(place, timeout=_TIMEOUT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.is_tls:
            return sock
        if self._proxy:
            self._tunnel(sock)
        return self._context.wrap_socket(sock, server_hostname=self.host)

    def _tunnel(self, sock: socket.socket) -> None:
        place = f"{self.host}:{self.port}"
        sock.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += _some(sock.recv(_READ), head)
        if not head.startswith(_OK):
            raise SystemExit(f"no tunnel: {head[:200]!r}")


def kept(way: Way, words: dict[str, Any]) -> dict[str, Any]:
    """Send requests one after the other on each of some connections, all at once."""
    request, size = way.request(words["path"]), int(words["size"])
    socks = [way.connect() for _ in range(words["connections"])]
    for sock in socks:  # what is opened for the first request of a connection is not counted
        sock.sendall(request)
    poll = select.epoll()
    for sock in socks:
        _whole_answer(sock, size)
        sock.setblocking(False)
        poll.register(sock.fileno(), select.EPOLLIN)
    return _rally({sock.fileno(): sock for sock in socks}, poll, request, words)


def _rally(
    socks: dict[int, socket.socket], poll: select.epoll, request: bytes, words: dict[str, Any]
) -> dict[str, Any]:
    size, taken = int(words["size"]), []
    asked: dict[int, float] = {}
    partly: dict[int, bytes] = {}
    before, _, after = request.partition(_NUMBER)
    clock = time.perf_counter
    began = clock()
    end = began + float(words["seconds"])
    for fd, sock in socks.items():
        asked[fd] = clock()
        sock.send(request)
    while (now := clock()) < end:
        for fd, _ in poll.poll(1.0):
            sock = socks[fd]
            try:
                data = sock.recv(_READ)
            except (BlockingIOError, ssl.SSLWantReadError):
                continue
            data = partly.pop(fd, b"") + _some(data, b"")
            if not _is_whole(data, size):
                partly[fd] = data
                continue
            now = clock()
            taken.append(now - asked[fd])
            asked[fd] = now
            sock.send(b"%b%d%b" % (before, len(taken), after))
    return _told(taken, now - began)


def _whole_answer(sock: socket.socket, size: int) -> None:
    data = sock.recv(_READ)
    while not _is_whole(data, size):
        data += _some(sock.recv(_READ), data)


def _is_whole(data: bytes, size: int) -> bool:
    if not data.startswith(_OK):
        raise SystemExit(f"not an answer: {data[:300]!r}")
    head = data.find(b"\r\n\r\n")
    if len(data) > head + 4 + size:
        raise SystemExit("more came than was asked for")
    return head >= 0 and len(data) == head + 4 + size


def fresh(way: Way, words: dict[str, Any]) -> dict[str, Any]:
    """A new connection for each request, from some processes at once."""
    readers = []
    for _ in range(words["processes"]):
        reader, writer = os.pipe()
        if os.fork() == 0:
            code = 1
            try:
                os.write(writer, json.dumps(_one_by_one(way, words)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        readers.append(reader)
    told = [json.loads(_all_of(reader) or b"null") for reader in readers]
    if None in told:
        raise SystemExit("a part of the load failed")
    return {
        "requests": sum(one["requests"] for one in told),
        "rate": sum(one["rate"] for one in told),
        "p50_s": sorted(one["p50_s"] for one in told)[len(told) // 2],
    }


def _one_by_one(way: Way, words: dict[str, Any]) -> dict[str, Any]:
    request, size, taken = way.request(words["path"]), int(words["size"]), []
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < words["seconds"]:
        with way.connect() as sock:
            sock.sendall(request)
            _whole_answer(sock, size)
        taken.append(time.perf_counter() - now)
    return _told(taken, time.perf_counter() - began)


def download(way: Way, words: dict[str, Any]) -> dict[str, Any]:
    """One long answer, counted and thrown away."""
    size, buffer = int(words["size"]), bytearray(_BULK)
    with way.connect() as sock:
        began = time.perf_counter()
        sock.sendall(way.request(words["path"]))
        head = b""
        while b"\r\n\r\n" not in head:
            head += _some(sock.recv(_READ), head)
        if not head.startswith(_OK):
            raise SystemExit(f"not an answer: {head[:300]!r}")
        got = len(head) - head.find(b"\r\n\r\n") - 4
        while got < size:
            count = sock.recv_into(buffer)
            if not count:
                raise SystemExit(f"the answer ended after {got} of {size} bytes")
            got += count
        return {"seconds": time.perf_counter() - began, "bytes": got}


def hold(way: Way, words: dict[str, Any]) -> dict[str, Any]:
    """Opens connections, says so, and holds them until its input ends. Each has had an answer, or
    is in the middle of one that does not end and reads what comes of it."""
    socks = []
    for _ in range(words["connections"]):
        sock = way.connect()
        sock.sendall(way.request(words["path"]))
        data = sock.recv(_READ)
        if not data.startswith(_OK):
            raise SystemExit(f"not an answer: {data[:300]!r}")
        socks.append(sock)
    print(json.dumps({"open": len(socks)}), flush=True)
    for sock in socks:
        sock.setblocking(False)
    end = time.monotonic() + words["seconds"]
    while time.monotonic() < end and not select.select([0], [], [], 0.05)[0]:
        for sock in socks if words["is_reading"] else ():
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                _some(sock.recv(_READ), b"stream")
    return {"open": len(socks)}


def _some(data: bytes, before: bytes) -> bytes:
    if not data:
        raise SystemExit(f"the connection ended after {before[:300]!r}")
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
        "cpu_s": time.process_time(),
    }


def _all_of(reader: int) -> bytes:
    with open(reader, "rb") as file:
        return file.read()


WORK = {"kept": kept, "fresh": fresh, "download": download, "hold": hold}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(WORK[given["work"]](Way(given["way"]), given)), flush=True)
