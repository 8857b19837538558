"""A stand-in as an upstream: the world answers in place of the real server.

A stand-in is either an application in this process, or a server in a process of its own (a pen),
which is reached by a connection of its own for each request. Whose fault a failure is must be told
apart: an agent that sends half a request must not have the stand-in blamed for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from paddock.doors.network.client_disconnect import ClientDisconnected, ended_by_disconnect
from paddock.doors.network.exchange import (
    SWITCHING_PROTOCOLS,
    BadMessage,
    Body,
    BodyWrapper,
    Headers,
    HttpExchange,
    HttpRequest,
    Response,
    header,
    without,
)
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import RequestProposal, split_target
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnIdle, ConnLost
from paddock.doors.network.upstream.base import Upstream
from paddock.doors.network.upstream.transfer import forward, forward_websocket, version_record
from paddock.doors.network.upstream_request import (
    MisplacedPlaceholder,
    UpstreamRequest,
    make_upstream_request,
)
from paddock.gate.executors import Done, refusal
from paddock.model.action import Action, Outcome
from paddock.world.asgi import HttpAnswer, WorldRequest
from paddock.world.service import LocalService, StandInFailed
from paddock.world.world import StandIn

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext

# Of a JSON body for a stand-in in this process: a list of three million empty objects has 9 MB, and
# to read and keep it takes everybody's loop for seconds.
MAX_JSON_PARTS = 250_000
_BEFORE_JSON = b" \t\r\n\0\xef\xbb\xbf\xfe\xff"  # and the marks of encodings
_MARK = b"x-paddock"
# Between us and a stand-in in a process of its own: the step, and what its application raised.
_STEP, _FAILED = b"x-paddock-step", b"x-paddock-failed"


class StandInUpstream(Upstream):
    """Has the stand-in answer. That goes to its end, whoever leaves: a world is never left between
    two states. It gets placeholders, never the values of secrets."""

    def __init__(
        self, context: DoorContext, origin: Origin, proposal: RequestProposal, stand_in: StandIn
    ) -> None:
        self._context = context
        self._origin = origin
        self._proposal = proposal
        self._stand_in = stand_in
        self._upload: _Upload | None = None

    async def answer(self, action: Action, client: HttpExchange) -> Done:
        host, port = action.arguments["host"], action.arguments["port"]
        if (host, port) != (self._origin.host, self._origin.port):  # an approver has edited it
            other = self._context.stand_in(str(host), int(port))
            if other is None:
                return refusal(f"Nothing stands in for {host}.")
            self._stand_in = other
        with ended_by_disconnect(client):
            try:
                return await self._ask(action, client)
            except StandInFailed:
                self._raise_fault_of_client()
                raise

    async def give(self, answer: HttpAnswer, action: Action, client: HttpExchange) -> Done:
        """Give an answer of the stand-in that is at hand."""
        response = as_response(answer)
        try:
            if response.status == SWITCHING_PROTOCOLS:
                raise StandInFailed("it changed the protocol without being asked to")
            await forward(response, str(action.arguments["method"]), client)
        finally:
            if isinstance(response.body, _Parts):
                response.body.cancel()
        return Done(response.status, self._record(response), Outcome.SIMULATED)

    async def _ask(self, action: Action, client: HttpExchange) -> Done:
        sent = make_upstream_request(
            self._context.custody, self._origin, self._proposal, action, is_real=False
        )
        if client.request.expects_continue and self._proposal.read is None:
            await client.proceed()
        service = self._stand_in.service
        if isinstance(service, LocalService):
            sent.request.body = self._upload = _Upload(sent.request.body, None)
            return await self._ask_process(service, sent, client)
        sent.request.body = self._upload = _Upload(sent.request.body, MAX_JSON_PARTS)
        return await self.give(await self._ask_application(self._upload, sent), action, client)

    async def _ask_application(self, upload: _Upload, sent: UpstreamRequest) -> HttpAnswer:
        if sent.request.upgrade:
            raise StandInFailed(f"{self._stand_in.terms.service} does not speak WebSocket")
        origin = replace(self._origin, host=sent.endpoint.host, port=sent.endpoint.port)
        request = world_request(sent.request, sent.headers, origin, self._proposal)
        if isinstance(request.body, bytes):
            try:
                upload.count(request.body)
            except BadMessage as error:
                self._proposal.fault = error
                raise
        answer = await self._stand_in.request(request, sent.action.step)
        if not isinstance(request.body, bytes) and self._fault_of_client() is not None:
            raise StandInFailed("the client's body broke off")  # told as the client's fault
        return answer

    async def _ask_process(
        self, service: LocalService, sent: UpstreamRequest, client: HttpExchange
    ) -> Done:
        cut_off = partial(self._cut_off, service, self._stand_in.timeout_s)
        conn = Conn(await service.connect(), idle_s=self._stand_in.timeout_s)
        headers = [(b"Host", (sent.request.authority or "").encode()), *_unmarked(sent.headers)]
        headers.append((_STEP, str(sent.action.step or 0).encode()))
        server = Http1Client(conn)
        try:
            try:
                response = await server.send(sent.request, headers)
            except (ConnLost, BadMessage) as error:
                await cut_off(error)
                raise
            if (why := header(response.headers, _FAILED)) is not None:
                raise StandInFailed(why.decode("utf-8", "replace")[:500])
            if response.status == SWITCHING_PROTOCOLS:
                done = await forward_websocket(
                    self._context, sent.action, self._origin, server, response, client
                )
                outcome = Outcome.SIMULATED if done.outcome is Outcome.DONE else done.outcome
                record = {**done.record, **self._record(response)}
                return Done(done.value, record, outcome, done.error)
            response = replace(response, body=_AnswerBody(response.body, cut_off))
            await forward(response, sent.request.method, client)
            return Done(response.status, self._record(response), Outcome.SIMULATED)
        finally:
            server.close()

    def _record(self, response: Response) -> dict[str, Any]:
        return {**version_record(response), "stand_in": self._stand_in.terms.service}

    async def _cut_off(self, service: LocalService, timeout_s: float, error: Exception) -> None:
        if isinstance(error, ConnIdle) and not self._fault_of_client():
            with contextlib.suppress(Exception):
                await service.stuck()
            raise StandInFailed(f"it gave no answer within {timeout_s:g} s") from None
        raise StandInFailed(str(error)) from None

    def _fault_of_client(self) -> ConnLost | BadMessage | None:
        """Return what is wrong with the client's body: it broke, or it is still waited for."""
        upload = self._upload
        if upload is not None and upload.fault is None and upload.is_awaited:
            return BadMessage(408, "its body did not come in time")
        return None if upload is None else upload.fault

    def _raise_fault_of_client(self) -> None:
        match self._fault_of_client():
            case MisplacedPlaceholder() as error:
                raise error from None
            case BadMessage() as error:
                self._proposal.fault = error
                raise error from None
            case ConnLost() as error:
                raise ClientDisconnected(str(error)) from None


class _Upload(BodyWrapper):
    """A body on its way to a stand-in: what goes wrong with it is the client's fault."""

    __slots__ = ("_is_json", "_most", "_parts", "fault", "is_awaited")

    def __init__(self, body: Body, most: int | None) -> None:
        super().__init__(body)
        self.fault: ConnLost | BadMessage | None = None
        self.is_awaited = False
        self._most = most
        self._is_json: bool | None = None  # by its first byte: what it says it is does not matter
        self._parts = 0

    async def read(self) -> bytes:
        self.is_awaited = True
        try:
            data = await self._body.read()
            self.count(data)
        except (ConnLost, BadMessage) as error:
            self.fault = error
            raise
        self.is_awaited = False
        return data

    def count(self, data: bytes) -> None:
        """Raise BadMessage for JSON of more parts than anybody may keep us busy with."""
        if self._is_json is None and (start := data.lstrip(_BEFORE_JSON)[:1]):
            self._is_json = start in b"[{"
        if self._is_json and self._most is not None:
            self._parts += data.count(b",") + data.count(b"[") + data.count(b"{")
            if self._parts > self._most:
                raise BadMessage(413, f"its body has more than {self._most} parts")


class _AnswerBody(BodyWrapper):
    """A body from a stand-in's process: what goes wrong with it is the stand-in's fault."""

    __slots__ = ("_cut_off",)

    def __init__(self, body: Body, cut_off: Callable[[Exception], Awaitable[None]]) -> None:
        super().__init__(body)
        self._cut_off = cut_off

    async def read(self) -> bytes:
        try:
            return await self._body.read()
        except (ConnLost, BadMessage) as error:
            await self._cut_off(error)
            raise


class _Parts:
    """The body of an answer that comes in parts, or at once."""

    trailers: Headers = []  # noqa: RUF012 - nobody adds to it

    def __init__(self, body: bytes | AsyncIterator[bytes]) -> None:
        self.length = len(body) if isinstance(body, bytes) else None
        self._body = body

    async def read(self) -> bytes:
        if isinstance(self._body, bytes):
            data, self._body = self._body, b""
            return data
        async for part in self._body:
            return part
        return b""

    def cancel(self) -> None:
        """End what makes the parts: the client has all of them, or has gone."""
        if not isinstance(self._body, bytes):
            closing = asyncio.ensure_future(_close(self._body))
            _CLOSING.add(closing)
            closing.add_done_callback(_CLOSING.discard)


_CLOSING: set[asyncio.Future[None]] = set()


async def _close(parts: AsyncIterator[bytes]) -> None:
    close = getattr(parts, "aclose", None)
    if close is not None:
        with contextlib.suppress(Exception):
            await close()


def world_request(
    request: HttpRequest, headers: Headers, origin: Origin, proposal: RequestProposal
) -> WorldRequest:
    """Return the request as a stand-in gets it: with the body of an approver, if one wrote it."""
    read = proposal.read if proposal.edited is None else proposal.edited
    path, query = split_target(request.target)
    fields = [(name.lower(), value) for name, value in headers]
    fields.insert(0, (b"host", origin.authority.encode()))
    length = len(read) if read is not None else request.body.length
    if length is not None and (length or request.method not in ("GET", "HEAD")):
        fields.append((b"content-length", str(length).encode()))
    body = _read_all(request.body) if read is None else read
    return WorldRequest(request.method, path, query, fields, body,
                        origin.scheme, origin.host, origin.port)  # fmt: skip


def as_response(answer: HttpAnswer) -> Response:
    """Return the answer of an application as one that came over a connection."""
    headers, body = answer.headers, answer.body
    if isinstance(body, bytes):
        length = (b"content-length", b"%d" % len(body))
        if [pair for pair in headers if pair[0].lower() == b"content-length"] != [length]:
            headers = [*without(headers, b"content-length"), length]
        return Response(answer.status, b"", headers, _Parts(body), "1.1")
    return Response(answer.status, b"", headers, _Parts(aiter(body)), "1.1")


def _unmarked(headers: Headers) -> Headers:
    """Return headers without what only we say. A server behind CGI reads both kinds of dash as
    one."""
    return [pair for pair in headers if not pair[0].lower().replace(b"_", b"-").startswith(_MARK)]


async def _read_all(body: Body) -> AsyncIterator[bytes]:
    while part := await body.read():
        yield part
