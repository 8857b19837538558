"""An answer as it went by: what is kept of it for the journal. It only reads, and never raises."""

from __future__ import annotations

from typing import Any, assert_never

from paddock.doors.network.model_wire import chat, messages, responses
from paddock.doors.network.model_wire.answer import Answer, ToolCall, Usage
from paddock.doors.network.model_wire.calls import NOTHING, Noted, calls_of
from paddock.doors.network.model_wire.gathering import Gathered
from paddock.doors.network.model_wire.reading import MAX_BODY, Unreadable, load
from paddock.doors.network.model_wire.sse import EventReader
from paddock.doors.network.model_wire.wire import Api, Wire


class AnswerReader:
    """Feed it the body of an answer in chunks of any size; `finish` gives the answer."""

    def __init__(self, wire: Wire, *, is_stream: bool) -> None:
        self._wire = wire
        self._is_stream = is_stream
        self._reader = EventReader()
        self._calls = calls_of(wire)
        self._gathered = Gathered()
        self._found: list[ToolCall] = []
        self._body = bytearray()
        self._call_bytes = 0
        self._problem: str | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a part of it could not be read; what came before it is kept."""
        return self._problem is not None

    @property
    def held_bytes(self) -> int:
        """Return how much of a stream waits for the rest of its event."""
        return self._reader.held_bytes

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        if self._problem is not None:
            return
        try:
            self._feed(chunk)
        except Unreadable as error:
            self._problem = str(error)
        except Exception as error:
            self._problem = f"the answer could not be read ({type(error).__name__})"

    def finish(self) -> Answer:
        """The answer, as far as it came."""
        if self._problem is None:
            self._finish()
        try:
            usage = _usage(self._wire, self._gathered)
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
        data = _object(load(event.data))
        _gather(self._wire, self._gathered, data)
        noted = self._calls.note(data)
        if noted.touched:
            self._call_bytes += len(raw)
            if self._call_bytes > MAX_BODY:
                raise Unreadable(f"the tool calls are larger than {MAX_BODY} bytes")
        self._keep(noted)

    def _read_body(self) -> None:
        body = _object(load(bytes(self._body)))
        _gather_body(self._wire, self._gathered, body)
        self._gathered.is_over = True
        self._keep(self._calls.note_body(body))

    def _keep(self, noted: Noted) -> None:
        if noted is not NOTHING:
            self._found += noted.completed


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("the answer has something else where an object belongs")
    return value


def _gather(wire: Wire, gathered: Gathered, data: dict[str, Any]) -> None:
    match wire.api:
        case Api.CHAT:
            chat.gather(gathered, data)
        case Api.MESSAGES:
            messages.gather(gathered, data)
        case Api.RESPONSES:
            responses.gather(gathered, data)
        case _ as never:
            assert_never(never)


def _gather_body(wire: Wire, gathered: Gathered, body: dict[str, Any]) -> None:
    match wire.api:
        case Api.CHAT:
            chat.gather(gathered, body)
        case Api.MESSAGES:
            messages.gather_message(gathered, body)
        case Api.RESPONSES:
            responses.gather_response(gathered, body)
        case _ as never:
            assert_never(never)


def _usage(wire: Wire, gathered: Gathered) -> Usage | None:
    if not gathered.usage:
        return None
    match wire.api:
        case Api.CHAT:
            return chat.usage_of(gathered)
        case Api.MESSAGES:
            return messages.usage_of(gathered)
        case Api.RESPONSES:
            return responses.usage_of(gathered)
        case _ as never:
            assert_never(never)
