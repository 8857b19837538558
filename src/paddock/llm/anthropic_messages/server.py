"""Anthropic's messages: `POST /v1/messages`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.llm.conversation import (
    InvalidRequest,
    ModelRequest,
    RequestedCall,
    Transcript,
    check_calls,
)
from paddock.llm.request_content import (
    compact,
    event,
    field,
    model_of,
    objects,
    part_text,
    text_of,
)
from paddock.llm.served_answer import Recall, ServedAnswer, ServedFormat, Stop, pieces

_STOP = {
    Stop.END: "end_turn",
    Stop.TOOL: "tool_use",
    Stop.LENGTH: "max_tokens",
    Stop.SEQUENCE: "stop_sequence",
    Stop.REFUSAL: "refusal",
    Stop.PAUSE: "pause_turn",
}
_LEAST_THINKING = 1024  # tokens
_UNSPOKEN = ("thinking", "redacted_thinking")


def read(body: Mapping[str, Any], recall: Recall) -> ModelRequest:
    if field(body, "max_tokens", int, "") < 1:
        raise InvalidRequest("max_tokens must be at least 1.", "max_tokens")
    _check_thinking(body)
    return read_question(body, recall)


def read_question(body: Mapping[str, Any], _: Recall) -> ModelRequest:
    """Parse a request whose tokens are only counted, which has no `max_tokens`."""
    model = model_of(body)
    transcript, count = Transcript(), 0
    system = [text_of(body.get("system"), "system")]
    for number, message in enumerate(objects(body, "messages")):
        where = f"messages.{number}"
        role = field(message, "role", str, where)
        if role == "system":
            system.append(text_of(message.get("content"), f"{where}.content"))
        else:
            count += 1
            _add(transcript, role, message.get("content"), where)
    messages = transcript.messages()
    if messages[0].is_assistant:
        raise InvalidRequest("The first message must be the user's.", "messages")
    check_calls(messages, is_adjacent=True)
    tools = objects(body, "tools", is_required=False)
    return ModelRequest(
        model=model,
        system="\n".join(text for text in system if text),
        messages=messages,
        tools=tuple(field(tool, "name", str, "tools") for tool in tools),
        count=count,
        tools_text=compact(tools) if tools else "",
        is_stream=body.get("stream") is True,
        body=body,
    )


def whole(answer: ServedAnswer, asked: ModelRequest) -> dict[str, Any]:
    message = _message(answer, asked)
    message["content"] = [full for _, _, full in _blocks(answer)]
    message["stop_reason"] = _STOP[answer.stop]
    message["stop_sequence"] = _sequence(answer, asked)
    message["usage"] = _usage(answer, answer.usage.output)
    return message


def events(answer: ServedAnswer, asked: ModelRequest) -> Iterator[bytes]:
    yield _event("message_start", message=_message(answer, asked))
    for index, (opening, deltas, _) in enumerate(_blocks(answer)):
        yield _event("content_block_start", index=index, content_block=opening)
        if index == 0:
            yield _event("ping")
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": _STOP[answer.stop], "stop_sequence": _sequence(answer, asked)}
    yield _event("message_delta", delta=stop, usage=_usage(answer, answer.usage.output))
    yield _event("message_stop")


FORMAT = ServedFormat("anthropic", "toolu_", read, whole, events)


def _add(transcript: Transcript, role: str, content: Any, where: str) -> None:
    if role not in ("user", "assistant"):
        raise InvalidRequest(f"{where}.role is not a role: {role[:40]!r}.", f"{where}.role")
    say = transcript.user if role == "user" else transcript.assistant
    if isinstance(content, str):
        say(content)
        return
    for block in objects({"content": content}, "content"):
        kind = field(block, "type", str, f"{where}.content")
        if kind == "tool_use":
            transcript.call(_call(block, f"{where}.content"))
        elif kind == "tool_result":
            id = field(block, "tool_use_id", str, f"{where}.content")
            transcript.result(id, text_of(block.get("content"), f"{where}.content"))
        elif kind == "text" and block.get("text") == "":
            raise InvalidRequest(f"{where}: text content blocks must be non-empty.", where)
        else:
            say("" if kind in _UNSPOKEN else part_text(block, f"{where}.content"))


def _check_thinking(body: Mapping[str, Any]) -> None:
    """Refuse a budget for thinking that is too small, or not smaller than the whole answer."""
    thinking = body.get("thinking")
    if not isinstance(thinking, Mapping) or thinking.get("type") != "enabled":
        return
    budget = field(thinking, "budget_tokens", int, "thinking")
    if budget < _LEAST_THINKING:
        message = f"thinking.budget_tokens must be at least {_LEAST_THINKING}."
        raise InvalidRequest(message, "thinking.budget_tokens")
    if budget >= body["max_tokens"]:
        message = "max_tokens must be greater than thinking.budget_tokens."
        raise InvalidRequest(message, "max_tokens")


def _call(block: Mapping[str, Any], where: str) -> RequestedCall:
    given = field(block, "input", dict, where)
    return RequestedCall(
        field(block, "id", str, where), field(block, "name", str, where), compact(given)
    )


def _message(answer: ServedAnswer, asked: ModelRequest) -> dict[str, Any]:
    return {
        "id": answer.id("msg_01", 22),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(answer, 1),
    }


def _blocks(answer: ServedAnswer) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]], Any]]:
    """Yield each block as it opens, with the deltas that are added to it, and as a whole."""
    if answer.thinking is not None:
        yield _thinking(answer, answer.thinking)
    if answer.text is not None:
        deltas = [{"type": "text_delta", "text": one} for one in pieces(answer.text, answer.chunk)]
        yield {"type": "text", "text": ""}, deltas, {"type": "text", "text": answer.text}
    for call in answer.calls:
        opening = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        parts = ["", *pieces(call.arguments, answer.chunk)]
        deltas = [{"type": "input_json_delta", "partial_json": one} for one in parts]
        yield opening, deltas, {**opening, "input": json.loads(call.arguments)}


def _thinking(answer: ServedAnswer, text: str) -> tuple[dict[str, Any], list[dict[str, Any]], Any]:
    signature = answer.id("", 64, "signature")
    opening = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": one} for one in pieces(text, answer.chunk)]
    deltas.append({"type": "signature_delta", "signature": signature})
    return opening, deltas, {"type": "thinking", "thinking": text, "signature": signature}


def _sequence(answer: ServedAnswer, asked: ModelRequest) -> str | None:
    sequences = asked.body.get("stop_sequences")
    if answer.stop is not Stop.SEQUENCE or not isinstance(sequences, list) or not sequences:
        return None
    return str(sequences[0])


def _usage(answer: ServedAnswer, output: int) -> dict[str, Any]:
    return {
        "input_tokens": answer.usage.input - answer.usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.usage.cached,
        "output_tokens": output,
        "service_tier": "standard",
    }


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, is_named=True)
