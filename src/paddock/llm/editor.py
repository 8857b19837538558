"""Answers on their way to the agent: text goes on at once, a tool call waits for its verdict.

Everything behind a call that waits, waits too, so that an answer whose calls are all allowed goes
out byte for byte as it came. What cannot be read does not go out, nor does anything after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from paddock.llm.answer import ToolCall
from paddock.llm.event_source import AnswerEvent, event_source
from paddock.llm.formats import Wire
from paddock.llm.json_text import MAX_BODY, Unreadable, dump, load
from paddock.llm.tool_calls import NOTHING, CallNotes, holder
from paddock.llm.traffic import traffic_format

_NO_VERDICT = "nobody decided on it"


class _Held(msgspec.Struct, frozen=True):
    """A part of the answer on its way, with the calls that it waits for."""

    raw: bytes
    noted: CallNotes
    needed: frozenset[Hashable]
    data: dict[str, Any] | None = None
    name: str | None = None
    whole: Any = None  # of an answer that is not streamed: the value that `data` is a view of


class AnswerEditor:
    """One answer. Feed it, send the bytes that come, and for each `ToolCall` ask for a verdict and
    send what `resolve` gives before you take the next part:

        for part in editor.feed(chunk):
            if isinstance(part, ToolCall):
                part = editor.resolve(part, await refusal_of(part))
            await send(part)

    After `finish`, `problem` says whether the answer could not be given in full; cut it then.
    """

    def __init__(self, wire: Wire, *, is_stream: bool, content_type: bytes = b"") -> None:
        self.problem: str | None = None
        self.is_too_large = False
        self.is_changed = False  # a call was refused
        self._is_stream = is_stream
        self._format = traffic_format(wire.api)
        self._calls = self._format.tool_calls()
        self._reader = event_source(content_type)
        self._incoming: deque[bytes] = deque()
        self._queue: deque[_Held] = deque()
        self._held_bytes = 0
        self._ready: list[bytes] = []
        self._waiting: deque[ToolCall] = deque()
        self._verdicts: dict[Hashable, str | None] = {}
        self._body = bytearray()

    @property
    def is_broken(self) -> bool:
        """True if the answer cannot be read; nothing more will go out."""
        return self.problem is not None

    def feed(self, chunk: bytes) -> Iterator[bytes | ToolCall]:
        """Return the parts that may go on now, and calls to decide. Take all of them."""
        if self.is_broken:
            return iter(())
        if not self._is_stream:
            self._buffer(chunk)
            return iter(())
        try:
            self._incoming.extend(self._reader.feed(chunk))
        except Unreadable as error:
            self.is_too_large = True
            self._break(str(error))
        return self._parts()

    def finish(self) -> Iterator[bytes | ToolCall]:
        """Return the last parts at the end of the answer, as `feed` does."""
        if self.is_broken:
            return iter(())
        if self._is_stream:
            rest = self._reader.rest()
            if rest:
                self._incoming.append(rest)
        elif self._body:
            self._incoming.append(bytes(self._body))
            self._body.clear()
        return self._last_parts()

    def resolve(self, call: ToolCall, refusal: str | None) -> bytes:
        """Decide on a call that `feed` or `finish` returned: None allows it, a text says why not.
        Return what may go out now."""
        if not self._waiting or self._waiting[0].key != call.key:
            raise ValueError(f"the call of {call.name} is not the one that waits for a verdict")
        self._waiting.popleft()
        self._verdicts[call.key] = refusal
        self.is_changed = self.is_changed or refusal is not None
        self._drain()
        return self._take_ready()

    def _parts(self) -> Iterator[bytes | ToolCall]:
        while True:
            while self._incoming and not self._waiting and not self.is_broken:
                self._accept(self._incoming.popleft())
            if self._ready:
                yield self._take_ready()
            if not self._waiting:
                return
            call = self._waiting[0]
            yield call
            if self._waiting and self._waiting[0] is call:
                ready = self.resolve(call, _NO_VERDICT)
                if ready:
                    yield ready

    def _last_parts(self) -> Iterator[bytes | ToolCall]:
        yield from self._parts()
        if self._queue and not self.is_broken:
            self._break("the answer ends in the middle of a tool call")

    def _accept(self, raw: bytes) -> None:
        """Read one part and put it in the queue. Any error breaks the answer off."""
        try:
            held = self._read(raw)
            if held.noted.is_error and self._queue:
                self._fail(held)
                return
            self._queue.append(held)
            self._held_bytes += len(raw)
            self._waiting.extend(held.noted.completed)
            self._drain()
            if self._held_bytes > MAX_BODY:
                self.is_too_large = True
                raise Unreadable(f"more than {MAX_BODY} bytes wait for a tool call")
        except Unreadable as error:
            self._break(str(error))
        except Exception as error:
            self._break(f"the answer could not be read ({type(error).__name__})")

    def _read(self, raw: bytes) -> _Held:
        if not self._is_stream:
            return self._held_body(raw)
        event = self._reader.read(raw)
        if event.is_end:
            return self._end(event)
        if not event.data:
            return _Held(raw, NOTHING, frozenset())
        return self._held(raw, load(event.data), event.name)

    def _end(self, event: AnswerEvent) -> _Held:
        noted = self._calls.note_end()
        return _Held(event.raw, noted, frozenset(noted.needed))

    def _held_body(self, raw: bytes) -> _Held:
        value = load(raw)
        body = holder(self._format.body_of(value))
        noted = self._calls.note_body(body)
        return _Held(raw, noted, frozenset(noted.needed), body, whole=value)

    def _held(self, raw: bytes, data: Any, name: str | None) -> _Held:
        data = holder(data)
        noted = self._calls.note(data)
        if noted.touched:
            self._reader.check_name(name, data)
        return _Held(raw, noted, frozenset(noted.needed), data, name)

    def _drain(self) -> None:
        """Move what is decided from the queue to what may go out."""
        try:
            while self._queue and self._queue[0].needed <= self._verdicts.keys():
                held = self._queue.popleft()
                self._held_bytes -= len(held.raw)
                self._ready.append(self._edited(held))
        except Exception as error:
            self._break(f"the answer could not be edited ({type(error).__name__})")

    def _edited(self, held: _Held) -> bytes:
        if held.data is None:
            return held.raw
        if not self._is_stream:
            if not self.is_changed:
                return held.raw
            self._calls.edit_body(held.data, held.noted, self._verdicts)
            return dump(held.whole)
        events = self._calls.edit(held.data, held.noted, self._verdicts)
        if events is None:
            return held.raw
        return b"".join(self._reader.written(event, held.name) for event in events)

    def _buffer(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > MAX_BODY:
            self._body.clear()
            self.is_too_large = True
            self._break(f"the answer is larger than {MAX_BODY} bytes")

    def _fail(self, held: _Held) -> None:
        """Let the vendor's error go out, and nothing of the call that it cut."""
        self._ready.append(held.raw)
        self._break("the answer failed in the middle of a tool call")

    def _break(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._queue.clear()
        self._incoming.clear()
        self._waiting.clear()
        self._held_bytes = 0

    def _take_ready(self) -> bytes:
        ready = b"".join(self._ready)
        self._ready.clear()
        return ready
