"""Everything that is neither TCP nor a question for a name, from a sandbox that has a network."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import eventually, probe
from security.network.conftest import Hosts
from security.network.inside import alerts, refused

WORLD = (
    "1.1.1.1",
    "8.8.8.8",
    "10.0.0.1",
    "169.254.169.254",
    "198.18.0.1",
    "198.18.0.2",
    "198.18.9.9",
)


def test_udp_does_not_leave_and_is_noticed(box: Sandbox) -> None:
    """QUIC among it: a client falls back to TCP, which is looked at."""
    program = """
    import socket
    for address in sys.argv[1:]:
        for port in (443, 123, 4433):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.settimeout(0.5)
                try:
                    sock.connect((address, port))
                    sock.send(b"\\xc3\\0\\0\\0\\1" + bytes(1200))
                    found[f"{address} {port}"] = sock.recv(100).hex()
                except OSError as error:
                    found[f"{address} {port}"] = type(error).__name__
    """
    found = probe(box, program, *WORLD, "2001:db8::1")
    assert set(found.values()) <= {"ConnectionRefusedError", "TimeoutError", "OSError"}, found
    wanted = {*WORLD, "2001:db8::1"}
    eventually(lambda: wanted <= {one["host"] for one in refused(box, "connect")})
    told = {a["host"] for a in alerts(box, "egress.denied") if a["transport"] == "udp"}
    assert wanted <= told


def test_udp_to_a_service_of_the_host_does_not_arrive(box: Sandbox) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as service:
        service.bind(("127.0.0.1", 0))
        service.settimeout(0.5)
        port = str(service.getsockname()[1])
        program = """
        import socket
        for address in ("127.0.0.1", "0.0.0.0", "198.18.0.1", "127.0.0.2", "255.255.255.255"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                found[address] = attempt(sock.sendto, b"x", (address, int(sys.argv[1])))
        """
        probe(box, program, port)
        with pytest.raises(TimeoutError):
            service.recv(10)


def test_ping_multicast_and_broadcast_do_not_leave(box: Sandbox) -> None:
    program = """
    import socket
    def ping():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as sock:
            sock.settimeout(1)
            sock.sendto(b"\\x08\\0\\0\\0\\0\\1\\0\\1", ("1.1.1.1", 0))
            return sock.recv(100)
    found["ping"] = attempt(ping)
    many = {"multicast": "239.255.255.250", "broadcast": "255.255.255.255", "six": "ff02::1"}
    for name, address in many.items():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        def send():
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.settimeout(0.5)
                if family == socket.AF_INET:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                sock.sendto(b"M-SEARCH * HTTP/1.1\\r\\n", (address, 1900))
                return sock.recv(100)
        found[name] = attempt(send)
    """
    found = probe(box, program)
    assert not any("ok" in answer for answer in found.values()), found


def test_sockets_below_tcp_and_of_other_families_are_refused(box: Sandbox) -> None:
    program = """
    import socket
    wanted = {
        "raw tcp": (2, 3, 6), "raw icmp": (2, 3, 1), "raw any": (2, 3, 255), "raw six": (10, 3, 58),
        "packet": (17, 3, 0x300), "packet datagram": (17, 2, 0x300), "vsock": (40, 1, 0),
        "sctp": (2, 1, 132), "sctp packets": (2, 5, 132), "dccp": (2, 6, 33),
        "udplite": (2, 2, 136), "mptcp": (2, 1, 262), "alg": (38, 5, 0), "bluetooth": (31, 3, 0),
        "can": (29, 3, 1), "tipc": (30, 1, 0), "xdp": (44, 3, 0), "rds": (21, 5, 0),
        "kcm": (41, 5, 0), "smc": (43, 1, 0), "qrtr": (42, 2, 0), "netfilter": (16, 3, 12),
        "audit": (16, 3, 9), "generic": (16, 3, 16), "xfrm": (16, 3, 6), "key": (15, 3, 2),
    }
    for name, (family, kind, protocol) in wanted.items():
        value = call(41, family, kind, protocol)
        found[name] = value
        if isinstance(value, int):
            os.close(value)
    found["io_uring"] = call(425, 8, ctypes.create_string_buffer(200))
    """
    found = probe(box, program)
    opened = {name for name, answer in found.items() if isinstance(answer, int)}
    # A netlink socket without rights can only ask; the next test tries to change something by it.
    assert opened <= {"netfilter", "audit", "generic", "xfrm"}, found


def test_the_rules_of_the_namespace_cannot_be_changed_from_inside(box: Sandbox) -> None:
    program = """
    import fcntl, socket, struct
    def netlink(protocol, kind, body, flags=0x605):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as sock:
            sock.settimeout(3)
            sock.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
            code = struct.unpack_from("i", sock.recv(4096), 16)[0]
            if code:
                raise OSError(-code, "")
    route = struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0)
    found["route"] = attempt(netlink, 0, 24, route)
    found["no route"] = attempt(netlink, 0, 25, route)
    found["address"] = attempt(netlink, 0, 20, struct.pack("BBBBI", 2, 8, 0, 0, 1))
    found["link"] = attempt(netlink, 0, 16, struct.pack("BxHiII", 0, 0, 1, 0, 1))
    found["rule"] = attempt(netlink, 0, 32, bytes(12))
    found["tables"] = attempt(netlink, 12, 10 << 8 | 2, struct.pack("!BBH", 1, 0, 0))
    found["connections"] = attempt(netlink, 12, 1 << 8 | 2, struct.pack("!BBH", 2, 0, 0))
    unbind = struct.pack("!BBH", 0, 0, 1) + struct.pack("HHB3x", 5, 1, 2)
    found["log"] = attempt(netlink, 12, 4 << 8 | 1, unbind)
    for name, level, option in (("mark", 1, 36), ("transparent", 0, 19), ("iptables", 0, 64)):
        with socket.socket() as sock:
            found[name] = attempt(sock.setsockopt, level, option, struct.pack("i", 1))
    for path in ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/lo/route_localnet"):
        found[path] = attempt(lambda: open(path, "w").write("1"))
    found["new namespace"] = in_child(call, 272, 0x40000000)
    found["old namespace"] = attempt(lambda: os.open("/proc/1/ns/net", os.O_RDONLY))
    """
    found = probe(box, program)
    let = {name: answer for name, answer in found.items() if str(answer).startswith(("ok", "0"))}
    assert let == {}, let


def test_sockets_of_the_host_are_not_reached(box: Sandbox, tmp_path: Path) -> None:
    name = f"paddock-test-{secrets.token_hex(8)}"
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as file:
        abstract.bind(f"\0{name}")
        file.bind(str(tmp_path / "s"))
        os.chmod(tmp_path / "s", 0o777)
        for sock in (abstract, file):
            sock.listen()
            threading.Thread(target=_hear, args=(sock, heard), daemon=True).start()
        program = """
        import glob, socket
        def reach(path):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                sock.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        paths = ["\\0" + sys.argv[1], sys.argv[2], "/var/run/docker.sock", "/run/docker.sock",
                 "/run/dbus/system_bus_socket", "/run/systemd/private"]
        paths += [x for x in glob.glob("/run/**", recursive=True) if os.path.exists(x)]
        for path in paths:
            found[path] = attempt(reach, path)
        """
        found = probe(box, program, name, str(tmp_path / "s"))
    assert not any(answer.startswith("ok") for answer in found.values()), found
    assert heard == []


def _hear(sock: socket.socket, heard: list[bytes]) -> None:
    try:
        peer, _ = sock.accept()
        heard.append(peer.recv(10))
        peer.close()
    except OSError:
        return


def test_a_sandbox_whose_network_was_taken_away_reaches_nothing(hosts: Hosts) -> None:
    program = """
    import socket
    def reach():
        with socket.create_connection(("198.18.1.1", 80), 5) as sock:
            sock.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            answer = sock.recv(100)
            if not answer:
                raise ConnectionResetError(104, "closed")
            return answer
    socket.gethostbyname("api.example") if sys.argv[1] == "open" else None
    found["it"] = attempt(reach)
    """
    with Sandbox.create(network=hosts.network) as box:
        assert probe(box, program, "open")["it"].startswith("ok")
        before = len(hosts.api.asked)
        box.update_network(mode="none")
        assert not probe(box, program, "closed")["it"].startswith("ok")
    assert len(hosts.api.asked) == before
