"""AWS's event stream (`application/vnd.amazon.eventstream`), in which Bedrock streams its answers.

A message is: its length, the length of its headers, a checksum of these two, the headers, the
payload, and a checksum of everything before it; numbers are big-endian, checksums are CRC-32. The
headers name the event (`:event-type`) or the exception (`:exception-type`). No other headers are
let through, and none with control characters: a client that expects server-sent events, whatever
the type of the answer is, could find events in them.

Two kinds of payload occur. Those of `converse-stream` are JSON objects; each becomes an object with
the name of the event as its only key, as AWS's clients make it. Those of
`invoke-with-response-stream` are all called `chunk` and hold an event of the model's own format in
base64; that event is what is read here.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from paddock.llm.event_source import AnswerEvent, EventSource
from paddock.llm.json_text import MAX_BODY, Unreadable, dump, load

_PRELUDE = struct.Struct(">III")  # length of the message, length of the headers, their checksum
_CRC = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
_STRING = 7  # the type of a header that is a text; the only one that Bedrock uses
_CHUNK = "chunk"
_VALUES = {  # the headers that Bedrock sends, and what may be in them
    ":message-type": re.compile(r"event|exception"),
    ":event-type": re.compile(r"[A-Za-z-]+"),
    ":exception-type": re.compile(r"[A-Za-z]+Exception"),
    ":content-type": re.compile(r"[a-z0-9/.+-]+"),
}


class AwsEventSource(EventSource):
    """One stream of messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def held_bytes(self) -> int:
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[bytes]:
        self._buffer += chunk
        messages: list[bytes] = []
        while len(self._buffer) >= _PRELUDE.size:
            length, headers_length, checksum = _PRELUDE.unpack_from(self._buffer)
            if zlib.crc32(self._buffer[: _PRELUDE.size - _CRC.size]) != checksum:
                raise Unreadable("a message of the stream has a wrong checksum")
            if not _PRELUDE.size + headers_length + _CRC.size <= length <= MAX_BODY:
                raise Unreadable("a message of the stream has an impossible length")
            if len(self._buffer) < length:
                break
            messages.append(bytes(self._buffer[:length]))
            del self._buffer[:length]
        return messages

    def rest(self) -> bytes:
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def read(self, raw: bytes) -> AnswerEvent:
        headers, payload = _parsed(raw)
        name = _name(headers)
        if name == _CHUNK:
            return AnswerEvent(raw, name, _inner(payload))
        return AnswerEvent(raw, name, dump({name: load(payload or b"{}")}))

    def check_name(self, name: str | None, data: dict[str, Any]) -> None:
        # Amazon's client skips a chunk in a `converse-stream`. What is in a chunk has a type.
        if name == _CHUNK and "type" not in data:
            raise Unreadable("a piece of a tool call is in a chunk")

    def written(self, event: dict[str, Any], name: str | None) -> bytes:
        if name == _CHUNK:
            payload = dump({"bytes": base64.b64encode(dump(event)).decode()})
            return _message(_CHUNK, payload)
        [own_name] = event
        return _message(own_name, dump(event[own_name]))


def _parsed(raw: bytes) -> tuple[dict[str, str], bytes]:
    if len(raw) < _PRELUDE.size + _CRC.size:
        raise Unreadable("the stream ends in the middle of a message")
    length, headers_length, _ = _PRELUDE.unpack_from(raw)
    [checksum] = _CRC.unpack_from(raw, len(raw) - _CRC.size)
    if length != len(raw) or zlib.crc32(raw[: -_CRC.size]) != checksum:
        raise Unreadable("a message of the stream is not whole")
    start = _PRELUDE.size
    headers: dict[str, str] = {}
    for name, value in _headers(raw[start : start + headers_length]):
        if name in headers:
            raise Unreadable("a header of the stream comes twice")
        if name not in _VALUES or not _VALUES[name].fullmatch(value):
            raise Unreadable("the stream has a header that Bedrock does not send")
        headers[name] = value
    return headers, raw[start + headers_length : -_CRC.size]


def _name(headers: dict[str, str]) -> str:
    """Return the name of an event or an exception. Clients go by the type of the message, or by the
    header that is there."""
    kind = headers.get(":message-type")
    named = headers.keys() & {":event-type", ":exception-type"}
    if named != {f":{kind}-type"}:
        raise Unreadable("a message of the stream has no single name")
    return headers[f":{kind}-type"]


def _headers(data: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    try:
        while at < len(data):
            name_length = data[at]
            name = data[at + 1 : at + 1 + name_length].decode()
            at += 1 + name_length
            if data[at] != _STRING:
                raise Unreadable("a header of the stream is no text")
            [value_length] = _LENGTH.unpack_from(data, at + 1)
            at += 1 + _LENGTH.size
            value = data[at : at + value_length]
            at += value_length
            if at > len(data):
                raise Unreadable("a header of the stream is cut")
            yield name, value.decode()
    except (IndexError, struct.error, UnicodeDecodeError):
        raise Unreadable("the headers of the stream cannot be read") from None


def _inner(payload: bytes) -> bytes:
    """Return the model's own event in a chunk."""
    value = load(payload)
    text = value.get("bytes") if isinstance(value, dict) else None
    if not text or not isinstance(text, str):
        raise Unreadable("a chunk of the stream has nothing in it")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise Unreadable("a chunk of the stream is no base64") from None


def _message(name: str, payload: bytes) -> bytes:
    headers = b"".join(
        (
            _header(":event-type", name),
            _header(":content-type", "application/json"),
            _header(":message-type", "event"),
        )
    )
    length = _PRELUDE.size + len(headers) + len(payload) + _CRC.size
    lengths = struct.pack(">II", length, len(headers))
    message = lengths + _CRC.pack(zlib.crc32(lengths)) + headers + payload
    return message + _CRC.pack(zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    text = value.encode()
    return bytes([len(name)]) + name.encode() + bytes([_STRING]) + _LENGTH.pack(len(text)) + text
