"""An answer as it went by: what is kept of it for the journal. It only reads, and never raises."""

from __future__ import annotations

from paddock.llm.answer import ModelAnswer, ToolCall
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.event_source import event_source
from paddock.llm.formats import Wire
from paddock.llm.json_text import MAX_BODY, Unreadable, load
from paddock.llm.tool_calls import NOTHING, CallNotes
from paddock.llm.traffic import one_object, traffic_format


class AnswerReader:
    """Feed it the body of an answer in chunks of any size; `finish` gives the answer."""

    def __init__(self, wire: Wire, *, is_stream: bool, content_type: bytes = b"") -> None:
        self._format = traffic_format(wire.api)
        self._is_stream = is_stream
        self._reader = event_source(content_type)
        self._calls = self._format.tool_calls()
        self._gathered = AnswerBuilder()
        self._found: list[ToolCall] = []
        self._body = bytearray()
        self._call_bytes = 0
        self._problem: str | None = None

    @property
    def is_broken(self) -> bool:
        """True if a part of it could not be read; what came before it is kept."""
        return self._problem is not None

    @property
    def held_bytes(self) -> int:
        """Return how much of a stream waits for the rest of its event."""
        return self._reader.held_bytes

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._problem is not None:
            return
        try:
            self._feed(chunk)
        except Unreadable as error:
            self._problem = str(error)
        except Exception as error:
            self._problem = f"the answer could not be read ({type(error).__name__})"

    def finish(self) -> ModelAnswer:
        """Return the answer, as far as it came."""
        if self._problem is None:
            self._finish()
        try:
            usage = self._format.usage_of(self._gathered) if self._gathered.usage else None
        except Exception:
            usage = None
        return self._gathered.answer(self._found, usage, self._problem)

    def _feed(self, chunk: bytes) -> None:
        if self._is_stream:
            for raw in self._reader.feed(chunk):
                self._read(raw)
            return
        self._body += chunk
        if len(self._body) > MAX_BODY:
            self._body.clear()
            raise Unreadable(f"the answer is larger than {MAX_BODY} bytes")

    def _finish(self) -> None:
        try:
            if not self._is_stream:
                self._read_body()
            elif rest := self._reader.rest():
                self._read(rest)
        except Unreadable as error:
            self._problem = str(error)
        except Exception as error:
            self._problem = f"the answer could not be read ({type(error).__name__})"
        if self._problem is None and not self._gathered.is_over:
            self._problem = "the answer ends in the middle"

    def _read(self, raw: bytes) -> None:
        event = self._reader.read(raw)
        if not event.data:
            return
        if event.is_end:
            self._gathered.is_over = True
            self._keep(self._calls.note_end())
            return
        data = one_object(load(event.data))
        self._format.collect_event(self._gathered, data)
        noted = self._calls.note(data)
        if noted.touched:
            self._call_bytes += len(raw)
            if self._call_bytes > MAX_BODY:
                raise Unreadable(f"the tool calls are larger than {MAX_BODY} bytes")
        self._keep(noted)

    def _read_body(self) -> None:
        body = self._format.body_of(load(bytes(self._body)))
        self._format.collect_body(self._gathered, body)
        self._gathered.is_over = True
        self._keep(self._calls.note_body(body))

    def _keep(self, noted: CallNotes) -> None:
        if noted is not NOTHING:
            self._found += noted.completed
