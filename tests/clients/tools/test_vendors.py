"""The whole loop with the real `openai` and `anthropic` packages, from definitions to answers.
The server in here gives the model's answers; the vendors' own types check what it is sent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import TypeAdapter

from paddock.doors.tools.anthropic_calls import (
    adispatch_anthropic,
    anthropic_tools,
    dispatch_anthropic,
)
from paddock.doors.tools.definition import tool
from paddock.doors.tools.openai_calls import (
    adispatch_openai_responses,
    dispatch_openai,
    dispatch_openai_responses,
    openai_responses_tools,
    openai_tools,
)
from paddock.doors.tools.toolset import Tools
from paddock.gate.gate import Gate
from unit.doors.tools.sets import Past

openai = pytest.importorskip("openai", reason="openai is not installed")
anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")


@tool(effect="write")
def refund(amount: int, to: str = "ada") -> dict[str, Any]:
    """Pays money back.

    Args:
        amount: In cents.
    """
    return {"paid": amount, "to": to}


@pytest.fixture
def tools(gate: Gate) -> Tools:
    return Tools(gate, [refund])


class Vendor:
    """A server with answers to give, and the requests that it got."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                vendor.requests.append(json.loads(self.rfile.read(size)))
                body = json.dumps(vendor.answers.pop(0)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None: ...

        return Handler


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    made = Vendor()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join(10)


def valid(kind: Any, value: Any) -> Any:
    """The value, which the vendor's own type takes without a change."""
    TypeAdapter(kind).validate_python(value)
    return value


CHAT = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-x",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function",
             "function": {"name": "refund", "arguments": '{"amount": 5}'}},
            {"id": "b", "type": "function", "function": {"name": "refund", "arguments": "{"}},
        ]}}],
}  # fmt: skip


def test_chat_completions_of_the_openai_package(tools: Tools, vendor: Vendor) -> None:
    from openai.types.chat import ChatCompletionToolMessageParam, ChatCompletionToolUnionParam

    vendor.answers = [CHAT, CHAT]
    client = openai.OpenAI(api_key="none", base_url=vendor.url)
    definitions = valid(list[ChatCompletionToolUnionParam], openai_tools(tools))
    messages: list[Any] = [{"role": "user", "content": "refund 5"}]
    first = client.chat.completions.create(model="gpt-x", messages=messages, tools=definitions)
    answers = valid(list[ChatCompletionToolMessageParam], dispatch_openai(tools, first))
    assert answers[0]["content"] == '{"paid": 5, "to": "ada"}'
    assert "JSON" in answers[1]["content"]
    messages += [first.choices[0].message, *answers]
    client.chat.completions.create(model="gpt-x", messages=messages, tools=definitions)
    assert [one.get("tool_call_id") for one in vendor.requests[1]["messages"]][-2:] == ["a", "b"]
    client.close()
    context = Past(tools.gate).proposed()[0].context
    assert context == {"model": "gpt-x", "tool_call_id": "a"}


RESPONSE = {
    "id": "r", "object": "response", "created_at": 1, "model": "gpt-y", "status": "completed",
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "output": [
        {"type": "function_call", "id": "fc", "call_id": "a", "name": "refund",
         "arguments": '{"amount": 6}', "status": "completed"}],
}  # fmt: skip


def test_responses_of_the_openai_package(tools: Tools, vendor: Vendor) -> None:
    from openai.types.responses import FunctionToolParam
    from openai.types.responses.response_input_param import FunctionCallOutput

    vendor.answers = [RESPONSE]
    client = openai.OpenAI(api_key="none", base_url=vendor.url)
    definitions = valid(list[FunctionToolParam], openai_responses_tools(tools))
    response = client.responses.create(model="gpt-y", input="refund 6", tools=definitions)
    items = valid(list[FunctionCallOutput], dispatch_openai_responses(tools, response))
    assert items == [
        {"type": "function_call_output", "call_id": "a", "output": '{"paid": 6, "to": "ada"}'}
    ]
    assert asyncio.run(adispatch_openai_responses(tools, response)) == items
    client.close()


MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "claude-x",
    "stop_reason": "tool_use", "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "text", "text": "I will."},
        {"type": "tool_use", "id": "a", "name": "refund", "input": {"amount": 7}},
        {"type": "tool_use", "id": "b", "name": "refund", "input": {"amount": 95000}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("is_async", [False, True])
def test_messages_of_the_anthropic_package(tools: Tools, vendor: Vendor, is_async: bool) -> None:
    from anthropic.types import ToolParam, ToolResultBlockParam

    vendor.answers = [MESSAGE, MESSAGE]
    client = anthropic.Anthropic(api_key="none", base_url=vendor.url)
    definitions = valid(list[ToolParam], anthropic_tools(tools))
    create: Any = client.messages.create
    messages: list[Any] = [{"role": "user", "content": "refund 7"}]
    first = create(model="claude-x", max_tokens=9, messages=messages, tools=definitions)
    if is_async:
        blocks = asyncio.run(adispatch_anthropic(tools, first))
    else:
        blocks = dispatch_anthropic(tools, first)
    valid(list[ToolResultBlockParam], blocks)
    assert blocks[0]["content"] == '{"paid": 7, "to": "ada"}'
    assert blocks[1]["is_error"] and "Nobody gets that much." in blocks[1]["content"]
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": blocks},
    ]
    create(model="claude-x", max_tokens=9, messages=messages, tools=definitions)
    sent = vendor.requests[1]["messages"][-1]["content"]
    assert [one["tool_use_id"] for one in sent] == ["a", "b"]
    client.close()
    context = Past(tools.gate).proposed()[0].context
    assert context == {"model": "claude-x", "tool_call_id": "a"}
