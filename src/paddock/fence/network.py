"""The network of one machine, as the network door uses it.

A machine starts without any network. Its driver can open a door (`MachineNetwork.open_door`): every
TCP connection and DNS query then arrives at sockets that the host serves, whatever its destination,
and everything else is refused and logged. Without a door everything is refused, and can be logged.
"""

from __future__ import annotations

import errno
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import msgspec

_SO_ORIGINAL_DST = 80  # of IPv4 and of IPv6
_V4_SIZE, _V6_SIZE = 16, 28  # of a socket address
_MAX_DATAGRAM = 8192
_MAX_ATTEMPTS = 64  # that one reading gives


class NetworkAttempt(msgspec.Struct, frozen=True):
    """A packet that was refused."""

    protocol: str  # udp, icmp ..., or the number
    address: str
    port: int | None
    dns_name: str | None = None  # that a DNS query asks for


class AttemptLog:
    """The packets that the kernel refused and logged; readable when there are some."""

    def __init__(
        self, sock: socket.socket, parse: Callable[[bytes], Iterable[NetworkAttempt]]
    ) -> None:
        """`parse` reads the attempts in one datagram of the socket, which is non-blocking."""
        self.sock = sock
        self._parse = parse

    def fileno(self) -> int:
        """Return the descriptor to wait on; negative when it is closed."""
        return self.sock.fileno()

    def read(self) -> list[NetworkAttempt]:
        """Return the attempts since the last reading; at most so many, the rest the next time."""
        attempts: list[NetworkAttempt] = []
        while len(attempts) < _MAX_ATTEMPTS:
            try:
                attempts += self._parse(self.sock.recv(_MAX_DATAGRAM))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # that is: some more were lost
                    raise
        return attempts

    def close(self) -> None:
        """Stop the log."""
        self.sock.close()


class DoorSockets(msgspec.Struct, frozen=True):
    """The sockets that the network door serves, all non-blocking. The IPv6 ones are None on a
    host without."""

    tcp4: socket.socket
    tcp6: socket.socket | None
    udp: socket.socket  # DNS queries, to whatever address; answers find their way back
    udp6: socket.socket | None
    log: AttemptLog

    def close(self) -> None:
        for served in (self.tcp4, self.tcp6, self.udp, self.udp6, self.log):
            if served is not None:
                served.close()


class MachineNetwork(ABC):
    """The way into a machine's network. Methods that change it may block: call them on a thread."""

    @abstractmethod
    def open_door(self) -> DoorSockets:
        """Let every address lead to the returned sockets, after a try whether it does. Once for
        each machine; what was borrowed must have been returned. Raises CannotEnforce, and then
        the machine has no way to any network any more."""

    @abstractmethod
    def log_attempts(self) -> None:
        """Have attempts to use a network refused and logged. Raises OSError where that is not
        possible: nothing gets out all the same."""

    @abstractmethod
    def borrow_log(self) -> AttemptLog | None:
        """Return the log, which is the borrower's to close; None when the machine has ended."""

    @abstractmethod
    def return_log(self, log: AttemptLog) -> None:
        """Give the log back, so that a door can be opened."""

    @abstractmethod
    def borrow_listener(self, port: int) -> socket.socket | None:
        """Return a socket that listens at this port of the machine's loopback, or at another one
        if that is taken; None where there is no such socket."""

    @abstractmethod
    def return_listener(self, listener: socket.socket) -> None:
        """Give the listener back, so that a door can be opened."""

    @abstractmethod
    def owner_of(self, accepted: socket.socket) -> int | None:
        """Return the pid, as the machine counts, of the process that made a connection. None when
        it cannot be told. It helps readers; it is no basis for decisions."""


def original_destination(sock: socket.socket) -> tuple[str, int] | None:
    """Return where an accepted connection was meant to lead; None when the kernel does not know,
    or knows no other address than the listener's own."""
    is_v4 = sock.family == socket.AF_INET
    level = socket.IPPROTO_IP if is_v4 else socket.IPPROTO_IPV6
    try:
        raw = sock.getsockopt(level, _SO_ORIGINAL_DST, _V4_SIZE if is_v4 else _V6_SIZE)
        wanted = _address(raw)
        own = sock.getsockname()[:2]
    except (OSError, ValueError):
        return None
    return wanted if wanted != own else None


def _address(raw: bytes) -> tuple[str, int]:
    """Read a socket address of the kernel's: family, port, for IPv6 the flow, and the address."""
    port = int.from_bytes(raw[2:4], "big")
    if len(raw) == _V4_SIZE:
        return socket.inet_ntop(socket.AF_INET, raw[4:8]), port
    return socket.inet_ntop(socket.AF_INET6, raw[8:24]), port
