"""Server-sent events, framed without loss: each event keeps the bytes that it came in.

The standard ends a line at CR, LF or CRLF. Clients differ. Those that use Python's `str.splitlines`
(httpx and what is built on it) also end one at VT, FF, FS, GS, RS, NEL, U+2028 and U+2029; some
read bytes as Latin-1 first; simple ones take every `data` line for an event of its own. An event in
which one of them could find something that another does not find is `Unreadable`. So is a byte
order mark: the standard drops it, and clients that do not, skip the line behind it.
"""

from __future__ import annotations

import re
from typing import Any

from paddock.llm.event_source import AnswerEvent, EventSource
from paddock.llm.json_text import MAX_BODY, Unreadable, dump

# May be sent between events while a person is asked. Google's client takes a comment for JSON.
KEEP_ALIVE = b"\n\n"
_LINE = re.compile(rb"\r\n|\n|\r")
_BLANK = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
# In UTF-8 the byte 85 is the second one of NEL and of other characters; in Latin-1 it is NEL.
_OTHER_BREAK = re.compile(rb"[\x0b\x0c\x1c-\x1e\x85]|\xe2\x80[\xa8\xa9]")
_FIELD = re.compile(rb"\s*(?:data|event|id|retry)\s*(?::|\Z)", re.IGNORECASE)
_KNOWN = frozenset({b"data", b"event", b"id", b"retry", b""})


class SseSource(EventSource):
    """Server-sent events."""

    keep_alive = KEEP_ALIVE

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._seen = 0  # bytes at the front in which no event ends
        self._has_names: bool | None = None  # of the events that have pieces of calls

    @property
    def held_bytes(self) -> int:
        """Return how much waits for the rest of its event."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The raw events that this chunk completes. `Unreadable` for one that is too large."""
        self._buffer += chunk
        raws: list[bytes] = []
        while (end := self._end()) is not None:
            raws.append(bytes(self._buffer[:end]))
            del self._buffer[:end]
            self._seen = 0
        if len(self._buffer) > MAX_BODY:
            raise Unreadable(f"an event of the answer is larger than {MAX_BODY} bytes")
        return raws

    def rest(self) -> bytes:
        """What stands after the last whole event, at the end of the stream."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def read(self, raw: bytes) -> AnswerEvent:
        """Raw events in their order. `Unreadable` for a line that the format does not have: a
        reader that is not strict might find something in it."""
        return _event(raw, _LINE.split(raw))

    def check_name(self, name: str | None, data: dict[str, Any]) -> None:
        # Anthropic's clients skip events without a name and those called `ping`; OpenAI's wrap
        # those called `thread.…`; a browser's hear only those called `message`, if not told.
        has_name = bool(name)
        if has_name and name != data.get("type", "message"):
            raise Unreadable("a piece of a tool call is in an event of another name")
        if self._has_names not in (None, has_name):
            raise Unreadable("some pieces of tool calls are in events with names, some are not")
        self._has_names = has_name

    def written(self, event: dict[str, Any], name: str | None) -> bytes:
        # Where events have names, the name is the type.
        kind = event.get("type")
        if name is not None and isinstance(kind, str):
            name = kind
        lead = b"" if name is None else b"event: " + name.encode() + b"\n"
        return lead + b"data: " + dump(event) + b"\n\n"

    def _end(self) -> int | None:
        if self._seen == 0 and self._buffer.startswith((b"\n", b"\r")):
            return self._leading()
        # An end may lie across the border of what was looked at before.
        found = _BLANK.search(self._buffer, max(0, self._seen - 3))
        self._seen = len(self._buffer)
        # After a CR at the very end, an LF may follow that belongs to it.
        if found is None or (found.end() == len(self._buffer) and self._buffer[-1] == 13):
            return None
        return found.end()

    def _leading(self) -> int | None:
        """Return the end of a blank line before an event, which is an event of its own with nothing
        in it."""
        found = _LINE.match(self._buffer)
        if found is None or (len(self._buffer) == 1 and self._buffer[0] == 13):
            return None
        return found.end()


def _event(raw: bytes, lines: list[bytes]) -> AnswerEvent:
    name: str | None = None
    data: list[bytes] = []
    for line in lines:
        _check_other_breaks(line)
        field, _, value = line.partition(b":")
        if field not in _KNOWN:
            raise Unreadable("the stream has a line that is no part of an event")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    _check_single_lines(data)
    return AnswerEvent(raw, name, b"\n".join(data) if data else None)


def _check_other_breaks(line: bytes) -> None:
    """Raise Unreadable if a client that splits lines at more characters finds another field."""
    for found in _OTHER_BREAK.finditer(line):
        if _FIELD.match(line, found.end()) is not None:
            raise Unreadable("some clients would find another event in a line of the stream")


def _check_single_lines(data: list[bytes]) -> None:
    """Raise Unreadable if one of several lines of data is a whole object for a simple client."""
    lines = [line for line in data if line.strip()]
    if len(lines) > 1 and any(
        line.strip().startswith(b"[DONE]") or _is_object(line) for line in lines
    ):
        raise Unreadable("some clients would find several events in one of the stream")


def _is_object(line: bytes) -> bool:
    """Return whether a line could be a JSON object by itself."""
    stripped = line.strip()
    return stripped.startswith(b"{") and stripped.endswith(b"}")
