"""The network of one sandbox, seen from the host: sockets that its guest opened in there.

A sandbox has only loopback. `open_door` turns every address into one that leads to listeners of
the host. Before that, and when they are closed, nothing is reached. The rules do not keep the
sandbox in: its namespace has no way out but these sockets. `watch_attempts` is for a sandbox
without a network: every address leads nowhere, and attempts are logged.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
from collections.abc import Iterator

from paddock.fence.container.network import netfilter, netlink
from paddock.fence.container.network.owner import owner_of
from paddock.fence.guest import agreed
from paddock.fence.network import (
    AttemptLog,
    DoorSockets,
    MachineNetwork,
    NetworkAttempt,
    original_destination,
)
from paddock.model.errors import CannotEnforce

_BACKLOG = 512
_PROBED = ("192.0.2.1", 9)  # of a range that is nobody's
_PROBE_MS = 1000
_NEW_ROUTE = 24
_LOCAL_TABLE, _STATIC, _HOST_SCOPE, _LOCAL = 255, 4, 254, 2
_LOOPBACK_INDEX = 1  # always the first interface of a namespace
_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 33: "dccp", 58: "icmp", 132: "sctp", 136: "udplite"}
_UDP, _DNS_PORT, _DNS_HEADER_BYTES = 17, 53, 12
_WITH_PORTS = {6, 17, 33, 132, 136}


class NamespaceSockets:
    """The sockets as they came, by their names in `agreed.SOCKETS`; some may be missing."""

    __slots__ = ("_fds", "_taken")

    def __init__(self, fds: dict[int, int]) -> None:
        """`fds`: descriptors by their number in the list. They are owned from here on."""
        self._fds = {agreed.SOCKETS[number][0]: fd for number, fd in fds.items()}
        self._taken: dict[str, socket.socket] = {}

    def get(self, name: str) -> socket.socket | None:
        """Return the socket, or None where the sandbox's kernel has no such."""
        if name in self._fds:
            self._taken[name] = socket.socket(fileno=self._fds.pop(name))
        return self._taken.get(name)

    def lend(self, name: str) -> socket.socket | None:
        """Return the socket, which is the borrower's to close until it is given back."""
        sock = self.get(name)
        self._taken.pop(name, None)
        return sock

    def give_back(self, name: str, sock: socket.socket) -> None:
        self._taken[name] = sock

    def hand_over(self, *served: socket.socket | None) -> None:
        """These belong to the door from now on. What else was used to open it is not needed any
        more."""
        for name, sock in list(self._taken.items()):
            if name in ("diag", "meter"):
                continue  # they tell whose a connection is, and what is held, before and after
            if sock not in served:
                sock.close()
            del self._taken[name]

    def close(self) -> None:
        """Closes all that was not handed over. Twice is harmless."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
        for sock in self._taken.values():
            sock.close()


class NamespaceNetwork(MachineNetwork):
    """The network of one container, through the sockets that its guest opened."""

    def __init__(self, sockets: NamespaceSockets, init_pid: int) -> None:
        self.sockets = sockets
        self._init_pid = init_pid

    def open_door(self) -> DoorSockets:
        return open_door(self.sockets)

    def log_attempts(self) -> None:
        watch_attempts(self.sockets)

    def borrow_log(self) -> AttemptLog | None:
        sock = self.sockets.lend("netfilter")
        return None if sock is None or sock.fileno() < 0 else AttemptLog(sock, attempts_in)

    def return_log(self, log: AttemptLog) -> None:
        self.sockets.give_back("netfilter", log.sock)

    def borrow_listener(self, port: int) -> socket.socket | None:
        sock = self.sockets.lend("tcp4")
        if sock is None:
            return None
        sock.setblocking(False)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:  # a program has taken it
            sock.bind(("127.0.0.1", 0))
        sock.listen(_BACKLOG)
        return sock

    def return_listener(self, listener: socket.socket) -> None:
        self.sockets.give_back("tcp4", listener)

    def owner_of(self, accepted: socket.socket) -> int | None:
        return owner_of(self.sockets.get("diag"), accepted, self._init_pid)


def watch_attempts(sockets: NamespaceSockets) -> None:
    """Have every attempt to use a network logged at the socket `netfilter`, and refused.

    The namespace leads nowhere anyway; this gives evidence, not protection. A door can be opened
    later. Raises OSError where the kernel cannot do it."""
    log = _needed(sockets, "netfilter")
    _install(log, _needed(sockets, "route"), [])


def open_door(sockets: NamespaceSockets) -> DoorSockets:
    """Lets every address lead to listeners of the host, and looks whether it does. Once for each
    sandbox. If anything fails all sockets are closed, and with them the way to any network."""
    try:
        return _open(sockets)
    except OSError as error:
        sockets.close()
        refused = "the kernel refuses " if isinstance(error, netlink.NetlinkRefused) else ""
        why = f"the network door: {refused}{error}"
        raise CannotEnforce(why, hint=_hint(error)) from None
    except BaseException:
        sockets.close()
        raise


def everywhere_is_local(family: int) -> netlink.NetlinkMessage:
    """Return a route by which any address is one of the namespace's own. Narrower ones, as those
    of loopback, go before it."""
    source = socket.inet_pton(family, "127.0.0.1" if family == socket.AF_INET else "::1")
    kinds = (_LOCAL_TABLE, _STATIC, _HOST_SCOPE, _LOCAL)
    body = struct.pack("=BBBBBBBBI", family, 0, 0, 0, *kinds, 0)
    body += netlink.attribute(4, struct.pack("=I", _LOOPBACK_INDEX)) + netlink.attribute(7, source)
    flags = netlink.REQUEST | netlink.ACK | netlink.CREATE | netlink.REPLACE
    return netlink.NetlinkMessage("a local route for all addresses", _NEW_ROUTE, body, flags)


def _open(sockets: NamespaceSockets) -> DoorSockets:
    tcp4, udp4 = _needed(sockets, "tcp4"), _needed(sockets, "udp4")
    tcp6, udp6 = sockets.get("tcp6"), sockets.get("udp6")
    ports = [_bind(tcp4, udp4, "127.0.0.1")]
    if tcp6 is not None and udp6 is not None:
        try:
            ports.append(_bind(tcp6, udp6, "::1"))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            tcp6 = udp6 = None  # IPv6 is switched off: no address of it leads anywhere
    log = _needed(sockets, "netfilter")
    _install(log, _needed(sockets, "route"), ports)
    _try(_needed(sockets, "probe"), tcp4)
    sockets.hand_over(tcp4, tcp6, udp4, udp6, log)
    return DoorSockets(tcp4, tcp6, udp4, udp6, AttemptLog(log, attempts_in))


def _needed(sockets: NamespaceSockets, name: str) -> socket.socket:
    sock = sockets.get(name)
    if sock is None:
        raise OSError(f"this kernel has no {name} socket")
    return sock


def _bind(tcp: socket.socket, udp: socket.socket, address: str) -> netfilter.Ports:
    """At ports that the kernel chooses: a program inside may have taken any other. One that is
    listened to already stays where it is."""
    for sock in (tcp, udp):
        sock.setblocking(False)
        if not sock.getsockname()[1]:
            sock.bind((address, 0))
    tcp.listen(_BACKLOG)
    return netfilter.Ports(int(tcp.family), tcp.getsockname()[1], udp.getsockname()[1])


def _install(log: socket.socket, route: socket.socket, ports: list[netfilter.Ports]) -> None:
    """Install rules and routes, in place of those that were there. Without ports, of an address
    family or at all, everything is refused."""
    # The rules before the routes: no address leads anywhere that no rule covers.
    rules = netfilter.chains(ports)
    netlink.exchange(log, netfilter.batch(rules))
    in_force = netfilter.counted(netlink.exchange(log, netfilter.rules_in_force()))
    wanted = {chain: len(in_chain) for chain, in_chain in rules.items()}
    if in_force != wanted:
        raise OSError(f"the kernel has the rules {in_force} instead of {wanted}")
    try:
        netlink.exchange(log, [netfilter.listen_to_log()])
    except netlink.NetlinkRefused as error:
        if error.errno != errno.EBUSY:  # nobody else has a socket here that may listen
            raise
    netlink.exchange(log, [netfilter.log_settings()])
    log.setblocking(False)
    netlink.exchange(route, [everywhere_is_local(socket.AF_INET)])
    if ports and len(ports) == 1:
        return  # IPv6 is switched off
    with contextlib.suppress(netlink.NetlinkRefused):
        netlink.exchange(route, [everywhere_is_local(socket.AF_INET6)])


def _try(probe: socket.socket, listener: socket.socket) -> None:
    """Connects as a program inside would: it must arrive, and its destination must be known."""
    with probe:
        probe.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            probe.connect(_PROBED)
        with _accepted(listener, probe.getsockname()) as arrived:
            if original_destination(arrived) != _PROBED:
                raise OSError("a connection arrives, but where it wanted to go is not known")


def _accepted(listener: socket.socket, peer: tuple[str, int]) -> socket.socket:
    """Return the connection that `peer` makes. A program inside may be faster with one of its
    own, which then finds itself closed."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    for _ in range(2 * _BACKLOG):
        if not poll.poll(_PROBE_MS):
            break
        sock, address = listener.accept()
        if address == peer:
            return sock
        sock.close()
    raise OSError("a connection to an address outside does not arrive")


def _hint(error: OSError) -> str:
    if error.errno == errno.EPERM:
        return "the host process needs CAP_NET_ADMIN over its sandboxes; run: paddock doctor"
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT):
        return "sudo modprobe -a nf_tables nft_redir nft_reject_inet nft_log nft_limit nft_ct"
    return "run: paddock doctor"


def attempts_in(datagram: bytes) -> Iterator[NetworkAttempt]:
    for answer in netlink.answers(datagram):
        attempt = _attempt(netfilter.logged_payload(answer))
        if attempt is not None:
            yield attempt


def _attempt(packet: bytes) -> NetworkAttempt | None:
    """Read the headers of a packet; a program inside may have written any of it."""
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= 20:
        protocol, address = packet[9], socket.inet_ntop(socket.AF_INET, packet[16:20])
        is_first = not int.from_bytes(packet[6:8], "big") & 0x1FFF
        rest = packet[(packet[0] & 15) * 4 :] if is_first else b""
    elif version == 6 and len(packet) >= 40:
        protocol, address = packet[6], socket.inet_ntop(socket.AF_INET6, packet[24:40])
        rest = packet[40:]
    else:
        return None
    has_port = protocol in _WITH_PORTS and len(rest) >= 4
    port = int.from_bytes(rest[2:4], "big") if has_port else None
    name = _queried_name(rest[8:]) if protocol == _UDP and port == _DNS_PORT else None
    return NetworkAttempt(_PROTOCOLS.get(protocol, str(protocol)), address, port, name)


def _queried_name(message: bytes) -> str | None:
    """Return the name of a DNS query's first question, as far as it is in what was logged."""
    labels: list[str] = []
    at = _DNS_HEADER_BYTES
    while at < len(message) and 0 < message[at] < 64:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("ascii", "backslashreplace"))
        at += 1 + message[at]
    return ".".join(labels) or None
