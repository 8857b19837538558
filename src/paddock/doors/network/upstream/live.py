"""The real server as an upstream.

Secrets are put in on the way out. Both bodies stream: what a slow client does not take is not read
from the server.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from paddock.doors.network.client_disconnect import (
    ClientDisconnected,
    DisconnectWatch,
    ended_by_disconnect,
)
from paddock.doors.network.exchange import (
    SWITCHING_PROTOCOLS,
    Headers,
    HttpExchange,
    Response,
    without,
)
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.http2.client import NotProcessed
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import RequestProposal
from paddock.doors.network.secrets.keeper import Revoked
from paddock.doors.network.transport.pool import ServerConnection
from paddock.doors.network.transport.stream import ConnLost
from paddock.doors.network.upstream.base import Upstream
from paddock.doors.network.upstream.transfer import forward, forward_websocket, version_record
from paddock.doors.network.upstream_request import UpstreamRequest, make_upstream_request
from paddock.gate.executors import Done
from paddock.model.action import Action

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext

_HELD_S = 1.0  # from the request to its sending; longer, and a person was asked
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

ChangeRequest = Callable[[UpstreamRequest], UpstreamRequest]
ChangeResponse = Callable[[Response], Awaitable[Response]]


class SecretInClearText(Exception):
    """A secret was to be put into a request that anybody on its way can read."""

    def __init__(self, name: str, host: str) -> None:
        super().__init__(f"The secret {name} is sent to {host} by https only.")
        self.name = name


class LiveUpstream(Upstream):
    """Sends what was decided on to the real server, and nothing else."""

    def __init__(
        self,
        context: DoorContext,
        origin: Origin,
        proposal: RequestProposal,
        *,
        is_plain: bool = False,
        change_request: ChangeRequest | None = None,
        change_response: ChangeResponse | None = None,
    ) -> None:
        """With `is_plain` the server is asked not to compress. The other two are for who changes
        what is sent, after secrets were put in, or what comes back."""
        self.may_have_arrived = False  # whether a server may have seen the request
        self._context = context
        self._origin = origin
        self._proposal = proposal
        self._is_plain = is_plain
        self._change_request = change_request
        self._change_response = change_response

    async def answer(self, action: Action, client: HttpExchange) -> Done:
        watch = None if self._context.pacer is None else DisconnectWatch(client)
        with ended_by_disconnect(client, watch):
            sent = self._prepare(action)
            server, response = await self._send(sent, client)
            try:
                if response.status == SWITCHING_PROTOCOLS and watch is not None:
                    watch.end()  # a client that leaves a WebSocket says so
                return await self._pass_on(sent, server, response, client)
            except BaseException:
                _give_up(server, response)
                raise
            finally:
                self._context.custody.forget(server.conn, sent.used)

    def _prepare(self, action: Action) -> UpstreamRequest:
        """Put the secrets into the request. Raises Revoked or SecretInClearText."""
        sent = make_upstream_request(
            self._context.custody, self._origin, self._proposal, action, is_plain=self._is_plain
        )
        endpoint = sent.endpoint
        if sent.used and endpoint.scheme == "http" and not self._context.is_staged(endpoint.host):
            raise SecretInClearText(sent.used[0], endpoint.host)
        return sent if self._change_request is None else self._change_request(sent)

    async def _send(
        self, sent: UpstreamRequest, client: HttpExchange
    ) -> tuple[ServerConnection, Response]:
        """Send the request on a connection of the pool.

        A connection that was kept may have been closed meanwhile. There are three cases: it is new,
        so the server broke off and that is the answer; the server certainly did not look at the
        request, which is sent again on a new connection; or it may have read it before it closed,
        and then only what does no harm twice is sent again.
        """
        if client.request.expects_continue and self._proposal.read is None:
            await client.proceed()
        if time.monotonic() - self._proposal.made_at > _HELD_S and client.is_gone():
            # It may have asked again meanwhile.
            raise ClientDisconnected("before its request was sent")
        is_repeatable = sent.request.method in _REPEATABLE
        pool = self._context.pool
        server = await pool.take(sent.endpoint, is_sure=not is_repeatable)
        try:
            return server, await self._send_on(server, sent)
        except ConnLost as error:
            is_unseen = isinstance(error, NotProcessed) or (error.is_stale and is_repeatable)
            if server.is_new or not is_unseen or self._proposal.read is None:
                raise
        server = await pool.take(sent.endpoint, is_fresh=True)
        return server, await self._send_on(server, self._prepare(sent.action))

    async def _send_on(self, server: ServerConnection, sent: UpstreamRequest) -> Response:
        custody, headers = self._context.custody, sent.headers
        if server.is_h2:
            headers = [(name.lower(), value) for name, value in headers]
        else:
            host = (b"Host", (sent.request.authority or "").encode("latin-1"))
            headers = [host, *_joined_cookies(headers)]
        custody.carries(server.conn, sent.used)
        self.may_have_arrived = True
        try:
            for name in sent.used:  # it may have been revoked while the server was dialled
                if custody.is_revoked(name):
                    raise Revoked(name)
            return await server.client.send(sent.request, headers)
        except BaseException as error:
            if isinstance(error, Revoked | NotProcessed):
                self.may_have_arrived = False
            custody.forget(server.conn, sent.used)
            _give_up(server, None)
            raise

    async def _pass_on(
        self,
        sent: UpstreamRequest,
        server: ServerConnection,
        response: Response,
        client: HttpExchange,
    ) -> Done:
        record = self._record(server, response)
        if response.status == SWITCHING_PROTOCOLS:
            assert isinstance(server.client, Http1Client)
            done = await forward_websocket(
                self._context, sent.action, self._origin, server.client, response, client
            )
            return Done(done.value, done.record | record, done.outcome, done.error)
        if self._change_response is not None:
            response = await self._change_response(response)
        await forward(response, sent.request.method, client)
        self._context.pool.give_back(server)
        return Done(value=response.status, record=record)

    def _record(self, server: ServerConnection, response: Response) -> dict[str, Any]:
        record = version_record(response)
        if server.address != self._origin.host:
            record["address"] = server.address
        return record


def _give_up(server: ServerConnection, response: Response | None) -> None:
    """Give a connection up whose answer was not taken to its end: it cannot be used again. One that
    is shared goes on without this stream."""
    if not server.is_h2:
        server.close()
    elif response is not None:
        cancel = getattr(response.body, "cancel", None)
        if cancel is not None:
            cancel()


def _joined_cookies(headers: Headers) -> Headers:
    """HTTP/2 sends cookies one by one, HTTP/1 has one line for them."""
    cookies = [value for name, value in headers if name.lower() == b"cookie"]
    if len(cookies) < 2:
        return headers
    return [*without(headers, b"cookie"), (b"cookie", b"; ".join(cookies))]
