"""What happens to an answer on its way to the agent: decompressed where it must be read, values of
secrets taken out, tool calls of a model decided on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from itertools import chain
from typing import Any

from paddock.doors.network.context import DoorContext
from paddock.doors.network.exchange import (
    BadMessage,
    Body,
    Headers,
    Response,
    header,
    values_of,
    without,
)
from paddock.doors.network.heavy_work import LIGHT_BYTES, is_light
from paddock.doors.network.model_actions import decides_on_calls, refusal_of
from paddock.doors.network.model_wire.answer import Answer, ToolCall
from paddock.doors.network.model_wire.editor import AnswerEditor
from paddock.doors.network.model_wire.prices import cost_of
from paddock.doors.network.model_wire.reader import AnswerReader
from paddock.doors.network.model_wire.sse import KEEP_ALIVE
from paddock.doors.network.model_wire.wire import Wire
from paddock.doors.network.secrets.scrubber import (
    Decoder,
    ScrubbedStream,
    Scrubber,
    decoder_for,
    has_plain_messages,
)
from paddock.doors.network.upstream_request import UpstreamRequest
from paddock.journal.errors import JournalBroken

_SIGN_S = 10.0
_PIECE = 32 << 10  # bytes that are decoded in one job, so that other sandboxes have a turn
_END = b"\0end"  # behind the last part of an answer


class AnswerFilter:
    """One answer. Most have nothing to filter, and pass as they are."""

    def __init__(
        self,
        context: DoorContext,
        sent: UpstreamRequest,
        response: Response,
        wire: Wire | None,
        *,
        has_body: bool,
    ) -> None:
        self._context = context
        self._step = sent.action.step
        self._scrubber: Scrubber | None = context.custody.scrubber(sent.endpoint.host)
        self._stream = self._scrubber.stream() if self._scrubber is not None else None
        self._wire = wire if response.status < 400 else None
        self._decoder: Decoder | None = None
        self._reader: AnswerReader | None = None
        self._editor: AnswerEditor | None = None
        self._answer: Answer | None = None
        self._is_events = self._is_compressed = False
        self._is_parsed_in_thread = False
        self._model = str(sent.action.arguments.get("model") or "")
        if has_body and (self._stream is not None or self._wire is not None):
            self._decoder = decoder_of(response)
            self._is_compressed = bool(values_of(response.headers, b"content-encoding"))
        if self._wire is not None and has_body:
            self._listen(self._wire, response)

    @property
    def is_needed(self) -> bool:
        """Return whether the body has to come by here."""
        return self._decoder is not None

    @property
    def keeps_length(self) -> bool:
        """Return whether the body is as long as it was, whatever is taken out of it."""
        if self._scrubber is None or self._wire is not None or self._is_compressed:
            return False
        return self._scrubber.keeps_length

    def reason(self, reason: bytes) -> bytes:
        return reason if self._scrubber is None else self._scrubber.scrub(reason)

    async def headers(self, headers: Headers) -> Headers:
        """Also of trailers."""
        if self._decoder is not None:
            headers = without(headers, b"content-encoding")
        if self._scrubber is None:
            return headers
        if is_light(*chain.from_iterable(headers)):
            return self._scrubber.scrub_headers(headers)
        return await self._context.work.run(self._scrubber.scrub_headers, headers)

    @property
    def is_held(self) -> bool:
        """Whether the whole body is looked at before any of it goes on; then its head waits too."""
        return self._editor is not None and not self._is_events

    async def parts(self, body: Body) -> AsyncGenerator[bytes, None]:
        """What may go on to the client, piece by piece: a little of what is compressed may be
        much. Raises BadMessage when the rest cannot go on."""
        assert self._decoder is not None
        while data := await body.read():
            for piece in self._decoder.feed(data):
                async for part in self._clean(piece):
                    yield part
        self._decoder.finish()
        rest = self._stream.finish() if self._stream is not None else b""
        async for part in self._edited(rest):
            yield part
        if self._editor is not None:
            self._is_parsed_in_thread |= not self._is_events
            async for part in self._decided(self._editor, self._editor.finish()):
                yield part
        if self._reader is not None:
            self._answer = await self._read_to_end(self._reader)

    async def _read_to_end(self, reader: AnswerReader) -> Answer:
        """An answer that is not streamed is parsed now, all of it; so is an event without an
        end."""
        if self._is_events and reader.held_bytes <= LIGHT_BYTES:
            return reader.finish()
        return await self._context.work.run(reader.finish)

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
        self._is_events = kind.startswith(b"text/event-stream")
        self._reader = AnswerReader(wire, is_stream=self._is_events)
        if decides_on_calls(self._context.policy()):
            if not _is_utf8(response):
                raise BadMessage(502, "the model's answer is not in UTF-8")
            self._editor = AnswerEditor(wire, is_stream=self._is_events)

    async def _clean(self, data: bytes) -> AsyncIterator[bytes]:
        if self._stream is not None:
            data = await self._scrubbed(self._stream, data)
        async for part in self._edited(data):
            yield part

    async def _scrubbed(self, stream: ScrubbedStream, data: bytes) -> bytes:
        """Take secrets out of data."""
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
        return b"".join([await self._context.work.search(stream.feed, one) for one in pieces])

    async def _edited(self, data: bytes) -> AsyncIterator[bytes]:
        if not data:
            return
        if self._reader is not None:
            # The event that ends in these data may have begun megabytes ago.
            is_long = self._reader.held_bytes + len(data) > LIGHT_BYTES
            self._is_parsed_in_thread = self._is_events and is_long
            if self._is_parsed_in_thread:
                await self._context.work.run(self._reader.feed, data)
            else:
                self._reader.feed(data)
        if self._editor is None:
            yield data
            return
        async for part in self._decided(self._editor, self._editor.feed(data)):
            yield part

    async def _decided(
        self, editor: AnswerEditor, parts: Iterable[bytes | ToolCall]
    ) -> AsyncIterator[bytes]:
        async for part in self._each(parts):
            if isinstance(part, ToolCall):
                asking = asyncio.ensure_future(self._refusal(part))
                async for sign in self._waiting(asking):
                    yield sign
                part = editor.resolve(part, asking.result())
            if part:
                yield part
        if editor.problem is not None:
            raise BadMessage(502, f"the model's answer: {editor.problem}")

    async def _each(self, parts: Iterable[bytes | ToolCall]) -> AsyncIterator[bytes | ToolCall]:
        """The parts, each made when it is taken. Long events, and at its end an answer that is not
        streamed, are parsed in a thread."""
        left = iter(parts)
        while True:
            if self._is_parsed_in_thread:
                part = await self._context.work.run(next, left, _END)
            else:
                part = next(left, _END)
            if part is _END:
                return
            yield part

    async def _waiting(self, asking: asyncio.Future[str | None]) -> AsyncIterator[bytes]:
        """Signs of life, while a person is asked and where the format has room for them."""
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_SIGN_S)
                if not asking.done() and self._is_events:
                    yield KEEP_ALIVE
        finally:
            if not asking.done():
                asking.cancel()  # the client is gone: nobody is left to ask for

    async def _refusal(self, call: ToolCall) -> str | None:
        assert self._wire is not None
        try:
            return await refusal_of(self._context.gate(), call, self._wire, self._step)
        except (JournalBroken, OSError):
            return "it could not be recorded"


def _is_utf8(response: Response) -> bool:
    """Return whether no client decodes the text in another way than we do."""
    declared = b";".join(values_of(response.headers, b"content-type")).lower()
    charsets = [one.strip(b" \t\"'") for one in re.findall(rb"charset\s*=([^;,]*)", declared)]
    if declared.count(b"charset") != len(charsets):
        return False  # `charset*=utf-8''utf-16` of RFC 2231, which clients understand as well
    return all(one in (b"utf-8", b"utf8", b"us-ascii") for one in charsets)


def decoder_of(response: Response) -> Decoder:
    """What undoes the compression of an answer. Raises BadMessage when nothing does."""
    codings = values_of(response.headers, b"content-encoding")
    coding = b", ".join(codings)  # of several, none is known
    decoder = decoder_for(coding)
    if decoder is None or not has_plain_messages(response.headers):
        # Its name is not repeated: a server may have put anything there, a value too.
        raise BadMessage(502, "the answer is compressed in a way that cannot be looked into")
    return decoder
