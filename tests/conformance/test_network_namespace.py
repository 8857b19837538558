"""The network of a sandbox, below any protocol: where its packets arrive, and that they arrive
nowhere else. The tests take the place of the network door.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.host import children, init_pid
from conformance.inside import python
from conformance.waiting import eventually
from paddock import Sandbox
from paddock.fence.container.network.namespace import NamespaceSockets, open_door
from paddock.fence.container.network.owner import owner_of
from paddock.fence.guest import agreed
from paddock.fence.network import DoorSockets, NetworkAttempt, original_destination
from paddock.model.errors import CannotEnforce
from paddock.state.privilege import is_privileged

WAIT_S = 10
# Says what became of it, as the name of an error or what was received.
_TRY = """
import errno, os, socket, struct, sys, time
def attempt(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, repr(error))
def tcp(address, port):
    with socket.create_connection((address, int(port)), timeout=10) as sock:
        return sock.recv(100).decode()
def udp(address, port, data=b"question"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.connect((address, int(port)))
        sock.send(data)
        return sock.recv(100).decode()
"""
_LOOPBACK = """
def echo(kind, family, address):
    server = socket.socket(family, kind)
    server.bind((address, 0))
    client = socket.socket(family, kind)
    if kind == socket.SOCK_STREAM:
        server.listen()
        client.connect(server.getsockname())
        server = server.accept()[0]
    else:
        client.connect(server.getsockname())
    client.send(b"hello")
    return server.recv(100).decode()
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.3.4.5"),
                            (socket.AF_INET6, "::1")):
        print(attempt(echo, kind, family, address))
"""


class Door:
    """Says to each who connects where he wanted to go, and echoes to each who asks for a name."""

    def __init__(self, box: Sandbox) -> None:
        self.machine = box._calls.box.machine
        self.sockets: NamespaceSockets = _sockets(box)
        self.open: DoorSockets = open_door(self.sockets)
        self.accepted: list[socket.socket] = []
        self.asked: list[bytes] = []
        self._is_over = threading.Event()
        assert self.open.tcp6 is not None and self.open.udp6 is not None
        self._threads = [
            threading.Thread(target=self._accept, args=(self.open.tcp4,)),
            threading.Thread(target=self._accept, args=(self.open.tcp6,)),
            threading.Thread(target=self._answer, args=(self.open.udp,)),
            threading.Thread(target=self._answer, args=(self.open.udp6,)),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        for sock in self.accepted:
            sock.close()
        self.open.close()

    def attempts(self, count: int = 1) -> list[NetworkAttempt]:
        found: list[NetworkAttempt] = []

        def are_there() -> bool:
            found.extend(self.open.log.read())
            return len(found) >= count

        eventually(are_there, WAIT_S, "the attempts are logged")
        return found

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(0.05)
        while not self._is_over.is_set():
            with contextlib.suppress(TimeoutError):
                sock, _ = listener.accept()
                self.accepted.append(sock)
                wanted = original_destination(sock)
                sock.send(" ".join(map(str, wanted)).encode() if wanted else b"nowhere")

    def _answer(self, sock: socket.socket) -> None:
        sock.settimeout(0.05)
        while not self._is_over.is_set():
            with contextlib.suppress(TimeoutError):
                data, peer = sock.recvfrom(100)
                self.asked.append(data)
                sock.sendto(b"answer to " + data, peer)


@pytest.fixture(scope="module")
def shared(shared_box: Sandbox) -> Iterator[tuple[Sandbox, Door]]:
    door = Door(shared_box)
    yield shared_box, door
    door.close()


@pytest.fixture
def door(shared: tuple[Sandbox, Door]) -> Door:
    """The shared sandbox's, with nothing left in its log from tests before."""
    while shared[1].open.log.read():
        pass
    return shared[1]


def inside(box: Sandbox, program: str, *arguments: str) -> list[str]:
    return python(box, _TRY + program, *arguments).splitlines()


# ---- without a door ------------------------------------------------------------------------------


def test_without_a_door_every_address_refuses(box: Sandbox) -> None:
    program = """
for address in ("1.1.1.1", "198.18.0.2", "2001:db8::1"):
    print(attempt(tcp, address, 443), attempt(udp, address, 53))
"""
    assert inside(box, program) == ["ECONNREFUSED ECONNREFUSED"] * 3


def test_without_a_door_no_program_inside_answers_for_an_address(box: Sandbox) -> None:
    program = """
server = socket.socket()
server.bind(("1.1.1.1", 8080))
server.listen()
print(attempt(tcp, "1.1.1.1", 8080))
"""
    assert inside(box, program) == ["ECONNREFUSED"]


def test_without_a_door_loopback_works(box: Sandbox) -> None:
    assert inside(box, _LOOPBACK) == ["hello"] * 6


# ---- TCP -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "arrives"),
    [
        ("1.1.1.1", "1.1.1.1"),
        ("1.1", "1.0.0.1"),
        ("0x08080404", "8.8.4.4"),
        ("134743044", "8.8.4.4"),
        ("010.0.0.1", "8.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("169.254.169.254", "169.254.169.254"),
        ("198.18.0.1", "198.18.0.1"),
        ("0.1.2.3", "0.1.2.3"),
        ("128.0.0.1", "128.0.0.1"),
        ("::ffff:9.9.9.9", "9.9.9.9"),
        ("2001:db8::1", "2001:db8::1"),
        ("fd00::1", "fd00::1"),
        ("::2", "::2"),
        ("64:ff9b::1.1.1.1", "64:ff9b::101:101"),
    ],
)
def test_connection_to_any_address_arrives_with_its_destination(
    shared_box: Sandbox, door: Door, address: str, arrives: str
) -> None:
    program = "print(attempt(tcp, *sys.argv[1:]))"
    assert inside(shared_box, program, address, "443") == [f"{arrives} 443"]


@pytest.mark.parametrize("port", [1, 22, 53, 80, 3128, 65535])
def test_connection_to_any_port_arrives_with_its_destination(
    shared_box: Sandbox, door: Door, port: int
) -> None:
    program = "print(attempt(tcp, *sys.argv[1:]))"
    assert inside(shared_box, program, "1.2.3.4", str(port)) == [f"1.2.3.4 {port}"]


def test_multipath_tcp_arrives_as_well(shared_box: Sandbox, door: Door) -> None:
    program = """
def go():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as sock:
        sock.settimeout(10)
        sock.connect(("3.3.3.3", 33))
        return sock.recv(100).decode()
print(attempt(go))
"""
    assert inside(shared_box, program)[0] in ("3.3.3.3 33", "EPROTONOSUPPORT", "ENOPROTOOPT")


def test_notations_of_this_machine_do_not_leave_the_sandbox(
    shared_box: Sandbox, door: Door
) -> None:
    """They arrive at loopback, where nobody listens."""
    before = len(door.accepted)
    program = """
for address in ("0.0.0.0", "0", "127.1", "0x7f000001", "2130706433", "::", "::1",
                "::ffff:127.0.0.1", "localhost"):
    print(attempt(tcp, address, 443))
"""
    assert inside(shared_box, program) == ["ECONNREFUSED"] * 9
    assert len(door.accepted) == before


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.9", "5.5.5.5"])
def test_nobody_gets_straight_to_the_door(shared_box: Sandbox, door: Door, source: str) -> None:
    """The kernel would take who it is from for where it goes, and that can be any address."""
    before = len(door.accepted), len(door.asked)
    program = """
source, tcp_port, udp_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print(attempt(socket.create_connection, ("127.0.0.1", tcp_port), 1, (source, 0)))
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((source, 0))
sock.connect(("127.0.0.1", udp_port))
print(attempt(sock.send, b"x"))
"""
    ports = (door.open.tcp4.getsockname()[1], door.open.udp.getsockname()[1])
    refused = inside(shared_box, program, source, *map(str, ports))
    assert set(refused) <= {"ECONNREFUSED", "EPERM", "TimeoutError('timed out')"}
    assert (len(door.accepted), len(door.asked)) == before


def test_connections_from_one_port_do_not_mix(shared_box: Sandbox, door: Door) -> None:
    program = """
held = []
for n in range(1, 101):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.settimeout(10)
    sock.bind(("127.0.0.1", 23456))
    sock.connect(("1.2.3.%d" % n, 80))
    held.append(sock)
print(sum(sock.recv(100) == b"1.2.3.%d 80" % n for n, sock in enumerate(held, 1)))
"""
    assert inside(shared_box, program) == ["100"]


def test_false_source_changes_nothing(shared_box: Sandbox, door: Door) -> None:
    """Every address is the sandbox's own, so a program can send from any."""
    program = """
with socket.create_connection(("1.1.1.1", 80), 10, ("5.5.5.5", 0)) as sock:
    print(sock.recv(100).decode())
"""
    assert inside(shared_box, program) == ["1.1.1.1 80"]


def test_program_cannot_put_itself_in_the_place_of_an_address(
    shared_box: Sandbox, door: Door
) -> None:
    program = """
server = socket.create_server(("9.8.7.6", 8080))
everywhere = socket.create_server(("0.0.0.0", 8081))
print(attempt(tcp, "9.8.7.6", 8080), "/", attempt(tcp, "9.8.7.6", 8081))
"""
    assert inside(shared_box, program) == ["9.8.7.6 8080 / 9.8.7.6 8081"]


def test_port_of_the_door_cannot_be_taken(shared_box: Sandbox, door: Door) -> None:
    program = """
for kind, port in ((socket.SOCK_STREAM, sys.argv[1]), (socket.SOCK_DGRAM, sys.argv[2])):
    for address in ("127.0.0.1", "0.0.0.0"):
        sock = socket.socket(socket.AF_INET, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        print(attempt(sock.bind, (address, int(port))) or attempt(sock.listen) or "taken")
"""
    ports = (door.open.tcp4.getsockname()[1], door.open.udp.getsockname()[1])
    assert inside(shared_box, program, *map(str, ports)) == ["EADDRINUSE"] * 4


def test_two_sandboxes_arrive_each_at_its_own_door(
    make_box: MakeBox, shared_box: Sandbox, door: Door
) -> None:
    other = make_box()
    others = Door(other)
    try:
        before = len(door.accepted)
        assert inside(other, "print(attempt(tcp, '1.1.1.1', 80))") == ["1.1.1.1 80"]
        assert (len(others.accepted), len(door.accepted)) == (1, before)
    finally:
        others.close()


# ---- UDP, ICMP and the rest ----------------------------------------------------------------------


@pytest.mark.parametrize("address", ["9.9.9.9", "198.18.0.2", "2001:db8::35"])
def test_question_for_a_name_arrives_and_its_answer_comes_back(
    shared_box: Sandbox, door: Door, address: str
) -> None:
    """The client is connected: it takes an answer only from the address that it asked."""
    program = "print(attempt(udp, sys.argv[1], 53))"
    assert inside(shared_box, program, address) == ["answer to question"]


@pytest.mark.parametrize("address", ["9.9.9.9", "198.18.0.2", "2001:db8::2"])
@pytest.mark.parametrize("port", [443, 5353, 52, 54])
def test_other_datagram_is_refused_at_once_and_logged(
    shared_box: Sandbox, door: Door, address: str, port: int
) -> None:
    assert inside(shared_box, "print(attempt(udp, *sys.argv[1:]))", address, str(port)) == [
        "ECONNREFUSED"
    ]
    assert door.attempts() == [NetworkAttempt("udp", address, port)]


@pytest.mark.parametrize("address", ["224.0.0.251", "239.1.2.3", "255.255.255.255"])
def test_datagram_to_many_is_logged_and_reaches_nobody(
    shared_box: Sandbox, door: Door, address: str
) -> None:
    program = """
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 5353))
server.settimeout(0.5)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
attempt(sock.sendto, b"x", (sys.argv[1], 5353))
try:
    print(server.recv(100))
except TimeoutError:
    print("nobody")
"""
    assert inside(shared_box, program, address) == ["nobody"]
    assert NetworkAttempt("udp", address, 5353) in door.attempts()


_PING = """
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
kind, protocol = (128, socket.IPPROTO_ICMPV6) if ":" in sys.argv[1] else (8, socket.IPPROTO_ICMP)
sock = socket.socket(family, socket.SOCK_DGRAM, protocol)
sock.settimeout(1)
sock.sendto(bytes([kind, 0, 0, 0, 0, 0, 0, 1]) + b"ping", (sys.argv[1], 0))
try:
    print(sock.recv(100)[0])
except OSError as error:
    print("no answer")
"""


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:db8::8"])
def test_ping_is_not_answered_and_logged(shared_box: Sandbox, door: Door, address: str) -> None:
    """Every address is the sandbox's own: the kernel would answer in its name."""
    assert inside(shared_box, _PING, address) == ["no answer"]
    assert door.attempts() == [NetworkAttempt("icmp", address, None)]


def test_ping_of_loopback_is_answered(shared_box: Sandbox, door: Door) -> None:
    assert inside(shared_box, _PING, "127.0.0.1") == ["0"]


def test_other_transports_have_no_sockets(shared_box: Sandbox) -> None:
    program = """
for kind, protocol in ((socket.SOCK_DGRAM, 136), (socket.SOCK_STREAM, 132), (6, 33)):
    print(attempt(socket.socket, socket.AF_INET, kind, protocol))
"""
    assert set(inside(shared_box, program)) == {"EPROTONOSUPPORT"}


def test_flood_is_refused_and_only_the_first_of_it_is_logged(
    shared_box: Sandbox, door: Door
) -> None:
    program = """
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(5000):
    attempt(sock.sendto, b"x" * 1400, ("9.9.%d.%d" % (n >> 8, n & 255), 443))
"""
    inside(shared_box, program)
    found = door.attempts()
    while more := door.open.log.read():
        found += more
    assert found[0] == NetworkAttempt("udp", "9.9.0.0", 443)
    assert len(found) < 5000
    assert inside(shared_box, "print(attempt(tcp, '1.1.1.1', 80))") == ["1.1.1.1 80"]


_RECORDS = "int(open('/proc/sys/net/netfilter/nf_conntrack_count').read())"


def test_loopback_and_refused_packets_leave_no_record_in_the_kernel(
    shared_box: Sandbox, door: Door
) -> None:
    """Its memory is the host's own: no limit of the sandbox counts it."""
    program = f"""
before = {_RECORDS}
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(3000):
    attempt(sock.sendto, b"x", ("9.9.%d.%d" % (n >> 8, n & 255), 443))
    attempt(sock.sendto, b"x", ("127.9.%d.%d" % (n >> 8, n & 255), server.getsockname()[1]))
print({_RECORDS} - before)
"""
    assert int(inside(shared_box, program)[0]) < 100


def test_questions_and_connections_are_bounded_in_number(box: Sandbox) -> None:
    door = Door(box)
    program = """
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dropped = 0
for n in range(200_000):
    where = ("9.%d.%d.%d" % (n >> 16, n >> 8 & 255, n & 255), 53)
    dropped += attempt(sock.sendto, b"x", where) == "EPERM"
    if dropped > 1000:
        break
print(dropped > 1000)
"""
    try:
        assert inside(box, program) == ["True"]
    finally:
        door.close()


# ---- loopback inside -----------------------------------------------------------------------------


def test_loopback_works_beside_a_door(shared_box: Sandbox, door: Door) -> None:
    assert inside(shared_box, _LOOPBACK) == ["hello"] * 6


# ---- the door cannot be changed from inside ------------------------------------------------------


def test_routes_and_rules_cannot_be_changed_from_inside(shared_box: Sandbox, door: Door) -> None:
    program = """
def ask(protocol, kind, body, flags=0x605):
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    sock.settimeout(5)
    sock.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    while True:
        data = sock.recv(65536)
        size, kind = struct.unpack_from("=IH", data)
        if kind == 2:
            code = -struct.unpack_from("=i", data, 16)[0]
            return errno.errorcode.get(code, code)
lo = struct.pack("=HHI", 8, 4, 1)
print(attempt(ask, 0, 24, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 253, 1, 0) + lo))
print(attempt(ask, 0, 25, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 255, 4, 254, 2, 0) + lo))
table = struct.pack("!BBH", 1, 0, 0) + struct.pack("=HH", 12, 1) + b"paddock\\0"
print(attempt(ask, 12, 10 << 8 | 2, table))
begin = struct.pack("!BBH", 0, 0, 10)
print(attempt(ask, 12, 0x10, begin))
print(attempt(ask, 12, 10 << 8 | 7, struct.pack("!BBH", 1, 0, 0), 0x301))
log = struct.pack("!BBH", 0, 0, 1) + struct.pack("=HHB3x", 5, 1, 1)
print(attempt(ask, 12, 4 << 8 | 1, log))
print(attempt(ask, 12, 1 << 8 | 2, struct.pack("!BBH", 2, 0, 0)))
"""
    assert set(inside(shared_box, program)) == {"EPERM"}
    assert inside(shared_box, "print(attempt(tcp, '1.1.1.1', 80))") == ["1.1.1.1 80"]


def test_settings_of_the_network_cannot_be_changed_from_inside(
    shared_box: Sandbox, door: Door
) -> None:
    program = """
for name in ("ipv4/ip_forward", "ipv4/ping_group_range", "ipv4/conf/all/route_localnet",
             "ipv4/ip_unprivileged_port_start", "netfilter/nf_conntrack_max"):
    print(attempt(open, "/proc/sys/net/" + name, "w"))
"""
    assert set(inside(shared_box, program)) <= {"EACCES", "EROFS", "EPERM", "ENOENT"}


def test_sockets_of_the_door_are_in_no_process_inside(box: Sandbox) -> None:
    if not is_privileged():
        pytest.skip("an ordinary user may not look at the descriptors of a first process")
    handed = {_link(fd) for fd in _descriptors(_sockets(box))}
    assert len(handed) == len(agreed.SOCKETS)
    box.commands.run("sleep 60", background=True)
    first = init_pid(box)
    for pid in (first, *children(first)):
        held = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
        assert not held & handed


def test_sockets_of_the_door_are_not_inherited_by_a_program(box: Sandbox) -> None:
    program = (
        "print(*(os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd')[:-1]))"
    )
    assert "socket:" not in inside(box, program)[0]


def test_raw_and_packet_sockets_are_refused_beside_a_door(shared_box: Sandbox, door: Door) -> None:
    program = """
for family, kind, protocol in ((2, 3, 255), (2, 3, 1), (10, 3, 58), (17, 3, 3), (17, 2, 3),
                               (2, 10, 3), (40, 1, 0), (44, 3, 0), (38, 5, 0)):
    print(attempt(socket.socket, family, kind, protocol))
"""
    assert set(inside(shared_box, program)) <= {"EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT"}


# ---- the host's side -----------------------------------------------------------------------------


def test_when_the_door_closes_every_connection_is_refused(box: Sandbox) -> None:
    door = Door(box)
    assert inside(box, "print(attempt(tcp, '1.1.1.1', 80))") == ["1.1.1.1 80"]
    door.close()
    program = """
for address in ("1.1.1.1", "2001:db8::1"):
    print(attempt(tcp, address, 80), attempt(udp, address, 53), attempt(udp, address, 443))
"""
    assert inside(box, program) == ["ECONNREFUSED ECONNREFUSED ECONNREFUSED"] * 2


def test_door_opens_while_programs_connect(box: Sandbox) -> None:
    program = """
last = ""
for _ in range(100_000):
    answer = attempt(tcp, "1.1.1.1", 80)
    if answer != last:
        print(answer, flush=True)
    last = answer
    if answer == "1.1.1.1 80":
        break
"""
    programs = [
        box.commands.run(["python3", "-c", _TRY + program], background=True) for _ in range(3)
    ]
    door = Door(box)
    try:
        for running in programs:
            assert running.wait().stdout.splitlines()[-1] == "1.1.1.1 80"
    finally:
        door.close()


def test_door_opens_once_and_closing_it_closes_the_network(box: Sandbox) -> None:
    sockets = _sockets(box)
    door = open_door(sockets)
    with pytest.raises(CannotEnforce, match="network door"):
        open_door(sockets)
    door.close()
    assert inside(box, "print(attempt(tcp, '1.1.1.1', 80))") == ["ECONNREFUSED"]


@pytest.mark.parametrize("missing", ["tcp4", "udp4", "netfilter", "route", "probe"])
def test_door_that_lacks_a_socket_is_refused_and_nothing_is_open(
    box: Sandbox, missing: str
) -> None:
    sockets = _sockets(box)
    _remove(sockets, missing)
    with pytest.raises(CannotEnforce, match=missing):
        open_door(sockets)
    answer = inside(box, "print(attempt(tcp, '1.1.1.1', 80))")
    assert answer in (["ENETUNREACH"], ["ECONNREFUSED"])


def test_sandbox_that_ends_leaves_no_socket(make_box: MakeBox) -> None:
    box, other = make_box(network={"allow": ["api.example:80"]}), make_box()
    door = box._calls.box.network._door._sockets
    served = (door.tcp4, door.tcp6, door.udp, door.udp6, door.log)
    links = {_link(sock.fileno()) for sock in served if sock is not None}
    links |= {_link(fd) for b in (box, other) for fd in _descriptors(_sockets(b))}
    held_by_the_door = len([one for one in served if one is not None])
    assert len(links) == len(agreed.SOCKETS) + held_by_the_door + 2  # diag and meter
    box.kill()
    other.kill()
    eventually(
        lambda: not links & {_link(int(name)) for name in os.listdir("/proc/self/fd")},
        WAIT_S,
        "all are closed",
    )


def _sockets(box: Sandbox) -> NamespaceSockets:
    """The sockets of a sandbox that nobody watches any more."""
    inner = box._calls.box

    async def stop() -> None:
        inner.network._absent.give_back()

    inner.engine.call(stop())
    sockets: NamespaceSockets = inner.machine.network.sockets
    return sockets


def _remove(sockets: NamespaceSockets, name: str) -> None:
    sock = sockets.lend(name)
    assert sock is not None
    sock.close()


def _descriptors(sockets: NamespaceSockets) -> list[int]:
    return [*sockets._fds.values(), *(sock.fileno() for sock in sockets._taken.values())]


def _link(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return ""


# ---- whose connection it is ----------------------------------------------------------------------

_HOLD = """
held = [socket.create_connection((address, 80), 10)
        for address in ("1.1.1.1", "2001:db8::1", "::ffff:9.9.9.9")]
print(os.getpid(), flush=True)
sys.stdin.read(1)
"""


def test_owner_of_a_connection_is_the_process_that_made_it(box: Sandbox) -> None:
    door = Door(box)
    try:
        words = ["python3", "-c", _TRY + _HOLD]
        box.commands.run("sleep 60", background=True)
        running = box.commands.run(words, background=True, stdin=True)
        eventually(lambda: "\n" in running.stdout, WAIT_S, "it has connected")
        pid = int(running.stdout)
        diag, init_pid = door.sockets.get("diag"), door.machine.init_pid
        owners = [owner_of(diag, sock, init_pid) for sock in door.accepted]
        assert owners == [pid] * 3
        running.kill()
        eventually(
            lambda: owner_of(diag, door.accepted[0], init_pid) is None,
            WAIT_S,
            "its connections have no owner any more",
        )
    finally:
        door.close()
