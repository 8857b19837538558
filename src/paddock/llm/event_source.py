"""Streams of events, whatever their framing: bytes in, events with their raw bytes out."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import msgspec


class AnswerEvent(msgspec.Struct, frozen=True):
    """One event as it came, with its name and data. A comment has no data."""

    raw: bytes
    name: str | None
    data: bytes | None

    @property
    def is_end(self) -> bool:
        """True for OpenAI's mark for the end of a stream."""
        return self.data is not None and self.data.startswith(b"[DONE]")


class EventSource(abc.ABC):
    """Splits a stream into events. Each raw event is kept byte for byte, so that one that is not
    edited goes out as it came."""

    keep_alive: ClassVar[bytes] = b""  # may be sent between events; empty where nothing may

    @property
    @abc.abstractmethod
    def held_bytes(self) -> int:
        """The number of bytes that wait for the rest of their event."""

    @abc.abstractmethod
    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the raw events that this chunk completes. Raises Unreadable for one that is too
        large or has no valid frame."""

    @abc.abstractmethod
    def rest(self) -> bytes:
        """Return what stands after the last whole event, at the end of the stream."""

    @abc.abstractmethod
    def read(self, raw: bytes) -> AnswerEvent:
        """Parse raw events, in their order. Raises Unreadable for what the framing does not have: a
        reader that is not strict might find something in it."""

    @abc.abstractmethod
    def check_name(self, name: str | None, data: dict[str, Any]) -> None:
        """Raise Unreadable if a client might skip this event, which has a piece of a call, because
        of its name. It would put together other arguments than those that were decided on."""

    @abc.abstractmethod
    def written(self, event: dict[str, Any], name: str | None) -> bytes:
        """Return the bytes of an event that takes the place of one with this name."""


def is_event_stream(content_type: bytes) -> bool:
    """Return whether an answer of this type is a stream of events."""
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in (b"text/event-stream", b"application/vnd.amazon.eventstream")


def event_source(content_type: bytes) -> EventSource:
    """Return the source for an answer of this type."""
    if content_type.lower().startswith(b"application/vnd.amazon.eventstream"):
        from paddock.llm.bedrock.event_stream import AwsEventSource

        return AwsEventSource()
    from paddock.llm.sse import SseSource

    return SseSource()
