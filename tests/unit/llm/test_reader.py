"""What is kept of an answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.canonical import canonical
from paddock.llm.answer import ModelAnswer, TokenUsage
from paddock.llm.answer_builder import MAX_TEXT
from paddock.llm.formats import Wire
from paddock.llm.reader import AnswerReader
from unit.llm.streams import (
    BODIES,
    CHAT,
    MESSAGES,
    RESPONSES,
    STREAMS,
    WIRES,
    chat_chunk,
    chat_stream,
    response,
    sse,
)

ALL = pytest.mark.parametrize("api", ["chat", "responses", "messages"])
USAGES = {
    "chat": TokenUsage(input=100, output=20, cached=40, reasoning=5),
    "responses": TokenUsage(input=50, output=9, cached=20, reasoning=4),
    "messages": TokenUsage(input=45, output=25, cached=30, cache_written=5),
}
STOPS = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}


def read(wire: Wire, *chunks: bytes, is_stream: bool = True) -> ModelAnswer:
    reader = AnswerReader(wire, is_stream=is_stream)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


@ALL
@given(size=st.integers(1, 500))
def test_stream_is_read_in_full_however_it_is_cut(api: str, size: int) -> None:
    stream = STREAMS[api]()
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    found = read(WIRES[api], *chunks)
    assert found.text == "Let me see."
    assert [(call.name, call.arguments) for call in found.tool_calls] == [
        ("delete_user", {"id": 7}),
        ("find_user", {"name": "Ada"}),
    ]
    assert found.usage == USAGES[api]
    assert found.stop_reason == STOPS[api]
    assert not found.is_broken and not found.is_cut and found.error is None


@ALL
def test_body_says_the_same_as_the_stream(api: str) -> None:
    streamed = read(WIRES[api], STREAMS[api]())
    whole = read(WIRES[api], BODIES[api](), is_stream=False)
    assert [call.arguments for call in whole.tool_calls] == [
        call.arguments for call in streamed.tool_calls
    ]
    assert (whole.id, whole.model, whole.stop_reason) == (
        streamed.id,
        streamed.model,
        streamed.stop_reason,
    )
    assert whole.usage is not None and streamed.usage is not None
    assert whole.usage.input == streamed.usage.input


@ALL
@given(noise=st.binary(max_size=200), place=st.integers(0, 1 << 16))
def test_noise_never_raises_and_what_is_kept_can_be_written(
    api: str, noise: bytes, place: int
) -> None:
    stream = STREAMS[api]()
    place %= len(stream)
    for is_stream in (True, False):
        found = read(WIRES[api], stream[:place], noise, stream[place:], is_stream=is_stream)
        canonical(found.as_json())


KEYS = [
    "choices",
    "delta",
    "message",
    "content",
    "usage",
    "index",
    "tool_calls",
    "type",
    "response",
    "output",
    "item",
    "error",
    "content_block",
    "function",
    "input",
    "name",
    "arguments",
    "id",
    "output_index",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            below,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@ALL
@given(value=json_values)
def test_json_of_any_shape_never_raises(api: str, value: object) -> None:
    text = json.dumps(value).encode()
    canonical(read(WIRES[api], text, is_stream=False).as_json())
    canonical(read(WIRES[api], b"data: " + text + b"\n\n").as_json())


@ALL
def test_stream_that_ends_early_is_broken_and_what_came_is_kept(api: str) -> None:
    stream = STREAMS[api]()
    found = read(WIRES[api], stream[: stream.index(b"delete_user")])
    assert found.is_broken and found.text == "Let me see." and found.tool_calls == ()


def test_error_in_a_stream_is_told() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    assert read(MESSAGES, sse(error, names=True)).error == "busy"
    assert read(CHAT, sse({"error": {"message": "busy"}})).error == "busy"
    failed = {**response([], "failed"), "error": {"code": "x", "message": "busy"}}
    event = {"type": "response.failed", "response": failed}
    assert read(RESPONSES, sse(event, names=True)).error == "busy"


def test_error_body_is_told() -> None:
    body = b'{"error": {"message": "no such model"}}'
    for wire in WIRES.values():
        found = read(wire, body, is_stream=False)
        assert found.error == "no such model" and not found.is_broken


def test_reason_for_an_incomplete_response_is_told() -> None:
    cut = {**response([], "incomplete"), "incomplete_details": {"reason": "max_output_tokens"}}
    found = read(RESPONSES, json.dumps(cut).encode(), is_stream=False)
    assert found.stop_reason == "max_output_tokens"


def test_long_text_is_cut_and_says_so() -> None:
    found = read(CHAT, chat_stream([], "x" * (MAX_TEXT + 7)))
    assert found.is_cut and len(found.text) == MAX_TEXT


def test_halves_of_a_character_in_two_pieces_are_joined() -> None:
    halves = [chat_chunk({"content": "\ud83d"}), chat_chunk({"content": "\ude00"}, "stop")]
    assert read(CHAT, sse(*halves)).text == "\U0001f600"


def test_half_a_character_can_be_written() -> None:
    found = read(CHAT, sse(chat_chunk({"content": "a\ud83d"}, "stop")))
    assert found.text == "a\ufffd"


def test_large_arguments_are_cut_in_the_journal() -> None:
    arguments = json.dumps({"text": "x" * 100_000})
    found = read(CHAT, chat_stream([("save", arguments), ("find_user", "{}")]))
    assert isinstance(found.tool_calls[0].arguments, str)
    assert len(found.tool_calls[0].arguments) <= 1024


def test_tokens_that_are_no_numbers_count_as_nothing() -> None:
    usage = {"prompt_tokens": "many", "completion_tokens": -4, "prompt_tokens_details": [1]}
    body = {"choices": [], "usage": usage}
    assert read(CHAT, json.dumps(body).encode(), is_stream=False).usage == TokenUsage()
