"""Reads of a host whose writes are captured: a read goes to the real server, and what was written
before shows in its answer. A write never comes here; what looks like a read and is none is not sent
either."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from paddock.doors.network.client_disconnect import ended_by_disconnect
from paddock.doors.network.exchange import (
    BadMessage,
    HttpExchange,
    Response,
    values_of,
    without,
)
from paddock.doors.network.layers.decoded import decoder_of
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import RequestProposal
from paddock.doors.network.upstream.base import Upstream
from paddock.doors.network.upstream.live import LiveUpstream
from paddock.doors.network.upstream.stand_in import StandInUpstream, as_response, world_request
from paddock.doors.network.upstream_request import UpstreamRequest, make_upstream_request
from paddock.gate.executors import Done, refusal
from paddock.model.action import Action
from paddock.world.asgi import HttpAnswer, WorldRequest
from paddock.world.world import StandIn

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext
    from paddock.world.services.draft import DraftService

MAX_OVERLAID = 8 << 20  # a longer answer comes as it is


class DraftReadUpstream(Upstream):
    """Asks the real server for what the draft does not know by itself, and lays the captured writes
    over its answer."""

    def __init__(
        self, context: DoorContext, origin: Origin, proposal: RequestProposal, stand_in: StandIn
    ) -> None:
        self._context = context
        self._origin = origin
        self._proposal = proposal
        self._stand_in = stand_in

    async def answer(self, action: Action, client: HttpExchange) -> Done:
        live = partial(LiveUpstream, self._context, self._origin, self._proposal, is_plain=True)
        arguments = action.arguments
        if (arguments["host"], arguments["port"]) != (self._origin.host, self._origin.port):
            return await live().answer(action, client)  # an approver sent it elsewhere
        draft = self._draft
        sent = make_upstream_request(
            self._context.custody, self._origin, self._proposal, action, is_real=False
        )
        request = world_request(sent.request, sent.headers, self._origin, self._proposal)
        if draft.is_write(request):
            return refusal("It writes, and writes are kept here. It was not sent.")
        if not draft.needs_upstream(request):  # the real server knows nothing of it
            stand_in = StandInUpstream(self._context, self._origin, self._proposal, self._stand_in)
            with ended_by_disconnect(client):
                return await stand_in.give(draft.answered(request), action, client)
        upstream = live(
            change_request=partial(self._narrow, request),
            change_response=partial(self._overlay, request),
        )
        return await upstream.answer(action, client)

    @property
    def _draft(self) -> DraftService:
        from paddock.world.services.draft import DraftService

        assert isinstance(self._stand_in.service, DraftService)
        return self._stand_in.service

    def _narrow(self, request: WorldRequest, sent: UpstreamRequest) -> UpstreamRequest:
        """Leave out headers with which the answer could not be overlaid."""
        names = {name for name, _ in self._draft.upstream(request).headers}
        headers = [pair for pair in sent.headers if pair[0].lower() in names]
        return replace(sent, headers=headers, request=replace(sent.request, headers=headers))

    async def _overlay(self, request: WorldRequest, response: Response) -> Response:
        body = await _whole(response)
        if body is None:
            return response
        headers = without(response.headers, b"content-encoding")
        scrubber = self._context.custody.scrubber(self._origin.host)
        if scrubber is not None:  # a draft keeps what it learns, and a host may say a value again
            headers = scrubber.scrub_headers(headers)
            body = await self._context.work.search(scrubber.scrub, body)
        status, headers, body = self._draft.read(request, response.status, headers, body)
        overlaid = as_response(HttpAnswer(status, headers, body))
        return replace(overlaid, version=response.version)


async def _whole(response: Response) -> bytes | None:
    """Return the body of an answer in JSON, decoded. None where nothing can be laid over it."""
    kind = b", ".join(values_of(response.headers, b"content-type")).lower()
    length = response.body.length
    if b"json" not in kind and response.status < 400:
        return None
    if length is not None and length > MAX_OVERLAID:
        return None
    decoder = decoder_of(response.headers)
    parts, size, body = [], 0, response.body
    while data := await body.read():
        for piece in decoder.feed(data):
            size += len(piece)
            if size > MAX_OVERLAID:
                raise BadMessage(502, "the answer is too long for a draft to be laid over it")
            parts.append(piece)
    decoder.finish()
    return b"".join(parts)
