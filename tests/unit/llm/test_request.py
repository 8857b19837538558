"""Which requests are to a model, and what is written down about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.journal.canonical import canonical
from paddock.llm.formats import ModelApi, Wire, recognise
from paddock.llm.request import MAX_PROMPT_TEXT, describe_request
from unit.llm.streams import CHAT, MESSAGES, RESPONSES

CHATTY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ASKED = {"model": "m", "input": "hi"}
JSON = "application/json"


@for_each(
    ("path", "body", "host", "wire"),
    [
        ("/v1/chat/completions", CHATTY, "api.openai.com", Wire(ModelApi.CHAT, "openai")),
        ("/chat/completions", CHATTY, "127.0.0.1:8000", Wire(ModelApi.CHAT, "openai")),
        ("/api/v1/chat/completions", CHATTY, "openrouter.ai", Wire(ModelApi.CHAT, "openai")),
        ("/v1/chat/completions", CHATTY, "api.anthropic.com", Wire(ModelApi.CHAT, "anthropic")),
        (
            "/openai/deployments/my-gpt/chat/completions?api-version=2024-06-01",
            {"messages": []},
            "my.openai.azure.com",
            Wire(ModelApi.CHAT, "openai"),
        ),
        ("/v1/responses", ASKED, "api.openai.com:443", Wire(ModelApi.RESPONSES, "openai")),
        ("/openai/v1/responses/", ASKED, "x.azure.com", Wire(ModelApi.RESPONSES, "openai")),
        ("/v1/messages", CHATTY, "api.anthropic.com", Wire(ModelApi.MESSAGES, "anthropic")),
        ("/v1/messages?beta=true", CHATTY, "gateway.test", Wire(ModelApi.MESSAGES, "anthropic")),
        ("/anthropic/v1/messages", CHATTY, "x.ai.azure.com", Wire(ModelApi.MESSAGES, "anthropic")),
    ],
)
def test_request_to_a_model_is_recognised(
    path: str, body: dict[str, Any], host: str, wire: Wire
) -> None:
    assert recognise("POST", path, JSON, body, host) == wire


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/v1/chat/completions", "llm.example"),
        ("/v1/chat/completion%73", "llm.example"),
        ("/v1/messages", "api.anthropic.com"),
        ("/v1/responses", "api.openai.com"),
    ],
)
def test_a_question_that_nobody_could_read_is_still_one(path: str, host: str) -> None:
    assert recognise("POST", path, "text/plain", None, host) is not None


@for_each(
    ("method", "path", "content_type", "body"),
    [
        ("POST", "/v1/embeddings", JSON, {"model": "m", "input": "hi"}),
        ("POST", "/v1/files", JSON, ASKED),
        ("POST", "/v1/messages/count_tokens", JSON, CHATTY),
        ("POST", "/v1/messages", JSON, {"to": "ada", "text": "hi"}),
        ("POST", "/v1/messages", JSON, None),
        ("POST", "/forms/responses", JSON, {"answer": 4}),
        ("PUT", "/v1/chat/completions", JSON, CHATTY),
        ("GET", "/v1/responses", None, None),
        ("GET", "/resp_1", None, None),
    ],
)
def test_other_request_is_not_taken_for_one(
    method: str, path: str, content_type: str | None, body: Any
) -> None:
    assert recognise(method, path, content_type, body, "api.example") is None


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/responses/resp_abc", ModelApi.RESPONSES),
        ("/v1/chat/completions/chatcmpl-1", ModelApi.CHAT),
    ],
)
def test_answer_that_is_fetched_later_is_recognised(path: str, api: ModelApi) -> None:
    found = recognise("GET", f"{path}?stream=true", None, None, "api.openai.com")
    assert found == Wire(api, "openai", is_retrieval=True)


def test_provider_of_a_lookalike_host_is_the_format() -> None:
    found = recognise("POST", "/v1/chat/completions", JSON, CHATTY, "notanthropic.com")
    assert found == Wire(ModelApi.CHAT, "openai")


TOOL = {"type": "function", "function": {"name": "find_user", "parameters": {"type": "object"}}}


def test_chat_request_is_described() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = {
        "model": "gpt-4o",
        "stream": True,
        "temperature": 0.5,
        "max_tokens": 7,
        "tool_choice": {"type": "function", "function": {"name": "find_user"}},
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": [{"type": "text", "text": "Who is Ada?"}, image]},
        ],
        "tools": [TOOL],
    }
    found = describe_request(CHAT, body)
    assert found["provider"] == "openai" and found["api"] == "chat" and found["model"] == "gpt-4o"
    assert found["stream"] is True
    assert found["parameters"] == {
        "max_tokens": 7,
        "temperature": 0.5,
        "tool_choice": '{"function":{"name":"find_user"},"type":"function"}',
    }
    assert found["system"] == "Be kind." and found["prompt"] == "Who is Ada?"
    assert found["messages"] == 4 and found["images"] == 1
    assert [tool["name"] for tool in found["tools"]] == ["find_user"]
    assert found["tools"][0]["definition"] == TOOL
    assert "AAAA" not in json.dumps(found)


def test_messages_request_is_described_by_what_was_asked_not_by_a_tool_result() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
    body = {
        "model": "claude-haiku-4-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": "Who is Ada?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look"}]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{"name": "look", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}],
    }
    found = describe_request(MESSAGES, body)
    assert found["prompt"] == "Who is Ada?" and found["system"] == "Be kind."
    assert found["images"] == 1
    assert [tool["name"] for tool in found["tools"]] == ["look", "bash"]


def test_responses_request_is_described() -> None:
    body = {
        "model": "gpt-5",
        "instructions": "Be kind.",
        "input": "Who is Ada?",
        "reasoning": {"effort": "low"},
        "tools": [{"type": "web_search"}],
    }
    found = describe_request(RESPONSES, body)
    assert (found["prompt"], found["system"]) == ("Who is Ada?", "Be kind.")
    assert found["parameters"] == {"reasoning": '{"effort":"low"}'}
    assert found["tools"][0]["name"] == "web_search"


def test_digest_is_of_the_conversation_and_not_of_its_spelling() -> None:
    one = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    two = {"messages": [{"content": "hi", "role": "user"}], "model": "other"}
    three = {"model": "m", "messages": [{"role": "user", "content": "ho"}]}
    digests = [describe_request(CHAT, body)["prompt_digest"] for body in (one, two, three)]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 64


def test_description_does_not_grow_with_the_conversation() -> None:
    turns = [{"role": "user", "content": "x" * 5000}] * 500
    body = {"model": "m", "messages": turns, "tools": [{**TOOL, "more": "y" * 5000}] * 500}
    found = describe_request(CHAT, body)
    assert len(canonical(found)) < 2 * MAX_PROMPT_TEXT + 32_000
    assert "definition" not in found["tools"][0] and len(found["tools"]) == 128


def test_long_prompt_is_cut_at_a_character() -> None:
    body = {"model": "m", "input": "é" * 9000}
    prompt = describe_request(RESPONSES, body)["prompt"]
    assert prompt == "é" * (MAX_PROMPT_TEXT // 2)


KEYS = [
    "model",
    "messages",
    "input",
    "system",
    "tools",
    "content",
    "role",
    "type",
    "text",
    "function",
    "name",
    "temperature",
    "stop",
    "instructions",
    "reasoning",
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            below,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(body=st.dictionaries(st.sampled_from(["model", "messages", "input", "tools"]), values))
def test_body_of_any_shape_is_described(body: dict[str, Any]) -> None:
    for wire in (CHAT, MESSAGES, RESPONSES):
        found = describe_request(wire, body)
        assert len(found["prompt_digest"]) == 64
        canonical({key: value for key, value in found.items() if key != "tools"})


ODD = [None, True, 0, 1.5, 10**30, "", "text", [], {}, ["text"], [None], {"type": ["x"]}, [[{}]]]
BODY = {
    "model": "m",
    "system": [{"type": "text", "text": "s"}],
    "instructions": "i",
    "messages": [{"role": "user", "content": [{"type": "image", "content": [{"type": "text"}]}]}],
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "t"}]}],
    "tools": [{"type": "function", "name": "f", "function": {"name": "f"}}],
    "functions": [{"name": "f"}],
    "temperature": 1,
    "tool_choice": {"type": "auto"},
}


def _replaced(value: Any, odd: Any) -> Iterator[Any]:
    """Every value that differs from this one in one place, where `odd` stands."""
    yield odd
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: one} for one in _replaced(inner, odd))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], one, *value[at + 1 :]] for one in _replaced(inner, odd))


def test_a_request_with_any_type_in_any_place_is_described() -> None:
    for odd in ODD:
        for body in _replaced(BODY, odd):
            if isinstance(body, dict):
                for wire in (CHAT, MESSAGES, RESPONSES):
                    canonical(describe_request(wire, body)["messages"])
