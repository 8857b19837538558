"""Clients and servers that are slow, silent or rude, and a door that breaks.

Memory stays bounded, the right error comes, others are served meanwhile, and nothing opens.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from paddock import Sandbox
from paddock.doors.network import door as network_door
from paddock.doors.network.bodies.capture import MAX_ANSWER, MAX_LONG
from paddock.doors.network.connection import InboundConnection
from paddock.doors.network.context import DoorContext
from paddock.doors.network.door import MAX_CONNECTIONS, DoorOptions
from paddock.doors.network.names.dns import DnsAnswerer
from paddock.doors.network.upstream.live import LiveUpstream
from security.attack import background, eventually, memory_bytes, probe
from security.network.conftest import Hosts
from security.network.inside import get, say, status
from security.network.origins import Origin, scripted

MIB = 1 << 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def _network(**origins: Origin) -> dict[str, object]:
    return {
        "allow": [f"{name}.example:80" for name in origins],
        "hosts": {f"{name}.example": origin.place for name, origin in origins.items()},
    }


def _ask(box: Sandbox, name: str = "api", path: str = "/") -> bytes:
    return say(box, host=f"{name}.example", port=80, data=get(path, f"{name}.example"), wait=30)


def _heard_head(sock: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(4096)
        if not more:
            raise OSError("no request")
        data += more


class _Trickle:
    """Streams that say a word when all of them are there, and end when they are told to."""

    def __init__(self) -> None:
        self.count = 0
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, sock: socket.socket) -> None:
        _heard_head(sock)
        sock.sendall(HEAD + b"data: 1\n\n")
        with self._lock:
            self.count += 1
        self.go_on.wait(60)
        sock.sendall(b"data: 2\n\n")


def test_two_hundred_slow_streams_do_not_keep_others_waiting(hosts: Hosts) -> None:
    slow = _Trickle()
    program = """
    import socket
    socks = []
    for number in range(200):
        sock = socket.create_connection(("slow.example", 80), 60)
        sock.sendall(b"GET / HTTP/1.1\\r\\nHost: slow.example\\r\\n\\r\\n")
        socks.append(sock)
    parts = [b""] * 200
    for number, sock in enumerate(socks):
        while b"data: 1" not in parts[number]:
            parts[number] += sock.recv(4096)
    print("all began", flush=True)
    for number, sock in enumerate(socks):
        while more := sock.recv(4096):
            parts[number] += more
            if parts[number].endswith(b"0\\r\\n\\r\\n"):
                break
    print(sum(b"data: 2" in part for part in parts), "ended", flush=True)
    """
    with (
        scripted(slow) as origin,
        Sandbox.create(network=_network(api=hosts.api, slow=origin)) as box,
    ):
        assert status(_ask(box)) == 200
        before = memory_bytes()
        handle = background(box, program)
        assert slow.count == 200  # a word of each arrived, and none was held back
        assert status(_ask(box)) == 200
        # The other end of each stream is a thread of this process, with a stack of its own.
        assert memory_bytes() - before < 100 * MIB
        slow.go_on.set()
        assert "200 ended" in handle.wait().stdout


def _flood(sock: socket.socket) -> None:
    _heard_head(sock)
    sock.sendall(HEAD)
    with suppress(OSError):
        while True:
            sock.sendall(bytes(65536))


def test_a_client_that_never_reads_holds_no_more_than_buffers_and_what_is_recorded(
    hosts: Hosts,
) -> None:
    program = """
    import socket
    socks = []
    for number in range(40):
        sock = socket.create_connection(("flood.example", 80), 60)
        sock.sendall(b"GET / HTTP/1.1\\r\\nHost: flood.example\\r\\n\\r\\n")
        socks.append(sock)
    print("asked", flush=True)
    time.sleep(3)
    print("waited", flush=True)
    time.sleep(60)
    """
    with (
        scripted(_flood) as origin,
        Sandbox.create(network=_network(api=hosts.api, flood=origin)) as box,
    ):
        assert status(_ask(box)) == 200
        before = memory_bytes()
        handle = background(box, program)
        eventually(lambda: "waited" in handle.stdout)
        # Of a few answers at once all is held until it is in the journal; of others the beginning.
        assert memory_bytes() - before < 60 * MIB + MAX_LONG * MAX_ANSWER
        assert status(_ask(box)) == 200
        handle.kill()


def _reset(sock: socket.socket) -> None:
    _heard_head(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _reset_midway(sock: socket.socket) -> None:
    _heard_head(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"A" * 500)
    time.sleep(0.2)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _end_midway(sock: socket.socket) -> None:
    _heard_head(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")


def _nonsense(sock: socket.socket) -> None:
    _heard_head(sock)
    sock.sendall(os.urandom(1000))


def _endless_head(sock: socket.socket) -> None:
    _heard_head(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\n")
    with suppress(OSError):
        for number in range(100_000):
            sock.sendall(b"X-%d: %b\r\n" % (number, b"A" * 1000))


def _endless_interim(sock: socket.socket) -> None:
    _heard_head(sock)
    with suppress(OSError):
        for _ in range(100_000):
            sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")


def _never(sock: socket.socket) -> None:
    _heard_head(sock)
    with suppress(OSError):
        sock.recv(1)  # until the door has had enough


RUDE = {"reset": _reset, "nonsense": _nonsense, "endless head": _endless_head,
        "endless interim": _endless_interim, "hang up": _heard_head}  # fmt: skip


def test_a_rude_server_is_an_error_of_the_gateway(hosts: Hosts) -> None:
    """One after the other at one name, which is dialled anew each time."""
    current = [_reset]
    with (
        scripted(lambda sock: current[0](sock)) as origin,
        Sandbox.create(network=_network(api=hosts.api, rude=origin)) as box,
    ):
        for name, behaviour in RUDE.items():
            current[0] = behaviour
            assert (name, status(_ask(box, "rude"))) == (name, 502)
        for behaviour in (_reset_midway, _end_midway):
            current[0] = behaviour
            answer = _ask(box, "rude")
            assert status(answer) == 200  # it had begun
            assert answer.endswith(b"<cut>") or not answer.endswith(b"0\r\n\r\n")
        assert status(_ask(box)) == 200


def test_a_server_that_is_not_there_is_an_error_of_the_gateway(hosts: Hosts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        place = f"127.0.0.1:{gone.getsockname()[1]}"
    with Sandbox.create(network=_network(api=hosts.api, gone=Origin(place))) as box:
        assert status(_ask(box, "gone")) == 502
        assert status(_ask(box)) == 200


def test_a_server_that_never_answers_is_given_up(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_door, "DoorOptions", partial(DoorOptions, upstream_idle_s=1.0))
    with (
        scripted(_never) as origin,
        Sandbox.create(network=_network(api=hosts.api, never=origin)) as box,
    ):
        assert status(_ask(box, "never")) == 504
        assert status(_ask(box)) == 200


def test_a_client_that_says_half_a_request_is_given_up(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_door, "DoorOptions", partial(DoorOptions, idle_s=1.0))
    monkeypatch.setattr("paddock.doors.network.http1.messages.HEAD_S", 2.0)
    monkeypatch.setattr("paddock.doors.network.connection.FIRST_BYTES_S", 1.0)
    program = """
    import select, socket
    starts = {"nothing": b"", "a letter": b"G", "half a head": b"GET / HTTP/1.1\\r\\nHost: api.exa",
              "a preface": b"PRI * HTTP", "half a hello": b"\\x16\\x03\\x01\\x02\\x00\\x01",
              "half a body": b"POST / HTTP/1.1\\r\\nHost: api.example\\r\\n"
                             b"Content-Length: 9\\r\\n\\r\\nab"}
    socks = {}
    for name, start in starts.items():
        socks[name] = socket.create_connection(("api.example", 80), 30)
        socks[name].sendall(start)
    drip = socket.create_connection(("api.example", 80), 30)
    deadline = time.monotonic() + 30
    found["a letter a time"] = "goes on"
    for letter in b"GET / HTTP/1.1\\r\\nX: " + b"a" * 300:
        try:
            drip.send(bytes([letter]))
        except OSError:
            found["a letter a time"] = "given up"
            break
        time.sleep(0.05)
    for name, sock in socks.items():
        try:
            while sock.recv(4096):
                pass
            found[name] = "given up"
        except ConnectionResetError:
            found[name] = "given up"
        except TimeoutError:
            found[name] = "goes on"
    """
    with Sandbox.create(network=_network(api=hosts.api)) as box:
        found = probe(box, program)
        assert set(found.values()) == {"given up"}, found
        assert status(_ask(box)) == 200


def test_connections_beyond_the_limit_are_refused_and_the_door_goes_on(hosts: Hosts) -> None:
    program = """
    import select, socket
    address = socket.gethostbyname("api.example")
    socks, cut = [], 0
    for number in range(int(sys.argv[1])):
        sock = socket.socket()
        sock.settimeout(20)
        try:
            sock.connect((address, 80))
            sock.sendall(b"GET / HTTP/1.1\\r\\nHost: api.exam")
            socks.append(sock)
        except OSError:
            cut += 1
    poll = select.poll()
    for sock in socks:
        poll.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    deadline = time.monotonic() + 10
    while cut + len(poll.poll(0)) < int(sys.argv[2]) and time.monotonic() < deadline:
        time.sleep(0.1)
    cut += len(poll.poll(0))
    print("opened", len(socks), "cut", cut, flush=True)
    time.sleep(60)
    """
    with (
        Sandbox.create(network=_network(api=hosts.api)) as box,
        Sandbox.create(network=_network(api=hosts.api)) as neighbour,
    ):
        assert status(_ask(box)) == 200
        before = memory_bytes()
        half = str(MAX_CONNECTIONS // 2 + 40)  # one process may not have as many as the door
        handles = [background(box, program, half, few) for few in ("0", "80")]
        cut = [int(handle.stdout.split()[-1]) for handle in handles]
        assert (cut[0], cut[1] >= 80) == (0, True)
        assert memory_bytes() - before < MAX_CONNECTIONS * MIB // 2
        assert status(_ask(neighbour)) == 200
        assert status(_ask(box)) == 0
        for handle in handles:
            handle.kill()
        eventually(lambda: status(_ask(box)) == 200)


def test_a_handler_that_breaks_lets_nothing_out(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken for a test")

    with Sandbox.create(network=_network(api=hosts.api)) as box:
        assert status(_ask(box)) == 200
        count = len(hosts.api.asked)
        for owner, name, answers in (
            (InboundConnection, "serve", {0}),
            (InboundConnection, "serve_host", {0}),
            (DoorContext, "gate", {0, 502}),
            (LiveUpstream, "_prepare", {502}),
            (DnsAnswerer, "_looked_up", {0}),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, broken)
                assert status(_ask(box)) in answers, name
        assert len(hosts.api.asked) == count
        assert status(_ask(box)) == 200


VICTIM = """
import sys, time
from paddock import Sandbox
network = {"allow": ["api.example:80"], "hosts": {"api.example": sys.argv[1]}}
box = Sandbox.create(network=network)
script = '''
import socket, time
while True:
    try:
        with socket.create_connection(("api.example", 80), 5) as sock:
            sock.sendall(b"GET / HTTP/1.0\\\\r\\\\n\\\\r\\\\n")
            sock.recv(100)
    except OSError:
        pass
'''
handle = box.commands.run(["python3", "-c", script], background=True)
print(box._calls.box.machine.init_pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def victim(hosts: Hosts) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", VICTIM, hosts.api.place]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_host_process_that_is_killed_takes_the_network_with_it(
    hosts: Hosts, victim: subprocess.Popen[str]
) -> None:
    assert victim.stdout is not None
    init = int(victim.stdout.readline())
    hosts.api.clear()
    eventually(lambda: len(hosts.api.asked) > 5)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    eventually(lambda: not os.path.exists(f"/proc/{init}"))
    count = len(hosts.api.asked)
    time.sleep(0.5)
    assert len(hosts.api.asked) == count
