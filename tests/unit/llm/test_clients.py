"""What the vendors' own clients make of edited answers."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.llm.formats import Wire
from unit.llm.streams import (
    CHAT,
    MESSAGES,
    NO_DELETES,
    REFUSAL,
    RESPONSES,
    TWO,
    Calls,
    chat_body,
    chat_calls,
    chat_chunk,
    chat_stream,
    edit,
    messages_body,
    messages_stream,
    responses_body,
    responses_stream,
    sse,
)

openai = pytest.importorskip("openai", reason="openai is not installed")
anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
httpx2 = pytest.importorskip("httpx2", reason="what the vendors' clients speak HTTP with")

ASK = [{"role": "user", "content": "Delete Ada."}]
NONE_LEFT = {**NO_DELETES, "find_user": "not now"}


@pytest.fixture
def client() -> Any:
    opened: list[Any] = []

    def connect(vendor: Any, wire: Wire, answer: bytes, refused: dict[str, str]) -> Any:
        is_stream = not answer.startswith(b"{")
        sent = edit(wire, [answer[:100], answer[100:]], refused, is_stream=is_stream).sent
        kind = "text/event-stream" if is_stream else "application/json"

        def respond(request: Any) -> Any:
            return httpx2.Response(200, headers={"content-type": kind}, content=sent)

        http = httpx2.Client(transport=httpx2.MockTransport(respond))
        opened.append(http)
        return vendor(api_key="k", base_url="http://model.test", http_client=http)

    yield connect
    for http in opened:
        http.close()


def chat_completion(made: Any, is_stream: bool) -> Any:
    if not is_stream:
        return made.chat.completions.create(model="m", messages=ASK)
    with made.chat.completions.stream(model="m", messages=ASK) as stream:
        return stream.get_final_completion()


def whole_response(made: Any, is_stream: bool) -> Any:
    if not is_stream:
        return made.responses.create(model="m", input="Delete Ada.")
    with made.responses.stream(model="m", input="Delete Ada.") as stream:
        return stream.get_final_response()


def whole_message(made: Any, is_stream: bool) -> Any:
    if not is_stream:
        return made.messages.create(model="m", messages=ASK, max_tokens=9)
    with made.messages.stream(model="m", messages=ASK, max_tokens=9) as stream:
        return stream.get_final_message()


STREAMED = pytest.mark.parametrize("is_stream", [True, False])


@STREAMED
def test_chat_client_sees_a_refusal_and_the_call_that_is_left(client: Any, is_stream: bool) -> None:
    answer = chat_stream() if is_stream else chat_body(text="Let me see.")
    choice = chat_completion(client(openai.OpenAI, CHAT, answer, NO_DELETES), is_stream).choices[0]
    assert choice.message.content == f"Let me see.\n\n{REFUSAL}"
    assert [call.function.name for call in choice.message.tool_calls] == ["find_user"]
    assert choice.message.tool_calls[0].function.arguments == '{"name": "Ada"}'
    assert choice.finish_reason == "tool_calls"


@STREAMED
def test_chat_client_sees_an_end_when_no_call_is_left(client: Any, is_stream: bool) -> None:
    answer = chat_stream(text="") if is_stream else chat_body()
    choice = chat_completion(client(openai.OpenAI, CHAT, answer, NONE_LEFT), is_stream).choices[0]
    assert not choice.message.tool_calls
    assert choice.message.content.startswith(REFUSAL)
    assert "The call of find_user was refused: not now" in choice.message.content
    assert choice.finish_reason == "stop"


@STREAMED
def test_chat_client_sees_allowed_calls_and_usage_as_ever(client: Any, is_stream: bool) -> None:
    answer = chat_stream() if is_stream else chat_body()
    found = chat_completion(client(openai.OpenAI, CHAT, answer, {}), is_stream)
    calls = found.choices[0].message.tool_calls
    assert [(call.function.name, call.function.arguments) for call in calls] == TWO
    assert is_stream or found.usage.prompt_tokens == 100


def test_chat_client_with_several_choices_sees_each_decided(client: Any) -> None:
    stream = sse(
        chat_chunk({"role": "assistant"}, None, 0),
        chat_chunk({"role": "assistant"}, None, 1),
        *chat_calls(TWO[::-1], 1),
        *chat_calls(TWO, 0),
        chat_chunk({}, "tool_calls", 0),
        chat_chunk({}, "tool_calls", 1),
        "[DONE]",
    )
    made = client(openai.OpenAI, CHAT, stream, NO_DELETES)
    found = chat_completion(made, True).choices
    assert [choice.message.content for choice in found] == [REFUSAL, REFUSAL]
    for choice in found:
        assert [call.function.name for call in choice.message.tool_calls] == ["find_user"]


@STREAMED
@pytest.mark.parametrize("calls", [TWO, TWO[::-1]])
def test_messages_client_sees_a_refusal_and_the_call_that_is_left(
    client: Any, is_stream: bool, calls: Calls
) -> None:
    answer = messages_stream(calls) if is_stream else messages_body(calls)
    made = client(anthropic.Anthropic, MESSAGES, answer, NO_DELETES)
    found = whole_message(made, is_stream)
    texts = [block.text for block in found.content if block.type == "text"]
    assert texts == ["Let me see.", REFUSAL]
    left = [(block.name, block.input) for block in found.content if block.type == "tool_use"]
    assert left == [("find_user", {"name": "Ada"})]
    assert found.stop_reason == "tool_use"


@STREAMED
def test_messages_client_sees_an_end_when_no_call_is_left(client: Any, is_stream: bool) -> None:
    answer = messages_stream() if is_stream else messages_body()
    found = whole_message(client(anthropic.Anthropic, MESSAGES, answer, NONE_LEFT), is_stream)
    assert [block.type for block in found.content] == ["text", "text", "text"]
    assert found.stop_reason == "end_turn"
    assert found.usage.cache_read_input_tokens == 30


def test_messages_client_sees_text_behind_a_refused_call(client: Any) -> None:
    made = client(anthropic.Anthropic, MESSAGES, messages_stream(after="Done."), NO_DELETES)
    found = whole_message(made, True)
    assert [block.type for block in found.content] == ["text", "text", "tool_use", "text"]
    assert found.content[3].text == "Done."


@STREAMED
@pytest.mark.parametrize("calls", [TWO, TWO[::-1]])
def test_responses_client_sees_a_refusal_and_the_call_that_is_left(
    client: Any, is_stream: bool, calls: Calls
) -> None:
    answer = responses_stream(calls) if is_stream else responses_body(calls)
    found = whole_response(client(openai.OpenAI, RESPONSES, answer, NO_DELETES), is_stream)
    assert found.output_text == f"Let me see.{REFUSAL}"
    left = [(item.name, item.arguments) for item in found.output if item.type == "function_call"]
    assert left == [TWO[1]]
    assert found.usage.input_tokens == 50


def test_responses_client_sees_the_refusal_in_the_events_too(client: Any) -> None:
    made = client(openai.OpenAI, RESPONSES, responses_stream(), NONE_LEFT)
    with made.responses.stream(model="m", input="x") as stream:
        events = list(stream)
    said = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert REFUSAL in said
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in done] == ["message", "message", "message"]
    assert len({item.id for item in done}) == 3


def test_agent_loop_of_the_vendor_runs_only_the_call_that_is_left(client: Any) -> None:
    ran: list[str] = []
    made = client(anthropic.Anthropic, MESSAGES, messages_body(), NONE_LEFT)

    def delete_user(id: int) -> str:
        """Deletes a user."""
        ran.append("delete_user")
        return "gone"

    runner = made.beta.messages.tool_runner(
        model="m", max_tokens=9, messages=ASK, tools=[anthropic.beta_tool(delete_user)]
    )
    assert runner.until_done().stop_reason == "end_turn"
    assert ran == []
