"""Answers of models in the three wire formats, and a driver that edits them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.llm.answer import ToolCall
from paddock.llm.editor import AnswerEditor
from paddock.llm.formats import ModelApi, Wire

CHAT = Wire(ModelApi.CHAT, "openai")
RESPONSES = Wire(ModelApi.RESPONSES, "openai")
MESSAGES = Wire(ModelApi.MESSAGES, "anthropic")
WIRES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
REFUSAL = "[paddock] The call of delete_user was refused: not on a Sunday"
NO_DELETES = {"delete_user": "not on a Sunday"}

Calls = list[tuple[str, str]]  # name, arguments
TWO: Calls = [("delete_user", '{"id": 7}'), ("find_user", '{"name": "Ada"}')]


@dataclass
class Edited:
    """What became of an answer."""

    sent: bytes
    editor: AnswerEditor
    calls: list[ToolCall] = field(default_factory=list)


def edit(
    wire: Wire, chunks: Iterable[bytes], refused: Mapping[str, str], *, is_stream: bool = True
) -> Edited:
    """The whole way of an answer; a call is refused by its name."""
    result = Edited(b"", AnswerEditor(wire, is_stream=is_stream))
    for chunk in [*chunks, None]:
        parts = result.editor.finish() if chunk is None else result.editor.feed(chunk)
        for part in parts:
            if isinstance(part, ToolCall):
                result.calls.append(part)
                part = result.editor.resolve(part, refused.get(part.name))
            result.sent += part
    return result


def sse(*events: Any, names: bool = False) -> bytes:
    """Events as OpenAI (without names) or Anthropic send them."""
    out = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if names else ""
        out.append(f"{name}data: {data}\n\n".encode())
    return b"".join(out)


def pieces(text: str, size: int = 4) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def chat_chunk(delta: Mapping[str, Any], finish: str | None = None, index: int = 0) -> Any:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
    }


def chat_calls(calls: Calls, index: int = 0) -> list[Any]:
    out = []
    for place, (name, arguments) in enumerate(calls):
        head = {"name": name, "arguments": ""}
        first = {"index": place, "id": f"call_{index}{place}", "type": "function", "function": head}
        out.append(chat_chunk({"tool_calls": [first]}, index=index))
        for piece in pieces(arguments):
            rest = {"index": place, "function": {"arguments": piece}}
            out.append(chat_chunk({"tool_calls": [rest]}, index=index))
    return out


CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


def chat_stream(calls: Calls = TWO, text: str = "Let me see.") -> bytes:
    spoken = [chat_chunk({"content": piece}) for piece in pieces(text)]
    usage = {**chat_chunk({}), "choices": [], "usage": CHAT_USAGE}
    return sse(
        chat_chunk({"role": "assistant", "content": ""}),
        *spoken,
        *chat_calls(calls),
        chat_chunk({}, "tool_calls" if calls else "stop"),
        usage,
        "[DONE]",
    )


def chat_body(calls: Calls = TWO, text: str | None = None) -> bytes:
    asked = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": args}}
        for place, (name, args) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, "refusal": None}
    if asked:
        message["tool_calls"] = asked
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if asked else "stop"}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o-2024-08-06",
            "choices": [choice],
            "usage": CHAT_USAGE,
        },
        indent=1,
    ).encode()


MESSAGES_USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 30,
    "cache_creation_input_tokens": 5,
    "output_tokens": 1,
}


def message(content: list[Any], stop: str | None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5-20251001",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": MESSAGES_USAGE,
    }


def block_events(index: int, block: Any, deltas: list[Any]) -> list[Any]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def tool_block(index: int, name: str, arguments: str) -> list[Any]:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": one} for one in ["", *pieces(arguments)]]
    return block_events(index, block, deltas)


def text_block(index: int, text: str) -> list[Any]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text)]
    return block_events(index, {"type": "text", "text": ""}, deltas)


def messages_events(calls: Calls = TWO, text: str = "Let me see.", after: str = "") -> list[Any]:
    events = [{"type": "message_start", "message": message([], None)}, {"type": "ping"}]
    blocks = [text_block(0, text)]
    blocks += [tool_block(place, name, args) for place, (name, args) in enumerate(calls, 1)]
    if after:
        blocks.append(text_block(len(blocks), after))
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    return [
        *events,
        *(event for block in blocks for event in block),
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 25}},
        {"type": "message_stop"},
    ]


def messages_stream(calls: Calls = TWO, text: str = "Let me see.", after: str = "") -> bytes:
    return sse(*messages_events(calls, text, after), names=True)


def messages_body(calls: Calls = TWO) -> bytes:
    blocks: list[Any] = [{"type": "text", "text": "Let me see."}]
    blocks += [
        {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": json.loads(args)}
        for place, (name, args) in enumerate(calls)
    ]
    return json.dumps(message(blocks, "tool_use" if calls else "end_turn"), indent=1).encode()


def response(output: list[Any], status: str = "completed") -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5-mini-2025-08-07",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 50,
            "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 0},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 59,
        },
    }


def message_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": "msg_0",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def call_item(place: int, name: str, arguments: str, status: str = "completed") -> dict[str, Any]:
    return {
        "id": f"fc_{place}",
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": f"call_{place}",
        "name": name,
    }


def call_events(place: int, name: str, arguments: str) -> list[Any]:
    at = {"item_id": f"fc_{place}", "output_index": place}
    kind = "response.function_call_arguments"
    started = call_item(place, name, "", "in_progress")
    return [
        {"type": "response.output_item.added", "output_index": place, "item": started},
        *({"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces(arguments)),
        {"type": f"{kind}.done", **at, "arguments": arguments},
        {
            "type": "response.output_item.done",
            "output_index": place,
            "item": call_item(place, name, arguments),
        },
    ]


def message_events(place: int, text: str) -> list[Any]:
    item = message_item(text)
    at = {"item_id": item["id"], "output_index": place, "content_index": 0}
    part = item["content"][0]
    started = {**item, "status": "in_progress", "content": []}
    delta = {"type": "response.output_text.delta", **at, "logprobs": []}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": started},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({**delta, "delta": piece} for piece in pieces(text)),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]


def responses_events(calls: Calls = TWO) -> list[Any]:
    output = [message_item("Let me see.")]
    output += [call_item(place, *call) for place, call in enumerate(calls, 1)]
    events = [
        {"type": "response.created", "response": response([], "in_progress")},
        *message_events(0, "Let me see."),
        *(e for place, call in enumerate(calls, 1) for e in call_events(place, *call)),
        {"type": "response.completed", "response": response(output)},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def responses_stream(calls: Calls = TWO) -> bytes:
    return sse(*responses_events(calls), names=True)


def responses_body(calls: Calls = TWO) -> bytes:
    output = [message_item("Let me see.")]
    output += [call_item(place, *call) for place, call in enumerate(calls, 1)]
    return json.dumps(response(output), indent=1).encode()


STREAMS = {"chat": chat_stream, "responses": responses_stream, "messages": messages_stream}
BODIES = {"chat": chat_body, "responses": responses_body, "messages": messages_body}
