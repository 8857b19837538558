"""The events of a stream, in each provider's order, and the bodies that are not streamed."""

from __future__ import annotations

import asyncio
import json
from itertools import groupby
from typing import Any

import pytest

from cases import for_each
from paddock.world.asgi import WorldRequest, call
from unit.world.services.model.asking import USER, Got, Say, user

FULL = {
    "text": "Let me look at it.",
    "thinking": "Which order?",
    "tool_calls": [
        {"name": "find", "arguments": {"id": "A-1", "deep": {"ä": [1, 2.5, None]}}},
        {"name": "list"},
    ],
    "chunk": 5,
}
ARGUMENTS = '{"id": "A-1", "deep": {"ä": [1, 2.5, null]}}'
TEXT = {"otherwise": "Hello there."}


def names(got: Got) -> list[str]:
    """The kinds of events, each run of the same kind once."""
    return [kind for kind, _ in groupby(data["type"] for _, data in got.events())]


def test_chat_stream_has_the_role_the_text_the_calls_the_end_and_the_usage(say: Say) -> None:
    model = say({"otherwise": FULL})
    got = model.chat(USER, stream=True, stream_options={"include_usage": True})
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert all(name is None for name, _ in got.events())
    *chunks, done = [data for _, data in got.events()]
    assert done == "[DONE]"
    *spoken, usage = chunks
    deltas = [one["choices"][0]["delta"] for one in spoken]
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    text = [delta["content"] for delta in deltas[1:] if "content" in delta]
    assert "".join(text) == FULL["text"] and max(map(len, text)) == 5
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    heads = [one for one in calls if "id" in one]
    assert [(one["index"], one["function"]["name"]) for one in heads] == [(0, "find"), (1, "list")]
    for index, expected in enumerate((ARGUMENTS, "{}")):
        parts = [one["function"]["arguments"] for one in calls if one["index"] == index]
        assert "".join(parts) == expected
    assert spoken[-1]["choices"][0] == {
        "index": 0, "delta": {}, "logprobs": None, "finish_reason": "tool_calls",
    }  # fmt: skip
    assert [one["choices"][0]["finish_reason"] for one in spoken[:-1]] == [None] * (len(spoken) - 1)
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] > 0
    assert all(one["usage"] is None for one in spoken)
    assert len({one["id"] for one in chunks}) == 1


def test_chat_stream_has_no_usage_unless_it_is_asked_for(say: Say) -> None:
    got = say(TEXT).chat(USER, stream=True)
    chunks = [data for _, data in got.events()][:-1]
    assert not any("usage" in one for one in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_messages_stream_has_each_block_from_start_to_stop(say: Say) -> None:
    got = say({"otherwise": FULL}).messages(USER, stream=True)
    assert all(name == data["type"] for name, data in got.events())
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    expected = ["message_start", block[0], "ping", *block[1:], *block * 3]
    assert names(got) == [*expected, "message_delta", "message_stop"]
    deltas: dict[int, list[Any]] = {}
    for _, data in got.events():
        if data["type"] == "content_block_delta":
            deltas.setdefault(data["index"], []).append(data["delta"])
    assert [one["type"] for one in deltas[0]][-2:] == ["thinking_delta", "signature_delta"]
    assert "".join(one["text"] for one in deltas[1]) == FULL["text"]
    assert "".join(one["partial_json"] for one in deltas[2]) == ARGUMENTS
    assert deltas[3] == [{"type": "input_json_delta", "partial_json": part} for part in ("", "{}")]
    start, end = got.events()[0][1]["message"], got.events()[-2][1]
    assert (start["content"], start["stop_reason"]) == ([], None)
    assert end["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert end["usage"]["output_tokens"] > start["usage"]["output_tokens"] == 1


def test_responses_stream_has_each_item_from_added_to_done(say: Say) -> None:
    got = say({"otherwise": FULL}).responses(USER, stream=True)
    assert all(name == data["type"] for name, data in got.events())
    part = "response.reasoning_summary_part"
    call = [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert names(got) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        f"{part}.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        f"{part}.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        *call,
        *call,
        "response.completed",
    ]
    data = [one for _, one in got.events()]
    assert [one["sequence_number"] for one in data] == list(range(len(data)))
    done = [one["item"] for one in data if one["type"] == "response.output_item.done"]
    assert data[-1]["response"]["output"] == done
    assert (data[0]["response"]["status"], data[0]["response"]["output"]) == ("in_progress", [])


def test_stream_ends_with_what_is_answered_without_one(say: Say) -> None:
    whole = say({"otherwise": FULL}).responses(USER)
    stream = say({"otherwise": FULL}).responses(USER, stream=True)
    assert stream.events()[-1][1]["response"] == whole.json


def test_answers_of_the_three_formats_carry_the_same_calls(say: Say) -> None:
    model = say({"otherwise": FULL})
    chat, messages, responses = model.chat(USER), model.messages(USER), model.responses(USER)
    assert chat.calls == [("find", json.loads(ARGUMENTS)), ("list", {})]
    blocks = messages.json["content"]
    assert [one["type"] for one in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert [(one["name"], one["input"]) for one in blocks[2:]] == chat.calls
    items = responses.json["output"]
    assert [one["type"] for one in items] == [
        "reasoning", "message", "function_call", "function_call",
    ]  # fmt: skip
    assert [(one["name"], json.loads(one["arguments"])) for one in items[2:]] == chat.calls
    ids = [one["id"] for one in blocks[2:]] + [one["call_id"] for one in items[2:]]
    assert len(set(ids)) == 4


@for_each(
    ("stop", "chat", "messages", "responses"),
    [
        ("end", "stop", "end_turn", "completed"),
        ("length", "length", "max_tokens", "incomplete"),
        ("max_tokens", "length", "max_tokens", "incomplete"),
        ("refusal", "content_filter", "refusal", "incomplete"),
        ("content_filter", "content_filter", "refusal", "incomplete"),
        ("stop_sequence", "stop", "stop_sequence", "completed"),
        ("pause", "stop", "pause_turn", "completed"),
        ("tool_use", "tool_calls", "tool_use", "completed"),
    ],
)
def test_stop_is_said_in_each_providers_words(
    say: Say, stop: str, chat: str, messages: str, responses: str
) -> None:
    model = say({"otherwise": {"text": "x", "stop": stop}})
    assert model.chat(USER).json["choices"][0]["finish_reason"] == chat
    got = model.messages(USER, stop_sequences=["END"]).json
    assert got["stop_reason"] == messages
    assert got["stop_sequence"] == ("END" if messages == "stop_sequence" else None)
    assert model.responses(USER).json["status"] == responses
    last = model.responses(USER, stream=True).events()[-1][1]
    assert last["type"] == f"response.{responses}"


def test_usage_of_the_script_replaces_what_is_counted(say: Say) -> None:
    usage = {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 40, "reasoning_tokens": 5}
    model = say({"otherwise": {"text": "x", "usage": usage}})
    chat = model.chat(USER).json["usage"]
    assert (chat["prompt_tokens"], chat["completion_tokens"], chat["total_tokens"]) == (
        100,
        20,
        120,
    )
    assert chat["prompt_tokens_details"]["cached_tokens"] == 40
    messages = model.messages(USER).json["usage"]
    assert (messages["input_tokens"], messages["cache_read_input_tokens"]) == (60, 40)
    responses = model.responses(USER).json["usage"]
    assert responses["output_tokens_details"] == {"reasoning_tokens": 5}


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "invalid_request_error", "authentication_error"),
        (404, "invalid_request_error", "not_found_error"),
        (429, "requests", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (529, "server_error", "overloaded_error"),
    ],
)
def test_error_has_the_type_of_its_provider(
    say: Say, status: int, openai: str, anthropic: str
) -> None:
    model = say({"otherwise": {"error": {"status": status, "retry_after": 1.5}}})
    got = model.chat(USER, stream=True)
    assert (got.status, got.error["type"], got.headers["retry-after"]) == (status, openai, "1.5")
    assert set(got.error) == {"message", "type", "param", "code"}
    got = model.messages(USER, stream=True)
    assert (got.status, got.error["type"]) == (status, anthropic)


def test_error_says_what_the_script_says(say: Say) -> None:
    words = {
        "status": 418,
        "type": "teapot",
        "message": "I am one.",
        "code": "short",
        "retry_after": 0,
    }
    got = say({"otherwise": {"error": words}}).chat(USER)
    assert got.error == {"message": "I am one.", "type": "teapot", "param": None, "code": "short"}
    assert got.headers["retry-after"] == "0"


def test_empty_text_is_a_text_and_no_text_is_none(say: Say) -> None:
    model = say({"turns": [{"answer": ""}]})
    assert model.chat(USER).text == ""
    model = say({"otherwise": {"tool_calls": ["find"]}})
    assert model.chat(USER).json["choices"][0]["message"]["content"] is None
    assert [one["type"] for one in model.messages(USER).json["content"]] == ["tool_use"]


def test_stream_of_a_long_answer_arrives_whole(say: Say) -> None:
    long = "x" * 50_000
    got = say({"chunk": 7, "otherwise": long}).messages(USER, stream=True)
    parts = [d["delta"]["text"] for _, d in got.events() if d["type"] == "content_block_delta"]
    assert "".join(parts) == long and len(parts) == 50_000 // 7 + 1


@pytest.mark.parametrize("answer", [{"text": "slow"}, {"error": 500}], ids=["text", "error"])
@pytest.mark.parametrize("stream", [False, True])
def test_delayed_answer_lets_others_pass(say: Say, answer: Any, stream: bool) -> None:
    slow = {"match": {"user": "slow"}, "answer": {**answer, "delay": "300ms"}}
    model = say({"rules": [slow], "otherwise": "quick"})
    came: list[str] = []

    async def ask(text: str) -> None:
        body = {"model": "x", "messages": [user(text)], "stream": stream}
        request = WorldRequest("POST", "/v1/chat/completions", body=json.dumps(body).encode())
        await call(model.app, request)
        came.append(text)

    async def both() -> None:
        await asyncio.gather(ask("slow"), ask("other"))

    asyncio.run(both())
    assert came == ["other", "slow"]
