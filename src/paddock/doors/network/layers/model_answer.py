"""The layer that reads the answer of a model, and decides on the tool calls in it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from paddock.doors.network.exchange import (
    BadMessage,
    Headers,
    HttpExchange,
    header,
    values_of,
    without,
)
from paddock.doors.network.heavy_work import LIGHT_BYTES
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.doors.network.model_actions import decides_on_calls, refusal_of
from paddock.journal.errors import JournalBroken
from paddock.llm.answer import ModelAnswer, ToolCall
from paddock.llm.editor import AnswerEditor
from paddock.llm.event_source import event_source, is_event_stream
from paddock.llm.formats import Wire
from paddock.llm.prices import cost_of
from paddock.llm.reader import AnswerReader
from paddock.model.action import Action

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext

_KEEP_ALIVE_S = 10.0
_END = b"\0end"  # behind the last part of an answer


class EditedAnswer(ExchangeLayer):
    """Reads an answer for the journal. Where the paddock file has rules for tools, each tool call
    in it is held until the gate has decided, and a refused one is edited out.

    Events of a stream go on one by one. An answer that is not streamed is edited as a whole, so its
    head waits, too. The body is plain and without secrets when it comes here.
    """

    def __init__(
        self,
        inner: HttpExchange,
        context: DoorContext,
        wire: Wire,
        action: Action,
        headers: Headers,
    ) -> None:
        """`headers` are those of the server. Raises BadMessage for an answer whose text a client
        may decode in another way."""
        super().__init__(inner)
        self._context = context
        self._wire = wire
        self._action = action
        kind = (header(headers, b"content-type") or b"").lower()
        self._is_events = is_event_stream(kind)
        self._keep_alive = event_source(kind).keep_alive
        self._reader = AnswerReader(wire, is_stream=self._is_events, content_type=kind)
        self._editor: AnswerEditor | None = None
        if decides_on_calls(context.policy()):
            if not _is_utf8(headers):
                raise BadMessage(502, "the model's answer is not in UTF-8")
            self._editor = AnswerEditor(wire, is_stream=self._is_events, content_type=kind)
        self._head: tuple[int, Headers, bytes] | None = None  # while it waits for the body
        self._is_parsed_in_thread = False
        self._answer: ModelAnswer | None = None

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        self._head = status, without(headers, b"content-length"), reason
        if self._editor is None or self._is_events:
            await self._begin_inner()

    async def send(self, data: bytes) -> None:
        # The event that ends in these data may have begun megabytes ago.
        is_long = self._reader.held_bytes + len(data) > LIGHT_BYTES
        self._is_parsed_in_thread = self._is_events and is_long
        if self._is_parsed_in_thread:
            await self._context.work.run(self._reader.feed, data)
        else:
            self._reader.feed(data)
        if self._editor is None:
            await self._inner.send(data)
        else:
            await self._send_decided(self._editor, self._editor.feed(data))

    async def finish(self, trailers: Headers | None = None) -> None:
        if self._editor is not None:
            self._is_parsed_in_thread |= not self._is_events
            await self._send_decided(self._editor, self._editor.finish())
        self._answer = await self._read_to_end()
        await self._begin_inner()
        await self._inner.finish(trailers)

    def record(self) -> dict[str, Any]:
        """Return what the journal gets of the answer."""
        if self._answer is None:
            return {}
        fields = self._answer.as_json().items()
        record: dict[str, Any] = {
            "answer": {name: value for name, value in fields if value not in (None, [], "", False)}
        }
        if self._editor is not None and self._editor.is_changed:
            record["edited"] = True
        return record

    def cost(self) -> dict[str, Any]:
        """Return tokens, and money where the price is known."""
        if self._answer is None or self._answer.usage is None:
            return {}
        usage = self._answer.usage
        cost: dict[str, Any] = {"input_tokens": usage.input, "output_tokens": usage.output}
        model = self._answer.model or str(self._action.arguments.get("model") or "")
        micros = cost_of(model, usage)
        if micros is not None:
            cost["usd_micros"] = micros
        return cost

    async def _begin_inner(self) -> None:
        """Let the head go on, if it has not."""
        if self._head is not None:
            head, self._head = self._head, None
            await self._inner.begin(*head)

    async def _read_to_end(self) -> ModelAnswer:
        """An answer that is not streamed is parsed now, all of it; so is an event without an
        end."""
        if self._is_events and self._reader.held_bytes <= LIGHT_BYTES:
            return self._reader.finish()
        return await self._context.work.run(self._reader.finish)

    async def _send_decided(self, editor: AnswerEditor, parts: Iterable[bytes | ToolCall]) -> None:
        """Send what the editor gives, each tool call after it was decided on. Parts are made when
        they are taken, in a thread where that takes long: for long events, and at the end of an
        answer that is not streamed."""
        remaining = iter(parts)
        while True:
            if self._is_parsed_in_thread:
                part = await self._context.work.run(next, remaining, _END)
            else:
                part = next(remaining, _END)
            if part is _END:
                break
            if isinstance(part, ToolCall):
                part = editor.resolve(part, await self._decide(part))
            if part:
                await self._begin_inner()
                await self._inner.send(part)
        if editor.problem is not None:
            raise BadMessage(502, f"the model's answer: {editor.problem}")

    async def _decide(self, call: ToolCall) -> str | None:
        """Return why the call is refused, or None. A person may be asked: meanwhile the client gets
        signs of life, where the format has room for them."""
        deciding = asyncio.ensure_future(self._refusal(call))
        try:
            while not deciding.done():
                await asyncio.wait({deciding}, timeout=_KEEP_ALIVE_S)
                if not deciding.done() and self._is_events and self._keep_alive:
                    await self._inner.send(self._keep_alive)
            return deciding.result()
        finally:
            if not deciding.done():
                deciding.cancel()  # the client is gone: nobody is left to ask for

    async def _refusal(self, call: ToolCall) -> str | None:
        try:
            return await refusal_of(self._context.gate(), call, self._wire, self._action.step)
        except (JournalBroken, OSError):
            return "it could not be recorded"


def _is_utf8(headers: Headers) -> bool:
    """Return whether no client decodes the text in another way than we do."""
    declared = b";".join(values_of(headers, b"content-type")).lower()
    matches = re.findall(rb"charset\s*=([^;,]*)", declared)
    charsets = [charset.strip(b" \t\"'") for charset in matches]
    if declared.count(b"charset") != len(charsets):
        return False  # `charset*=utf-8''utf-16` of RFC 2231, which clients understand as well
    return all(charset in (b"utf-8", b"utf8", b"us-ascii") for charset in charsets)
