"""The way of an answer to the client: which layers it passes, in one list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.doors.network.exchange import SWITCHING_PROTOCOLS, Headers, HttpExchange, has_body
from paddock.doors.network.http1.messages import end_to_end
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.doors.network.layers.client_side import ClientSide
from paddock.doors.network.layers.decoded import DecodedAnswer
from paddock.doors.network.layers.model_answer import EditedAnswer
from paddock.doors.network.layers.pacer import PacedAnswer
from paddock.doors.network.layers.recorder import AnswerRecorder
from paddock.doors.network.layers.scrubbed import ScrubbedAnswer
from paddock.llm.formats import Wire
from paddock.model.action import Action

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext


class AnswerPath(ExchangeLayer):
    """The exchange on which an upstream answers, with the headers as the server sent them.

    Which layers an answer needs is known when it begins: a body that nobody has to read passes as
    it is.
    """

    def __init__(
        self, client: ClientSide, context: DoorContext, action: Action, wire: Wire | None
    ) -> None:
        super().__init__(client)
        self.recorder = AnswerRecorder(client, context)
        self._context = context
        self._action = action  # as it was decided on: an approver may have edited the request
        self._wire = wire  # of a request to a model
        self._model: EditedAnswer | None = None

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        self._inner = self._layers(status, headers)
        if status != SWITCHING_PROTOCOLS:
            headers = end_to_end(headers)
        await self._inner.begin(status, headers, reason)

    def _layers(self, status: int, headers: Headers) -> HttpExchange:
        """Put the layers around the client, from there to the server.

        client | faults | client side | recorder | pacing | model | scrubbing | decoding | server

        Faults on purpose are nearest to the client, so that the journal has what the server said;
        they are around the client when it comes here, since they also strike errors of ours.
        Pacing is behind the recorder, because what it waits for is recorded as coming earlier.
        Decoding is first, because nothing can be found in compressed bytes, and secrets are taken
        out before a model's answer is read for the journal. Raises BadMessage for a body that
        must be read and cannot.
        """
        context = self._context
        is_with_body = has_body(str(self._action.arguments["method"]), status)
        scrubber = context.custody.scrubber(str(self._action.arguments["host"]))
        wire = self._wire if is_with_body and status < 400 else None
        layer: HttpExchange = self.recorder
        if context.pacer is not None and status != SWITCHING_PROTOCOLS:
            layer = PacedAnswer(
                self.recorder, context.pacer, lambda: context.position, has_body=is_with_body
            )
        if wire is not None:
            layer = self._model = EditedAnswer(layer, context, wire, self._action, headers)
        if scrubber is not None:
            layer = ScrubbedAnswer(layer, scrubber, context.work, has_body=is_with_body)
        if is_with_body and (wire is not None or scrubber is not None):
            layer = DecodedAnswer(layer, headers)
        return layer

    async def record(self) -> dict[str, Any]:
        """Return what the journal gets of the answer; what was captured is stored first."""
        record = await self.recorder.record()
        if self._model is not None:
            record |= self._model.record()
        return record

    def cost(self) -> dict[str, Any]:
        """Return the cost of a model's answer."""
        return {} if self._model is None else self._model.cost()
