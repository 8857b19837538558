"""Memory that a sandbox holds in the kernel instead of in its programs: bytes that wait in sockets
and pipes, with descriptors open, and with all of them under way in messages."""

from __future__ import annotations

import contextlib

import pytest

from paddock import CommandExitException, Sandbox

LIMIT_MIB = 64
# More than the limit, the buffers beside it (half of it on cgroup v1), as much again as is watched,
# and 32 MiB. How far a program gets beyond that between two looks depends on the machine's load.
TOO_MUCH_MIB = 3 * LIMIT_MIB + 64
KEPT = "still has it"

HOLD = r"""
import array, fcntl, os, resource, socket, sys, time

how, is_in_flight = sys.argv[1], sys.argv[2] == "flight"
wanted = int(sys.argv[3]) << 20
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held, kept = 0, []

def enlarge(*socks):
    for sock in socks:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 64 << 20)

def carrier_pair():
    pair = socket.socketpair()
    pair[0].setblocking(False)
    return pair

carrier = carrier_pair()

def stow(*fds):
    # Open, or in the queue of a Unix socket, where no process has them.
    global carrier
    if not is_in_flight:
        kept.append(fds)
        return
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    try:
        carrier[0].sendmsg([b"f"], rights)
    except BlockingIOError:
        old, carrier = carrier, carrier_pair()
        ends = array.array("i", [old[0].fileno(), old[1].fileno()])
        carrier[0].sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
        carrier[0].sendmsg([b"f"], rights)
        old[0].close(), old[1].close()
    for fd in fds:
        os.close(fd)

def fill(sock, size=65536):
    total = 0
    sock.setblocking(False)
    try:
        while True:
            total += sock.send(b"x" * size)
    except OSError:
        return total

def tcp_pair(is_accepted=True):
    first = socket.socket()
    first.connect(server.getsockname())
    ends = [first, *([server.accept()[0]] if is_accepted else [])]
    enlarge(*ends)
    return ends

server = socket.socket()
enlarge(server)
server.bind(("127.0.0.1", 0))
server.listen(4096)

def hold():
    if how in ("tcp", "unaccepted"):
        ends = tcp_pair(how == "tcp")
        return fill(ends[0]), ends
    if how == "unix":
        ends = socket.socketpair()
        enlarge(*ends)
        return fill(ends[0]), ends
    if how == "udp":
        ends = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]
        enlarge(*ends)
        ends[0].bind(("127.0.0.1", 0))
        ends[1].connect(ends[0].getsockname())
        for _ in range(7000):
            ends[1].send(b"x" * 1000)
        inode = os.fstat(ends[0].fileno()).st_ino
        rows = [line.split() for line in open("/proc/net/udp").read().splitlines()[1:]]
        queued = next(row[4] for row in rows if int(row[9]) == inode)
        return int(queued.partition(":")[2], 16), ends
    if how == "netlink":
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        sock.bind((0, 0))
        enlarge(sock)
        for number in range(3000):
            sock.send(b"\x14\0\0\0\x12\0\x05\0" + bytes(8) + bytes(4))
        return 3000 * 700, [sock]
    if how in ("ping", "ping6"):
        family, protocol, request, address = {
            "ping": (socket.AF_INET, 1, 8, "127.0.0.1"), "ping6": (socket.AF_INET6, 58, 128, "::1"),
        }[how]
        sock = socket.socket(family, socket.SOCK_DGRAM, protocol)
        enlarge(sock)
        sock.connect((address, 0))
        return sum(sock.send(bytes([request]) + bytes(30000)) for _ in range(100)), [sock]
    read, write = os.pipe()
    os.set_blocking(write, False)
    total = 0
    try:
        fcntl.fcntl(write, 1031, 1 << 20)
    except OSError:
        pass
    try:
        while True:
            total += os.write(write, b"x" * 65536)
    except OSError:
        return total, [read, write]

while held < wanted:
    try:
        size, ends = hold()
        stow(*(end if isinstance(end, int) else end.detach() for end in ends))
    except OSError:
        break
    if not size:
        break
    held += size
else:
    print("has it", flush=True)
    time.sleep(20)
    print(sys.argv[4])
"""


@pytest.mark.parametrize("where", ["open", "flight"])
@pytest.mark.parametrize(
    "how", ["tcp", "unaccepted", "udp", "ping", "ping6", "netlink", "unix", "pipe"]
)
def test_program_that_holds_too_much_in_sockets_is_ended(how: str, where: str) -> None:
    with Sandbox.create(limits={"memory": f"{LIMIT_MIB}MiB"}, timeout=60) as box:
        assert KEPT not in _output(box, how, where)


def test_it_is_ended_with_a_network_door_as_well() -> None:
    network = {"allow": ["example.com:443"]}
    with Sandbox.create(limits={"memory": f"{LIMIT_MIB}MiB"}, network=network, timeout=60) as box:
        for how in ("unaccepted", "netlink"):
            assert KEPT not in _output(box, how, "flight")


def test_what_remains_is_declared() -> None:
    with Sandbox.create() as box:
        assert box.get_info().enforcement["socket_memory"].startswith("watched: ")


def _output(box: Sandbox, how: str, where: str) -> str:
    """Return what a program says that takes too much and then waits, unless it finds no room."""
    box.files.write("/tmp/hold.py", HOLD)
    with contextlib.suppress(CommandExitException):  # the memory limit ends every program
        box.commands.run(
            f"python3 /tmp/hold.py {how} {where} {TOO_MUCH_MIB} '{KEPT}' > /tmp/held 2>&1",
            timeout=40,
        )
    return str(box.files.read("/tmp/held"))
