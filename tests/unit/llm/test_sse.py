"""Events are read as the standard says, and refused where clients would read them differently."""

from __future__ import annotations

import json

import pytest

from paddock.llm.json_text import Unreadable
from paddock.llm.sse import SseSource
from unit.llm.streams import CHAT, chat_chunk, edit

BREAKS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
WHOLE = b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}'


def _events(data: bytes) -> list[bytes | None]:
    reader = SseSource()
    return [reader.read(raw).data for raw in [*reader.feed(data), reader.rest()]]


@pytest.mark.parametrize("mark", BREAKS, ids=[f"U+{ord(one):04X}" for one in BREAKS])
@pytest.mark.parametrize(
    "lead", [b": comment", b"id: 1", b"event: x", b'data: {"a": "b"}', b"data"]
)
def test_a_field_behind_another_kind_of_line_break_is_refused(lead: bytes, mark: str) -> None:
    for field in (b"data: {}", b" Data:{}", b"data", b"event: message", b"\t data : {}"):
        with pytest.raises(Unreadable):
            _events(lead + mark.encode() + field + b"\n\n")


def test_a_line_break_of_latin_1_is_one_in_every_character_that_ends_alike() -> None:
    with pytest.raises(Unreadable):
        _events('data: {"a": "\u00c5data: {}"}\n\n'.encode())


@pytest.mark.parametrize("mark", BREAKS)
def test_no_call_passes_undecided_behind_another_kind_of_line_break(mark: str) -> None:
    stream = b": a" + mark.encode() + WHOLE + mark.encode() * 2 + b"\n\n"
    result = edit(CHAT, [stream], {})
    assert (result.sent, result.editor.is_broken) == (b"", True)


def test_text_with_other_line_breaks_in_it_passes_as_it_came() -> None:
    said = "one\u2028two\u2029three\x85data is four: \u00c5 five"
    text = json.dumps(chat_chunk({"content": said}), ensure_ascii=False)
    stream = f"data: {text}\n\ndata: [DONE]\n\n".encode()
    result = edit(CHAT, [stream], {})
    assert (result.sent, result.editor.problem) == (stream, None)


def test_a_line_of_data_that_simple_clients_take_for_an_event_is_refused() -> None:
    for data in (
        b'{"x":\ndata: {"choices": []}\ndata: }',
        b"{}\ndata: [DONE]",
        b"[DONE]\ndata: {}",
    ):
        with pytest.raises(Unreadable):
            _events(b"data: " + data + b"\n\n")


def test_an_object_over_several_lines_is_one_event() -> None:
    assert _events(b'data: {"a":\ndata: 1,\ndata\ndata: "b": 2}\n\n')[0] == b'{"a":\n1,\n\n"b": 2}'
