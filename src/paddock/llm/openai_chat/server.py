"""OpenAI's chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paddock.llm.conversation import (
    InvalidRequest,
    ModelRequest,
    RequestedCall,
    Transcript,
    check_calls,
)
from paddock.llm.openai_chat.request_limits import (
    check_schema,
    check_temperature,
    check_tool_choice,
)
from paddock.llm.request_content import compact, event, field, model_of, objects, text_of
from paddock.llm.served_answer import Recall, ServedAnswer, ServedFormat, Stop, pieces

_FINISH = {
    Stop.END: "stop",
    Stop.SEQUENCE: "stop",
    Stop.PAUSE: "stop",
    Stop.TOOL: "tool_calls",
    Stop.LENGTH: "length",
    Stop.REFUSAL: "content_filter",
}
_FINGERPRINT = "fp_paddock"


def read(body: Mapping[str, Any], _: Recall) -> ModelRequest:
    model = model_of(body)
    if body.get("n") not in (None, 1):
        raise InvalidRequest("The scripted model gives one choice: leave n out.", "n")
    transcript, system, count = Transcript(), [], 0
    for number, message in enumerate(objects(body, "messages")):
        where = f"messages[{number}]"
        role = field(message, "role", str, where)
        if role in ("system", "developer"):
            system.append(text_of(message.get("content"), f"{where}.content"))
        else:
            count += 1
            _add(transcript, role, message, where)
    messages = transcript.messages()
    check_calls(messages, is_adjacent=True)
    tools = objects(body, "tools", is_required=False)
    names = tuple(_tool_name(tool) for tool in tools)
    check_temperature(body)
    check_tool_choice(body, names)
    check_schema(body.get("response_format"), "response_format.json_schema")
    return ModelRequest(
        model=model,
        system="\n".join(system),
        messages=messages,
        tools=names,
        count=count,
        tools_text=compact(tools) if tools else "",
        is_stream=body.get("stream") is True,
        body=body,
    )


def whole(answer: ServedAnswer, asked: ModelRequest) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text,
        "refusal": None,
        "annotations": [],
    }
    if answer.calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in answer.calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _FINISH[answer.stop],
    }
    return {
        **_head(answer, asked, "chat.completion"),
        "choices": [choice],
        "usage": _usage(answer),
    }


def events(answer: ServedAnswer, asked: ModelRequest) -> Iterator[bytes]:
    options = asked.body.get("stream_options")
    has_usage = isinstance(options, Mapping) and options.get("include_usage") is True
    head = _head(answer, asked, "chat.completion.chunk")
    if has_usage:
        head["usage"] = None

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event({**head, "choices": [choice]}, is_named=False)

    is_silent = answer.text is None
    yield chunk({"role": "assistant", "content": None if is_silent else "", "refusal": None})
    for piece in pieces(answer.text or "", answer.chunk):
        yield chunk({"content": piece})
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        first = {"index": index, "id": call.id, "type": "function", "function": function}
        yield chunk({"tool_calls": [first]})
        for piece in pieces(call.arguments, answer.chunk):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _FINISH[answer.stop])
    if has_usage:
        yield event({**head, "choices": [], "usage": _usage(answer)}, is_named=False)
    yield b"data: [DONE]\n\n"


FORMAT = ServedFormat("openai", "call_", read, whole, events)


def _add(transcript: Transcript, role: str, message: Mapping[str, Any], where: str) -> None:
    text = text_of(message.get("content"), f"{where}.content")
    if role == "user":
        transcript.user(text)
    elif role == "tool":
        transcript.result(field(message, "tool_call_id", str, where), text)
    elif role == "function":
        transcript.result(field(message, "name", str, where), text)
    elif role == "assistant":
        transcript.assistant(text)
        for call in objects(message, "tool_calls", is_required=False):
            transcript.call(_call(call, f"{where}.tool_calls"))
        if old := message.get("function_call"):  # the older way has no ids: the name is one
            name = field(old, "name", str, f"{where}.function_call")
            transcript.call(RequestedCall(name, name, field(old, "arguments", str, where)))
    else:
        raise InvalidRequest(f"{where}.role is not a role: {role[:40]!r}.", f"{where}.role")


def _call(call: Mapping[str, Any], where: str) -> RequestedCall:
    id = field(call, "id", str, where)
    if call.get("type") == "custom":
        custom = field(call, "custom", dict, where)
        return RequestedCall(
            id, field(custom, "name", str, where), field(custom, "input", str, where)
        )
    function = field(call, "function", dict, where)
    return RequestedCall(
        id, field(function, "name", str, where), field(function, "arguments", str, where)
    )


def _tool_name(tool: Mapping[str, Any]) -> str:
    kind = field(tool, "type", str, "tools")
    return str(field(field(tool, kind, dict, "tools"), "name", str, "tools"))


def _head(answer: ServedAnswer, asked: ModelRequest, object: str) -> dict[str, Any]:
    return {
        "id": answer.id("chatcmpl-", 29),
        "object": object,
        "created": answer.created,
        "model": asked.model,
        "service_tier": "default",
        "system_fingerprint": _FINGERPRINT,
    }


def _usage(answer: ServedAnswer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
