"""What happens to an answer on its way to the agent: decompressed where it must be read, values of
secrets taken out, tool calls of a model decided on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from paddock.doors.network.exchange import BadMessage, Headers, Response, header, without
from paddock.doors.network.model_actions import decides_on_calls, refusal_of
from paddock.doors.network.model_wire.answer import Answer, ToolCall
from paddock.doors.network.model_wire.editor import AnswerEditor
from paddock.doors.network.model_wire.prices import cost_of
from paddock.doors.network.model_wire.reader import AnswerReader
from paddock.doors.network.model_wire.wire import Wire
from paddock.doors.network.outgoing import Outgoing
from paddock.doors.network.scrub import Decoder, Scrubber, decoder_for
from paddock.doors.network.services import Services
from paddock.journal.errors import JournalBroken


class AnswerFilter:
    """One answer. Most have nothing to filter, and pass as they are."""

    def __init__(
        self, services: Services, sent: Outgoing, response: Response, wire: Wire | None
    ) -> None:
        self._services = services
        self._step = sent.action.step
        self._scrubber: Scrubber | None = services.custody.scrubber(sent.place.host)
        self._stream = self._scrubber.stream() if self._scrubber is not None else None
        self._wire = wire if response.status < 400 else None
        self._decoder: Decoder | None = None
        self._reader: AnswerReader | None = None
        self._editor: AnswerEditor | None = None
        self._answer: Answer | None = None
        self._model = str(sent.action.arguments.get("model") or "")
        if self._stream is not None or self._wire is not None:
            self._decoder = _decoder(response)
        if self._wire is not None:
            self._listen(self._wire, response)

    @property
    def is_needed(self) -> bool:
        """Whether the body has to come by here; its length may then change."""
        return self._decoder is not None

    def reason(self, reason: bytes) -> bytes:
        return reason if self._scrubber is None else self._scrubber.scrub(reason)

    def headers(self, headers: Headers) -> Headers:
        """Also of trailers."""
        if self._decoder is not None:
            headers = without(headers, b"content-encoding")
        return headers if self._scrubber is None else self._scrubber.scrub_headers(headers)

    async def feed(self, data: bytes) -> AsyncIterator[bytes]:
        """What may go on to the client, piece by piece: a little of what is compressed may be
        much."""
        assert self._decoder is not None
        for piece in self._decoder.feed(data):
            for part in await self._clean(piece):
                yield part

    async def finish(self) -> list[bytes]:
        assert self._decoder is not None
        self._decoder.finish()
        rest = self._stream.finish() if self._stream is not None else b""
        sent = await self._edited(rest) if rest else []
        if self._editor is not None:
            sent += await self._decided(self._editor.finish())
            if self._editor.problem is not None:
                raise BadMessage(502, f"the model's answer: {self._editor.problem}")
        if self._reader is not None:
            self._answer = self._reader.finish()
        return sent

    def record(self) -> dict[str, Any]:
        """For the journal."""
        if self._answer is None:
            return {}
        said = {k: v for k, v in self._answer.as_json().items() if v not in (None, [], "", False)}
        return {"answer": said, **({"edited": True} if self._is_edited else {})}

    def cost(self) -> dict[str, Any]:
        """Tokens, and money where the price is known."""
        if self._answer is None or self._answer.usage is None:
            return {}
        usage = self._answer.usage
        cost: dict[str, Any] = {"input_tokens": usage.input, "output_tokens": usage.output}
        micros = cost_of(self._answer.model or self._model, usage)
        return cost if micros is None else {**cost, "usd_micros": micros}

    @property
    def _is_edited(self) -> bool:
        return self._editor is not None and self._editor.is_changed

    def _listen(self, wire: Wire, response: Response) -> None:
        kind = (header(response.headers, b"content-type") or b"").lower()
        is_stream = kind.startswith(b"text/event-stream")
        self._reader = AnswerReader(wire, is_stream=is_stream)
        if decides_on_calls(self._services.policy()):
            self._editor = AnswerEditor(wire, is_stream=is_stream)

    async def _clean(self, data: bytes) -> list[bytes]:
        if self._stream is not None:
            data = self._stream.feed(data)
        return await self._edited(data) if data else []

    async def _edited(self, data: bytes) -> list[bytes]:
        if self._reader is not None:
            self._reader.feed(data)
        if self._editor is None:
            return [data]
        sent = await self._decided(self._editor.feed(data))
        if self._editor.problem is not None:
            raise BadMessage(502, f"the model's answer: {self._editor.problem}")
        return sent

    async def _decided(self, parts: Iterable[bytes | ToolCall]) -> list[bytes]:
        assert self._editor is not None
        sent: list[bytes] = []
        for part in parts:
            if isinstance(part, ToolCall):
                part = self._editor.resolve(part, await self._refusal(part))
            if part:
                sent.append(part)
        return sent

    async def _refusal(self, call: ToolCall) -> str | None:
        assert self._wire is not None
        try:
            return await refusal_of(self._services.gate(), call, self._wire, self._step)
        except (JournalBroken, OSError):
            return "it could not be recorded"


def _decoder(response: Response) -> Decoder:
    coding = header(response.headers, b"content-encoding")
    decoder = decoder_for(coding)
    if decoder is None:
        shown = (coding or b"").decode("latin-1")[:40]
        raise BadMessage(502, f"the answer is compressed as {shown!r}, which cannot be looked into")
    return decoder
