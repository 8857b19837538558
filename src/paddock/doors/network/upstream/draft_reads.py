"""Read real, write fake: a read goes to the real server, and what was written before shows in its
answer. A write never comes here; what looks like a read and is none is not sent either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from paddock.doors.network.exchange import BadMessage, Response, values_of, without
from paddock.doors.network.layers.answer_filter import decoder_of
from paddock.doors.network.transport.pool import ServerConnection
from paddock.doors.network.upstream.stand_in import AtStandIn, Standing, as_response, world_request
from paddock.doors.network.upstream_request import UpstreamRequest, make_upstream_request
from paddock.gate.executors import Done, refusal
from paddock.model.action import Action
from paddock.world.asgi import HttpAnswer, WorldRequest

if TYPE_CHECKING:
    from paddock.world.services.draft import Draft

MAX_OVERLAID = 8 << 20  # a longer answer comes as it is


class Reading(AtStandIn):
    """The executor of a read whose writes are kept here."""

    _asked: WorldRequest | None = None

    async def __call__(self, action: Action) -> Done:
        words = action.arguments
        if (words["host"], words["port"]) != (self._origin.host, self._origin.port):
            return await super().__call__(action)  # an approver sent it elsewhere
        draft = self._draft
        sent = make_upstream_request(
            self._context.custody, self._origin, self._proposal, action, is_real=False
        )
        asked = world_request(sent.request, sent.headers, self._origin, self._proposal)
        if draft.is_write(asked):
            return refusal("It writes, and writes are kept here. It was not sent.")
        if not draft.needs_upstream(asked):
            return await self._from_here(action, draft.answered(asked))
        self._asked = asked
        return await super().__call__(action)

    @property
    def _draft(self) -> Draft:
        from paddock.world.services.draft import Draft

        assert isinstance(self._stand_in.service, Draft)
        return self._stand_in.service

    async def _from_here(self, action: Action, answer: HttpAnswer) -> Done:
        """What the real server knows nothing of."""
        standing = _Said(
            self._context, self._exchange, self._origin, self._proposal, self._stand_in
        )
        standing.said = answer
        done = await standing(action)
        self.is_answered = standing.is_answered
        return done

    def _outgoing(self, action: Action) -> UpstreamRequest:
        sent = make_upstream_request(
            self._context.custody, self._origin, self._proposal, action, is_plain=True
        )
        self._check_clear(sent)
        if self._asked is None:
            return sent
        kept = {name for name, _ in self._draft.upstream(self._asked).headers}
        headers = [one for one in sent.headers if one[0].lower() in kept]
        return replace(sent, headers=headers, request=replace(sent.request, headers=headers))

    async def _answer(
        self, sent: UpstreamRequest, line: ServerConnection, response: Response
    ) -> Done:
        if self._asked is None or response.status == 101:
            return await super()._answer(sent, line, response)
        body = await _whole(response)
        if body is None:
            return await super()._answer(sent, line, response)
        plain = without(response.headers, b"content-encoding")
        scrubber = self._context.custody.scrubber(sent.endpoint.host)
        if scrubber is not None:  # a draft keeps what it learns, and a host may say a value again
            plain = scrubber.scrub_headers(plain)
            body = await self._context.work.search(scrubber.scrub, body)
        status, headers, body = self._draft.read(self._asked, response.status, plain, body)
        laid = as_response(HttpAnswer(status, headers, body))
        return await super()._answer(sent, line, replace(laid, version=response.version))


class _Said(Standing):
    """A stand-in whose answer is known already."""

    said: HttpAnswer

    async def _answered(self, sent: UpstreamRequest) -> Response:
        return as_response(self.said)


async def _whole(response: Response) -> bytes | None:
    """The body of an answer in JSON, decoded. None where there is none to lay anything over."""
    kind = b", ".join(values_of(response.headers, b"content-type")).lower()
    length = response.body.length
    if b"json" not in kind and response.status < 400:
        return None
    if length is not None and length > MAX_OVERLAID:
        return None
    decoder = decoder_of(response)
    parts, size, body = [], 0, response.body
    while data := await body.read():
        for piece in decoder.feed(data):
            size += len(piece)
            if size > MAX_OVERLAID:
                raise BadMessage(502, "the answer is too long for a draft to be laid over it")
            parts.append(piece)
    decoder.finish()
    return b"".join(parts)
