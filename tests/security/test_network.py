"""Reaching anything over a network, or a socket of the host."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import background, eventually, probe, probe_outside, shell
from security.conftest import MakeBox

CONNECT = """
import socket
family, kind, address = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
address = tuple(address) if isinstance(address, list) else address
def reach():
    with socket.socket(family, kind) as sock:
        sock.settimeout(3)
        sock.connect(address)
        sock.send(b"from inside")
        return sock.recv(100) if kind == socket.SOCK_STREAM else b""
found["it"] = attempt(reach)
"""


@contextmanager
def listening(sock: socket.socket) -> Iterator[list[bytes]]:
    """Accepts and answers until the block ends; gives what arrived."""
    heard: list[bytes] = []
    is_stream = sock.type == socket.SOCK_STREAM
    if is_stream:
        sock.listen(8)
    sock.settimeout(0.1)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                if not is_stream:
                    heard.append(sock.recv(100))
                    continue
                peer, _ = sock.accept()
                with peer:
                    peer.settimeout(2)
                    heard.append(peer.recv(100))
                    peer.send(b"hello")
            except OSError:
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield heard
    finally:
        stop.set()
        thread.join()
        sock.close()


def reach(box: Sandbox | None, sock: socket.socket, address: str) -> str:
    arguments = (str(int(sock.family)), str(int(sock.type)), address)
    found = probe(box, CONNECT, *arguments) if box else probe_outside(CONNECT, *arguments)
    return str(found["it"])


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_service_on_the_hosts_loopback_is_not_reached(
    shared_box: Sandbox, host: str, kind: socket.SocketKind
) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, kind)
    sock.bind((host, 0))
    address = f'["{host}", {sock.getsockname()[1]}]'
    with listening(sock) as heard:
        assert reach(None, sock, address).startswith("ok")  # it can be reached without a fence
        eventually(lambda: bool(heard))
        heard.clear()
        answer = reach(shared_box, sock, address)
    assert heard == []
    if kind == socket.SOCK_STREAM:
        assert answer == "ECONNREFUSED"  # its own loopback answered: nobody listens there


def test_abstract_socket_of_the_host_is_not_reached(shared_box: Sandbox) -> None:
    name = f"paddock-test-{secrets.token_hex(8)}"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(f"\0{name}")
    with listening(sock) as heard:
        address = f'"\\u0000{name}"'
        assert reach(None, sock, address).startswith("ok")
        heard.clear()
        assert reach(shared_box, sock, address) == "ECONNREFUSED"
        found = probe(shared_box, "found['unix'] = open('/proc/net/unix').read()")
    assert heard == []
    assert name not in found["unix"]


def test_socket_file_beside_a_mount_is_not_reached(
    make_box: MakeBox, source: Path, tmp_path: Path
) -> None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(tmp_path / "s"))
    os.chmod(tmp_path / "s", 0o777)
    (source / "link").symlink_to(tmp_path / "s")
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "write"}])
    with listening(sock) as heard:
        for path in (str(tmp_path / "s"), "/in/../s", "/in/link"):
            assert reach(box, sock, f'"{path}"') == "ENOENT"
    assert heard == []


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "10.0.0.1", "169.254.169.254",
                                     "192.168.0.1", "172.17.0.1", "255.255.255.255"])  # fmt: skip
def test_no_address_of_the_world_is_reached(shared_box: Sandbox, address: str) -> None:
    program = """
    import socket
    address = sys.argv[1]
    for name, kind in (("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)):
        def go():
            sock = socket.socket(socket.AF_INET, kind)
            sock.settimeout(3)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.connect((address, 53))
            sock.send(b"x")
            sock.recv(1)
        found[name] = attempt(go)
    """
    # Every address is one of the sandbox's own, at which the kernel refuses or drops everything.
    refusals = {"ECONNREFUSED", "ENETUNREACH", "EACCES", "timed out"}
    assert set(probe(shared_box, program, address).values()) <= refusals


def test_names_do_not_resolve(shared_box: Sandbox) -> None:
    program = """
    import socket
    for name in ("example.com", "metadata.google.internal", "localhost.localdomain.example"):
        try:
            found[name] = str(socket.getaddrinfo(name, 80))
        except socket.gaierror as error:
            found[name] = "unknown"
    """
    assert set(probe(shared_box, program, timeout=60).values()) == {"unknown"}


def test_only_loopback_is_there_and_it_cannot_be_changed(shared_box: Sandbox) -> None:
    program = """
    import fcntl, socket, struct
    found["names"] = [name for _, name in socket.if_nameindex()]
    found["routes"] = open("/proc/net/route").read().splitlines()[1:]
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    def set_address():
        address = struct.pack("16sH2x4s8x", b"lo", 2, bytes([10, 0, 0, 1]))
        fcntl.ioctl(sock, 0x8916, address)
    found["address"] = attempt(set_address)
    found["down"] = attempt(lambda: fcntl.ioctl(sock, 0x8914, struct.pack("16sH22x", b"lo", 0)))
    route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    def new_link(kind):
        info = struct.pack("HH", 4 + len(kind) + 1, 1) + kind + bytes(-(len(kind)) % 4 or 4)
        body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH", 4 + len(info), 18) + info
        route.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
        code = struct.unpack_from("i", route.recv(4096), 16)[0]
        if code:
            raise OSError(-code, "")
    for kind in (b"veth", b"dummy", b"bridge", b"wireguard"):
        found["link " + kind.decode()] = attempt(new_link, kind)
    """
    found = probe(shared_box, program)
    assert found.pop("names") == ["lo"]
    assert found.pop("routes") == []
    assert set(found.values()) == {"EPERM"}


def test_raw_and_foreign_sockets_are_refused(shared_box: Sandbox) -> None:
    program = """
    for family in range(46):
        for kind in (1, 2, 3, 4, 5, 6, 10):
            found[f"{family} {kind}"] = call(41, family, kind, 0)
    for family in (1 << 32 | 17, -1, 1 << 31):
        found[f"{family} 3"] = call(41, family, 3, 0)
    found["2 3 wide"] = call(41, 2, 3 | 1 << 32, 255)
    found["2 3 cloexec"] = call(41, 2, 3 | 0o2000000 | 0o4000, 1)
    """
    found = probe(shared_box, program)
    opened = {name for name, answer in found.items() if isinstance(answer, int)}
    assert opened <= {"1 1", "1 2", "1 3", "1 5", "2 1", "2 2", "10 1", "10 2", "16 2", "16 3"}
    for family in (2, 10):
        assert found[f"{family} 3"] == "EPERM"
    for family in (17, 38, 40, 31, 21, 30, 44):  # packet, alg, vsock, bluetooth, rds, tipc, xdp
        assert found[f"{family} 1"] == found[f"{family} 3"] == "EAFNOSUPPORT"


def test_socket_pairs_are_of_the_unix_family_only(shared_box: Sandbox) -> None:
    """A pair makes two sockets of its family in the kernel, and may load its module."""
    program = """
    pair = (ctypes.c_int * 2)()
    for family in range(46):
        found[str(family)] = call(53, family, 1, 0, pair)
    """
    found = probe(shared_box, program)
    assert found.pop("1") == 0
    # The filter must answer. EPERM, ENOTSUP and the like would be the family's own code.
    assert set(found.values()) == {"EAFNOSUPPORT"}
    control = {f for f, answer in probe_outside(program).items() if answer == "ENOTSUP"}
    assert "2" in control


def test_ping_does_not_leave(shared_box: Sandbox) -> None:
    program = """
    import socket
    def ping():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)
        sock.settimeout(3)
        sock.connect(("1.1.1.1", 0))
        sock.send(b"\\x08\\0\\0\\0\\0\\0\\0\\0")
        sock.recv(1)
    found["icmp"] = attempt(ping)
    """
    assert probe(shared_box, program)["icmp"] in ("EACCES", "EPERM", "ECONNREFUSED")


def test_sandboxes_do_not_share_a_loopback(make_box: MakeBox) -> None:
    first, second = make_box(), make_box()
    listener = """
    import socket
    sock = socket.create_server(("127.0.0.1", 4444))
    print("up", flush=True)
    time.sleep(30)
    """
    background(first, listener)
    probe_tcp = "import socket; socket.create_connection(('127.0.0.1', 4444), 2); print('reached')"
    assert shell(first, f'python3 -c "{probe_tcp}"').stdout == "reached\n"
    assert "ConnectionRefusedError" in shell(second, f'python3 -c "{probe_tcp}"').stderr
