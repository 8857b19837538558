"""One connection out of a sandbox, from where it was meant to lead to what is spoken on it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, cast

import msgspec

from paddock.doors.network.answer import answer_refusal
from paddock.doors.network.context import DENIED, MALFORMED, MISMATCH, MISPLACED
from paddock.doors.network.decision import RequestHandler, answer_request
from paddock.doors.network.exchange import BadMessage, HttpExchange
from paddock.doors.network.http1 import server as http1
from paddock.doors.network.http2 import server as http2
from paddock.doors.network.names.dns import serve_tcp
from paddock.doors.network.names.table import (
    INSIDE_ADDRESS,
    INSIDE_PORT,
    NAME_SERVER_ADDRESS,
    PROXY_ADDRESS,
    PROXY_PORT,
)
from paddock.doors.network.origin import Origin, split_authority
from paddock.doors.network.passthrough import connect_action, pass_through
from paddock.doors.network.tls.client_hello import BadHello, HelloReader, NotTls, is_tls
from paddock.doors.network.transport.conn import Conn
from paddock.model.action import Receipt
from paddock.model.errors import InvalidInput
from paddock.model.events import InternalError
from paddock.model.hosts import canonical_host
from paddock.policy.network import Transport

if TYPE_CHECKING:
    from paddock.doors.network.door import NetworkDoor
    from paddock.doors.network.tls.authority import EndedSocket

PROXY = (PROXY_ADDRESS, PROXY_PORT)
INSIDE = (INSIDE_ADDRESS, INSIDE_PORT)
FIRST_BYTES_S = 30.0  # who calls a web server speaks first
_LOOK_S, _MAX_LOOK_S = 0.005, 0.5
_ALPN = ("h2", "http/1.1")
_H2_PREFACE = b"PRI * HTTP/2.0\r\n"
_SAY_TCP = "only HTTP and TLS pass here; write /tcp behind the port in network.allow for others"


class InboundConnection(msgspec.Struct, frozen=True):
    """A connection as it came, and the step that made it."""

    door: NetworkDoor
    conn: Conn
    parent: int | None

    async def serve(self, address: str, port: int) -> None:
        """Serves a connection that was meant for this address."""
        if (address, port) == PROXY:
            await self._serve_proxy()
        elif (address, port) == (NAME_SERVER_ADDRESS, 53):
            await serve_tcp(self.conn, self.door.answerer)
        elif (address, port) == INSIDE and self.door.context.inside is not None:
            await self.door.context.inside.serve(self.conn, self.parent)
        else:
            name = self.door.table.name_of(address)
            with self._holding(name):
                await self.serve_host(name or address, port, is_literal=name is None)

    async def serve_host(self, host: str, port: int, *, is_literal: bool = False) -> None:
        """Serves a connection to a host that is known by name, or by its address alone."""
        origin = Origin("https", host, port, self.parent)
        self.door.places[self.conn] = (host, port)
        entry = self.door.network.covers(host, port)
        if entry is None:
            self._deny(origin, is_literal=is_literal)
            self.conn.abort()
        elif (secret := self.door.context.custody.in_name(host)) is not None:
            self._misplaced(origin, secret)
        elif entry.transport is Transport.TCP:
            secured = partial(self._start_tls, origin)
            await pass_through(self.door.context, self.conn, origin, "tcp", secured)
        else:
            await self._serve_by_first_bytes(origin)

    def _deny(self, origin: Origin, *, is_literal: bool = False) -> Receipt:
        """Writes down an attempt to reach what is not allowed, and raises an alert."""
        why = f"{origin.host_port} is not in network.allow"
        if is_literal:
            why += ": an address that no allowed name stands for"
        about = {"host": origin.host, "port": origin.port, "transport": "tcp"}
        action = connect_action(origin, "tcp")
        return self.door.context.stop(action, "network", f"{why}.", DENIED, about)

    async def _serve_by_first_bytes(self, origin: Origin) -> None:
        start = await self._first_bytes()
        if start is None:
            self._reject(origin, "nothing was said; " + _SAY_TCP)
        elif is_tls(start):
            await self._serve_tls(origin)
        else:
            await self._serve_http(Origin("http", origin.host, origin.port, origin.parent), start)

    async def _first_bytes(self) -> bytes | None:
        """Enough to tell what is spoken; None of a client that says nothing."""
        try:
            async with asyncio.timeout(FIRST_BYTES_S):
                start, pause_s = await self.conn.peek(len(_H2_PREFACE)), _LOOK_S
                while start and (is_tls(start) is None or _may_become_h2(start)):
                    await asyncio.sleep(pause_s)  # rarely does a first segment end in there
                    pause_s = min(2 * pause_s, _MAX_LOOK_S)
                    start = await self.conn.peek(len(_H2_PREFACE))
        except TimeoutError:
            return None
        return start or None

    async def _serve_http(self, origin: Origin, start: bytes) -> None:
        requests = RequestHandler(self.door.context, origin)
        if start == _H2_PREFACE:
            await self._serve_requests(http2, requests, origin)
        elif start[:1].isalpha():
            await self._serve_requests(http1, requests, origin)
        else:
            self._reject(origin, _SAY_TCP)

    async def _serve_tls(self, origin: Origin) -> None:
        is_real = self.door.context.stand_in(origin.host, origin.port) is None
        if is_real and self.door.network.is_passthrough(origin.host):
            await self._pass_tls_through(origin)
            return
        context = self.door.authority.context_for(origin.host, alpn=_ALPN)
        try:
            await self.conn.start_tls(context, server_side=True)
        except ssl.SSLError as error:
            self._no_tls(origin, error)
            return
        requests = RequestHandler(self.door.context, origin)
        await self._serve_requests(http2 if self.conn.alpn == "h2" else http1, requests, origin)

    async def _start_tls(self, origin: Origin) -> None:
        """Goes on in TLS, for a stand-in. Raises ssl.SSLError."""
        context = self.door.authority.context_for(origin.host)
        await self.conn.start_tls(context, server_side=True)

    async def _serve_requests(
        self, driver: ModuleType, requests: RequestHandler, origin: Origin
    ) -> None:
        await driver.serve(
            self.conn,
            requests.handle,
            scheme=origin.scheme,
            faulted=partial(self._record_fault, origin),
        )

    def _record_fault(self, origin: Origin, error: Exception) -> None:
        """Record an error on a connection. Bytes that were no request, or tried to be two, are an
        attempt of the agent; anything else is an error of ours."""
        context = self.door.context
        if not isinstance(error, BadMessage):
            failure = f"{type(error).__name__}: {error}"
            context.record(InternalError("handling a request", failure))
            return
        about = {"host": origin.host, "port": origin.port, "why": str(error)}
        action = connect_action(origin, origin.scheme)
        context.stop(action, "protocol", f"{error}.", MALFORMED, about)

    async def _pass_tls_through(self, origin: Origin) -> None:
        """Not ended here, but the name that is asked for must be the one that was allowed."""
        reader, seen, pause_s = HelloReader(), 0, _LOOK_S
        try:
            async with asyncio.timeout(FIRST_BYTES_S):
                while True:
                    data = await self.conn.peek(1 << 16)
                    hello = reader.feed(data[seen:])
                    if hello is not None:
                        break
                    if len(data) == seen:
                        await asyncio.sleep(pause_s)
                        pause_s = min(2 * pause_s, _MAX_LOOK_S)
                    seen = len(data)
        except (TimeoutError, BadHello, NotTls) as error:
            self._reject(origin, f"not a TLS hello: {error}")
            return
        if hello.sni is not None and not _is_same(hello.sni, origin.host):
            self._mismatch(origin, hello.sni)
            return
        await pass_through(self.door.context, self.conn, origin, "tls")

    def _no_tls(self, origin: Origin, error: ssl.SSLError) -> None:
        ended = cast("EndedSocket", self.conn.sock)
        if getattr(ended, "is_mismatch", False):
            self._mismatch(origin, str(ended.asked))
            return
        why = f"TLS failed: {error.reason or error}"
        if "UNKNOWN_CA" in str(error.reason) or "CERTIFICATE_UNKNOWN" in str(error.reason):
            why += "; the program does not trust the sandbox's authority: name the host in"
            why += " network.tls.passthrough, or point the program to SSL_CERT_FILE"
        self._reject(origin, why)

    def _mismatch(self, origin: Origin, asked: str) -> None:
        why = f"The connection leads to {origin.host_port}, but TLS asks for {asked[:200]!r}."
        about = {"host": origin.host, "port": origin.port, "claimed": asked[:200]}
        action = connect_action(origin, "tls")
        self.door.context.stop(action, "mismatch", why, MISMATCH, about)
        self.conn.abort()

    def _misplaced(self, origin: Origin, secret: str) -> None:
        """To look the name up would tell whoever owns the domain."""
        why = f"The placeholder of {secret} is in the host's name."
        about = {"secret": secret, "host": origin.host, "port": origin.port}
        action = connect_action(origin, "tcp")
        self.door.context.stop(action, "secrets", why, MISPLACED, about)
        self.conn.abort()

    def _reject(self, origin: Origin, why: str) -> None:
        self.door.context.refuse(connect_action(origin, "tcp"), "protocol", f"{why}.")
        self.conn.abort()

    async def _serve_proxy(self) -> None:
        """For clients that like a proxy; the same rules hold there."""
        await http1.serve(
            self.conn,
            self._serve_proxied,
            scheme="http",
            allow_absolute=True,
            allow_connect=True,
            faulted=partial(self._record_fault, Origin("http", *PROXY, self.parent)),
        )

    async def _serve_proxied(self, exchange: HttpExchange) -> None:
        request = exchange.request
        is_tunnel = request.method == "CONNECT"
        try:
            default = None if is_tunnel else 80
            claimed = request.target if is_tunnel else request.authority
            host, port = split_authority(claimed or "", default)
        except InvalidInput as error:
            raise BadMessage(400, str(error)) from None
        scheme = "https" if is_tunnel else "http"
        origin = Origin(scheme, host, port, self.parent)
        if self.door.network.covers(host, port) is None:
            receipt = self._deny(origin)
            await answer_refusal(exchange, receipt)
        elif is_tunnel:
            await exchange.begin(200, [], b"Connection established")
            await InboundConnection(self.door, exchange.take_over(), self.parent).serve_host(
                host, port
            )
        else:
            self.door.places[self.conn] = (host, port)
            try:
                await answer_request(self.door.context, exchange, origin)
            finally:
                self.door.places.pop(self.conn, None)

    @contextlib.contextmanager
    def _holding(self, name: str | None):  # type: ignore[no-untyped-def]
        """An address stays its name's as long as a connection to it is open."""
        if name is None:
            yield
            return
        self.door.table.hold(name)
        try:
            yield
        finally:
            self.door.table.release(name)


def _may_become_h2(start: bytes) -> bool:
    return start != _H2_PREFACE and len(start) < len(_H2_PREFACE) and _H2_PREFACE.startswith(start)


def _is_same(asked: str, host: str) -> bool:
    try:
        return canonical_host(asked) == host
    except InvalidInput:
        return False
