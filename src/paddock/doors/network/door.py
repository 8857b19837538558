"""The network door of one sandbox: it takes connections, DNS queries and attempts at anything else,
and lets nothing out but through the gate.

It fails closed. A connection whose handling fails is cut; when the door ends, its listeners are
closed and every address inside refuses; the namespace has no other way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.doors.network.connection import InboundConnection
from paddock.doors.network.context import DENIED, EXHAUSTED, DoorContext
from paddock.doors.network.decision import is_out_of_reach
from paddock.doors.network.exchange import BadMessage
from paddock.doors.network.names.dns import Code, DnsAnswerer, Unanswered, serve_udp
from paddock.doors.network.names.table import NameTable
from paddock.doors.network.origin import Origin
from paddock.doors.network.passthrough import connect_action, dns_action
from paddock.doors.network.secrets.custody import Custody
from paddock.doors.network.tls.authority import Authority
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.dial import Dialer
from paddock.doors.network.transport.pool import IDLE_S, ConnectionPool
from paddock.doors.network.transport.stream import ConnLost
from paddock.fence.network import DoorSockets, NetworkAttempt, original_destination
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.model.action import Action, Outcome, Receipt
from paddock.model.events import InternalError, SecretRevoked
from paddock.policy.decide import Policy
from paddock.policy.network import NetworkTerms
from paddock.world.world import World

MAX_CONNECTIONS = 1024  # of one sandbox; beyond it a connection is refused
_ACCEPTS = 64  # in one turn of the loop
_PAUSE_S = 1.0
_FAREWELL_S = 0.5


class DoorOptions(msgspec.Struct, frozen=True):
    """The parts of a sandbox that its door needs."""

    gate: Callable[[], Gate]
    policy: Callable[[], Policy]
    step_of: Callable[[socket.socket | None], int | None]  # that made a connection
    world: World | None = None
    idle_s: float = 300.0  # of a client
    upstream_idle_s: float = IDLE_S


class NetworkDoor:
    """Serves the network of one sandbox, on the loop that opened it."""

    def __init__(
        self,
        sockets: DoorSockets,
        network: NetworkTerms,
        custody: Custody,
        around: DoorOptions,
        authority: Authority | None = None,
    ) -> None:
        self.network = network
        self.table = NameTable()
        self.authority = authority or Authority()
        self.answerer = DnsAnswerer(self.table, self._judge_name, refused=self._no_name)
        dialer = Dialer(network)
        pool = ConnectionPool(dialer, ca=network.ca, idle_s=around.upstream_idle_s)
        self.context = DoorContext(around.gate, pool, custody, around.policy, around.world)
        self._sockets = sockets
        self._around = around
        self._loop = asyncio.get_running_loop()
        self.places: dict[Conn, tuple[str, int]] = {}  # where open connections lead
        self._open: dict[asyncio.Task[None], Conn] = {}
        self._serving: list[asyncio.Task[None]] = []
        self._is_closed = False

    def open(self) -> None:
        """Begin to serve."""
        for listener in (self._sockets.tcp4, self._sockets.tcp6):
            if listener is not None:
                self._loop.add_reader(listener.fileno(), self._accept, listener)
        for sock in (self._sockets.udp, self._sockets.udp6):
            if sock is not None:
                self._serving.append(asyncio.ensure_future(serve_udp(sock, self.answerer)))
        self._loop.add_reader(self._sockets.log.fileno(), self._read_attempts)
        if self.context.custody:
            watching = self.context.custody.watch_revocations(self._revoked)
            self._serving.append(asyncio.ensure_future(watching))

    def update(self, network: NetworkTerms, *, cuts: bool = True) -> None:
        """Serve under other terms from now on. Connections that they do not cover are cut, if that
        is wanted; each request is decided on by them in any case."""
        old, self.network = self.network, network
        pool = self.context.pool
        pool.dialer.network = network
        pool.ca = network.ca
        is_other = _difference(old, network)
        pool.renew(is_other)
        for conn, place in list(self.places.items()):
            if cuts and is_other(*place):
                conn.abort()

    async def close(self) -> None:
        """Cut everything. Nothing inside can be reached from here afterwards."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_reading()
        for conn in list(self._open.values()):
            conn.abort()
        if self._open:  # who was serving them then knows how it ended, and records it
            await asyncio.wait(self._open, timeout=_FAREWELL_S)
        for task in [*self._serving, *self._open]:
            task.cancel()
        await asyncio.gather(*self._serving, *self._open, return_exceptions=True)
        self.context.pool.close()
        self.context.custody.close()
        self._sockets.close()

    def _stop_reading(self) -> None:
        for sock in (self._sockets.tcp4, self._sockets.tcp6, self._sockets.log):
            if sock is not None:
                self._loop.remove_reader(sock.fileno())

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, _peer = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listener, error)
                return
            self._arrived(sock)

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Stop accepting for a while, when no descriptors are left, say. The listener stays
        readable: to try at once again would only take the time that others need to end."""
        self._loop.remove_reader(listener.fileno())
        self._loop.call_later(_PAUSE_S, self._resume, listener)
        self.context.alert(EXHAUSTED, {"error": str(error)})

    def _resume(self, listener: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _arrived(self, sock: socket.socket) -> None:
        conn = Conn(sock, idle_s=self._around.idle_s)
        if self.context.pacer is not None:
            conn.is_open_at = self.context.pacer.is_open
        if len(self._open) >= MAX_CONNECTIONS:
            conn.abort()
            self.context.alert(EXHAUSTED, {"connections": MAX_CONNECTIONS})
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.ensure_future(self._serve(conn))
        self._open[task] = conn
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        conn = self._open.pop(task)
        self.places.pop(conn, None)
        conn.close()

    async def _serve(self, conn: Conn) -> None:
        """Serve one connection to its end. Whatever fails, it is cut and that is all."""
        try:
            wanted = original_destination(conn.sock)
            if wanted is None:
                self._straight_to_listener(conn)
                return
            parent = self._around.step_of(conn.sock)
            await InboundConnection(self, conn, parent).serve(*wanted)
        except (ConnLost, BadMessage, OSError, asyncio.CancelledError):
            conn.abort()
        except Exception as error:
            conn.abort()
            failure = f"{type(error).__name__}: {error}"
            self.context.record(InternalError("serving a connection", failure))

    def _straight_to_listener(self, conn: Conn) -> None:
        """Refuse a connection of somebody inside who found the port of the listener."""
        conn.abort()
        origin = Origin("https", "127.0.0.1", int(conn_port(conn) or 1))
        about = {"host": origin.host, "port": origin.port}
        why = "That port is the door's own."
        self.context.stop(connect_action(origin, "tcp"), "network", why, DENIED, about)

    async def _judge_name(self, name: str, qtype: str) -> bool:
        """Decide on a DNS query, as an action."""
        action = dns_action(name, qtype, self._around.step_of(None))
        receipt = await self.context.gate().cross(action, _let_through, spoil=_ignore)
        if is_out_of_reach(receipt):
            self.context.alert(DENIED, {"host": name, "transport": "dns"}, receipt.step)
        if receipt.outcome is Outcome.FAULTED:
            _fail_on_purpose(receipt)
        return receipt.is_done

    def _no_name(self, name: str, qtype: str, why: str) -> None:
        """Refuse a DNS query for a name that cannot exist, and may have carried something."""
        action = replace(dns_action(name[:300], qtype), name=name[:80])
        about = {"host": name[:100], "transport": "dns"}
        self.context.stop(action, "network", f"{why}.", DENIED, about)

    def _read_attempts(self) -> None:
        try:
            attempts = self._sockets.log.read()
        except OSError:
            self._loop.remove_reader(self._sockets.log.fileno())
            return
        for attempt in attempts:
            self._attempted(attempt)

    def _attempted(self, attempt: NetworkAttempt) -> None:
        """Record a packet that is neither TCP nor a DNS query; the kernel has refused it."""
        origin = Origin("https", attempt.address, attempt.port or 0)
        why = f"{attempt.protocol.upper()} does not leave the sandbox."
        about: dict[str, Any] = {"host": attempt.address, "transport": attempt.protocol}
        if attempt.port is not None:
            about["port"] = attempt.port
        action = connect_action(origin, attempt.protocol)
        self.context.stop(action, "network", why, DENIED, about)

    def _revoked(self, name: str) -> None:
        """Cut the connections that carried a secret, idle and busy ones alike."""
        self.context.record(SecretRevoked(name))
        self.context.pool.drop(lambda host, _: self.context.custody.is_for(name, host))
        self.context.custody.cut(name)


def _difference(old: NetworkTerms, new: NetworkTerms) -> Callable[[str, int], bool]:
    """Return a function that tells whether a connection made under the old terms may not live under
    the new ones: its host is not allowed any more, or allowed in another way."""
    is_moved = (old.private, old.ca) != (new.private, new.ca)

    def is_other(host: str, port: int) -> bool:
        entry = new.covers(host, port)
        return (
            is_moved
            or entry is None
            or entry != old.covers(host, port)
            or old.hosts.get(host) != new.hosts.get(host)
            or old.is_passthrough(host) != new.is_passthrough(host)
        )

    return is_other


async def _let_through(action: Action) -> Done:
    return Done(value=True)


def _ignore(words: Mapping[str, Any]) -> None:
    """Ignore a fault: nothing spoils an address, and a silent server is one that is not answered
    for."""


def _fail_on_purpose(receipt: Receipt) -> None:
    fault = (receipt.decision.fault if receipt.decision is not None else None) or {}
    if not fault.get("nxdomain"):
        raise Unanswered(None if "timeout" in fault else Code.FAILED)


def conn_port(conn: Conn) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(conn.sock.getsockname()[1])
    return None
