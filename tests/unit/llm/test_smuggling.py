"""Answers that try to bring a refused call past the editor, or show it other arguments than the
client gets, and requests that try not to look like ones to a model."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

from paddock.llm.answer import ToolCall
from paddock.llm.bedrock.event_stream import AwsEventSource
from paddock.llm.editor import AnswerEditor
from paddock.llm.event_source import is_event_stream
from paddock.llm.formats import Wire
from unit.llm.streams import (
    RESPONSES,
    responses_events,
    sse,
)
from unit.llm.test_vendor_formats import (
    SSE,
)

SECRET = "s3cret"
ONE = [("delete_user", f'{{"id": "{SECRET}"}}')]


def refuse_all(wire: Wire, kind: bytes, answer: bytes) -> tuple[bytes, list[ToolCall], str | None]:
    """Return what goes out when every call is refused, the calls, and the problem."""
    editor = AnswerEditor(wire, is_stream=is_event_stream(kind), content_type=kind)
    sent, calls = b"", []
    for parts in (editor.feed(answer), editor.finish()):
        for part in parts:
            if isinstance(part, ToolCall):
                calls.append(part)
                part = editor.resolve(part, "no")
            sent += part
    return sent, calls, editor.problem


def assert_unreadable(wire: Wire, kind: bytes, answer: bytes) -> None:
    sent, _, problem = refuse_all(wire, kind, answer)
    assert problem is not None
    assert SECRET.encode() not in sent


def aws_message(headers: Iterable[tuple[str, str]], payload: bytes) -> bytes:
    packed = b"".join(
        bytes([len(name)]) + name.encode() + b"\7" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers
    )
    lengths = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + packed + payload
    return message + struct.pack(">I", zlib.crc32(message))


def aws_event(name: str, payload: Any, **more: str) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return aws_message({**headers, **more}.items(), json.dumps(payload).encode())


def aws_stream(*events: dict[str, Any]) -> bytes:
    source = AwsEventSource()
    return b"".join(source.written(event, None) for event in events)


def converse_start(index: int = 1, **tool: Any) -> dict[str, Any]:
    use = {"toolUseId": "t", "name": "delete_user", **tool}
    return {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": use}}}


def converse_delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def converse_stop(index: int) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


# ---- OpenAI's responses --------------------------------------------------------------------------


def test_responses_event_of_a_call_with_a_response_beside_it_does_not_pass() -> None:
    for kind in ("response.output_item.added", "response.output_item.done"):
        events = [
            {**event, "response": {}} if event["type"] == kind else event
            for event in responses_events(ONE)
        ]
        assert_unreadable(RESPONSES, SSE, sse(*events, names=True))
