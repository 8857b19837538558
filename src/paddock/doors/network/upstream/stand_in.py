"""A request that a stand-in answers: the same way as to a real server, with the world in its place.
What is decided about answers (tool calls of a model, what the journal keeps) holds for both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from paddock.doors.network.context import DoorContext
from paddock.doors.network.exchange import (
    BadMessage,
    Body,
    BodyWrapper,
    Exchange,
    Headers,
    Request,
    Response,
    header,
    without,
)
from paddock.doors.network.execution import Carrying
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.request import Origin, Proposal, split_target
from paddock.doors.network.transport.conn import Conn, ConnIdle, ConnLost
from paddock.doors.network.transport.pool import ServerConnection
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

# Of a JSON body for a stand-in in this process: a list of three million empty objects has 9 MB, and
# to read and keep it takes everybody's loop for seconds.
MAX_JSON_PARTS = 250_000
_BEFORE_JSON = b" \t\r\n\0\xef\xbb\xbf\xfe\xff"  # and the marks of encodings
_MARK = b"x-paddock"
# Between us and a stand-in in a process of its own: the step, and what its application raised.
_STEP, _FAILED = b"x-paddock-step", b"x-paddock-failed"


class AtStandIn(Carrying):
    """The executor of one request to a host that has a stand-in."""

    def __init__(
        self,
        context: DoorContext,
        exchange: Exchange,
        origin: Origin,
        proposal: Proposal,
        stand_in: StandIn,
    ) -> None:
        super().__init__(context, exchange, origin, proposal)
        self._stand_in = stand_in


class Standing(AtStandIn):
    """The executor of a request that the stand-in answers. That goes to its end, whoever leaves: a
    world is never left between two states."""

    _is_watched = False
    _upload: _OfClient | None = None

    async def __call__(self, action: Action) -> Done:
        host, port = action.arguments["host"], action.arguments["port"]
        if (host, port) != (self._origin.host, self._origin.port):  # an approver has edited it
            found = self._context.stand_in(str(host), int(port))
            if found is None:
                return refusal(f"Nothing stands in for {host}.")
            self._stand_in = found
        done = await super().__call__(action)
        if done.outcome is not Outcome.DONE:
            return done
        # Every request to a stand-in comes by here, and `replace` is slow.
        return Done(done.value, done.record, Outcome.SIMULATED, done.error, done.cost)

    def _outgoing(self, action: Action) -> UpstreamRequest:
        custody = self._context.custody
        return make_upstream_request(custody, self._origin, self._proposal, action, is_real=False)

    async def _send(self, sent: UpstreamRequest) -> tuple[ServerConnection, Response]:
        if self._exchange.request.expects_continue and self._proposal.read is None:
            await self._to_client(self._exchange.proceed())
        service = self._stand_in.service
        most = None if isinstance(service, LocalService) else MAX_JSON_PARTS
        self._upload = _OfClient(sent.request.body, most)
        sent.request.body = self._upload
        if isinstance(service, LocalService):
            return await self._passed_on(service, sent)
        response = await self._answered(sent)
        return _line(self._origin, sent, _InProcessConnection(response.body)), response

    async def _answered(self, sent: UpstreamRequest) -> Response:
        if sent.request.upgrade:
            raise StandInFailed(f"{self._stand_in.terms.service} does not speak WebSocket")
        origin = replace(self._origin, host=sent.endpoint.host, port=sent.endpoint.port)
        request = world_request(sent.request, sent.headers, origin, self._proposal)
        if isinstance(request.body, bytes):
            self._count(request.body)
        answer = await self._stand_in.request(request, sent.action.step)
        if not isinstance(request.body, bytes) and self._wrong_upload() is not None:
            raise StandInFailed("the client's body broke off")  # told as the client's fault
        return as_response(answer)

    def _count(self, read: bytes) -> None:
        assert self._upload is not None
        try:
            self._upload.count(read)
        except BadMessage as error:
            self._proposal.fault = error
            raise

    async def _passed_on(
        self, service: LocalService, sent: UpstreamRequest
    ) -> tuple[ServerConnection, Response]:
        """To a process of its own, over a connection of its own."""
        timeout_s = self._stand_in.timeout_s
        sock = await service.connect()
        conn = Conn(sock, idle_s=timeout_s)
        headers = [(b"Host", (sent.request.authority or "").encode()), *_unmarked(sent.headers)]
        headers.append((_STEP, str(sent.action.step or 0).encode()))
        try:
            upstream = Http1Client(conn)
            response = await upstream.send(sent.request, headers)
        except (ConnLost, BadMessage) as error:
            conn.abort()
            await self._cut_off(service, timeout_s, error)
        except BaseException:
            conn.abort()
            raise
        if (why := header(response.headers, _FAILED)) is not None:
            conn.abort()
            raise StandInFailed(why.decode("utf-8", "replace")[:500])
        body = _OfStandIn(response.body, partial(self._cut_off, service, timeout_s))
        return _line(self._origin, sent, upstream, conn), replace(response, body=body)

    async def _cut_off(self, service: LocalService, timeout_s: float, error: Exception) -> None:
        if isinstance(error, ConnIdle) and not self._wrong_upload():
            with contextlib.suppress(Exception):
                await service.stuck()
            raise StandInFailed(f"it gave no answer within {timeout_s:g} s") from None
        raise StandInFailed(str(error)) from None

    def _wrong_upload(self) -> ConnLost | BadMessage | None:
        """What is wrong with the client's body: it broke, or it is still waited for."""
        upload = self._upload
        if upload is not None and upload.fault is None and upload.is_awaited:
            return BadMessage(408, "its body did not come in time")
        return None if upload is None else upload.fault

    async def _stood_in_badly(self, error: StandInFailed, action: Action) -> Done:
        """An agent that sends half a request must not have the stand-in blamed for it."""
        match self._wrong_upload():
            case MisplacedPlaceholder() as wrong:
                return await self._misplaced(wrong.name, str(wrong), action)
            case BadMessage() as wrong:
                return await self._no_answer(wrong.status, f"The request is malformed: {wrong}.")
            case ConnLost() as wrong:
                return await self._left(wrong)
        return await super()._stood_in_badly(error, action)

    def _release(self, line: ServerConnection) -> None:
        line.close()

    def _record(
        self, line: ServerConnection, response: Response, headers: Headers
    ) -> dict[str, Any]:
        record = super()._record(line, response, headers)
        return {**record, "stand_in": self._stand_in.terms.service}


class _InProcessConnection:
    """In place of a connection: the stand-in is in this process, and ends with its reader."""

    is_free = False

    def __init__(self, body: Body) -> None:
        self._body = body

    def close(self) -> None:
        if isinstance(self._body, _Parts):
            self._body.cancel()


class _OfClient(BodyWrapper):
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
        """Raises BadMessage for JSON of more parts than anybody may keep us busy with."""
        if self._is_json is None and (start := data.lstrip(_BEFORE_JSON)[:1]):
            self._is_json = start in b"[{"
        if self._is_json and self._most is not None:
            self._parts += data.count(b",") + data.count(b"[") + data.count(b"{")
            if self._parts > self._most:
                raise BadMessage(413, f"its body has more than {self._most} parts")


class _OfStandIn(BodyWrapper):
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
        """The client has gone: what makes the parts is ended."""
        if not isinstance(self._body, bytes):
            closing = asyncio.ensure_future(_closed(self._body))
            _CLOSING.add(closing)
            closing.add_done_callback(_CLOSING.discard)


_CLOSING: set[asyncio.Future[None]] = set()


async def _closed(parts: AsyncIterator[bytes]) -> None:
    close = getattr(parts, "aclose", None)
    if close is not None:
        with contextlib.suppress(Exception):
            await close()


def world_request(
    request: Request, headers: Headers, origin: Origin, proposal: Proposal
) -> WorldRequest:
    """As a stand-in gets it: with the body that an approver wrote, if one did."""
    read = proposal.read if proposal.edited is None else proposal.edited
    path, query = split_target(request.target)
    named = [(name.lower(), value) for name, value in headers]
    named.insert(0, (b"host", origin.authority.encode()))
    length = len(read) if read is not None else request.body.length
    if length is not None and (length or request.method not in ("GET", "HEAD")):
        named.append((b"content-length", str(length).encode()))
    body = _read_all(request.body) if read is None else read
    return WorldRequest(request.method, path, query, named, body,
                        origin.scheme, origin.host, origin.port)  # fmt: skip


def as_response(answer: HttpAnswer) -> Response:
    headers, body = answer.headers, answer.body
    if isinstance(body, bytes):
        length = (b"content-length", b"%d" % len(body))
        if [one for one in headers if one[0].lower() == b"content-length"] != [length]:
            headers = [*without(headers, b"content-length"), length]
        return Response(answer.status, b"", headers, _Parts(body), "1.1")
    return Response(answer.status, b"", headers, _Parts(aiter(body)), "1.1")


def _unmarked(headers: Headers) -> Headers:
    """Without what only we say. A server behind CGI reads both kinds of dash as one."""
    return [one for one in headers if not one[0].lower().replace(b"_", b"-").startswith(_MARK)]


def _line(
    origin: Origin, sent: UpstreamRequest, upstream: Any, conn: Conn | None = None
) -> ServerConnection:
    return ServerConnection(sent.endpoint, upstream, cast("Conn", conn), origin.host)


async def _read_all(body: Body) -> AsyncIterator[bytes]:
    while part := await body.read():
        yield part
