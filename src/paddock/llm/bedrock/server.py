"""Bedrock as a server: `POST /model/MODEL/converse`, and the same as an event stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.llm.bedrock.event_stream import AwsEventSource
from paddock.llm.conversation import (
    InvalidRequest,
    ModelRequest,
    RequestedCall,
    Transcript,
    check_calls,
)
from paddock.llm.request_content import compact, field, model_of, objects
from paddock.llm.served_answer import Recall, ServedAnswer, ServedFormat, Stop, pieces

_STOP = {
    Stop.END: "end_turn",
    Stop.PAUSE: "end_turn",
    Stop.TOOL: "tool_use",
    Stop.LENGTH: "max_tokens",
    Stop.SEQUENCE: "stop_sequence",
    Stop.REFUSAL: "guardrail_intervened",
}


def read(body: Mapping[str, Any], _: Recall) -> ModelRequest:
    transcript = Transcript()
    sent = objects(body, "messages")
    for number, message in enumerate(sent):
        _add(transcript, message, f"messages.{number}")
    messages = transcript.messages()
    if messages[0].is_assistant:
        raise InvalidRequest("A conversation must start with a user message.", "messages")
    check_calls(messages, is_adjacent=True)
    config = body.get("toolConfig")
    tools = objects(config, "tools") if isinstance(config, Mapping) else []
    specs = [field(tool, "toolSpec", dict, "tools") for tool in tools if "toolSpec" in tool]
    system = [part.get("text") for part in objects(body, "system", is_required=False)]
    return ModelRequest(
        model=model_of(body),
        system="\n".join(text for text in system if isinstance(text, str)),
        messages=messages,
        tools=tuple(field(spec, "name", str, "toolSpec") for spec in specs),
        count=len(sent),
        tools_text=compact(tools) if tools else "",
        is_stream=body.get("stream") is True,
        body=body,
    )


def whole(answer: ServedAnswer, asked: ModelRequest) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if answer.text is not None:
        content.append({"text": answer.text})
    for call in answer.calls:
        tool = {"toolUseId": call.id, "name": call.name, "input": json.loads(call.arguments)}
        content.append({"toolUse": tool})
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _STOP[answer.stop],
        "usage": _usage(answer),
        "metrics": {"latencyMs": 1},
    }


def events(answer: ServedAnswer, asked: ModelRequest) -> Iterator[bytes]:
    source = AwsEventSource()
    for event in _events(answer):
        yield source.written(event, None)


FORMAT = ServedFormat(
    "aws.bedrock",
    "tooluse_",
    read,
    whole,
    events,
    stream_type=b"application/vnd.amazon.eventstream",
)


def _events(answer: ServedAnswer) -> Iterator[dict[str, Any]]:
    yield {"messageStart": {"role": "assistant"}}
    index = 0
    if answer.text is not None:
        for piece in pieces(answer.text, answer.chunk):
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"text": piece}}}
        yield {"contentBlockStop": {"contentBlockIndex": index}}
        index += 1
    for position, call in enumerate(answer.calls):
        at = {"contentBlockIndex": index + position}
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        yield {"contentBlockStart": {**at, "start": start}}
        for piece in pieces(call.arguments, answer.chunk):
            yield {"contentBlockDelta": {**at, "delta": {"toolUse": {"input": piece}}}}
        yield {"contentBlockStop": at}
    yield {"messageStop": {"stopReason": _STOP[answer.stop]}}
    yield {"metadata": {"usage": _usage(answer), "metrics": {"latencyMs": 1}}}


def _add(transcript: Transcript, message: Mapping[str, Any], where: str) -> None:
    role = field(message, "role", str, where)
    if role not in ("user", "assistant"):
        raise InvalidRequest(f"{where}.role is not a role: {role[:40]!r}.", f"{where}.role")
    say = transcript.user if role == "user" else transcript.assistant
    for block in objects(message, "content"):
        if tool := block.get("toolUse"):
            id, name = (field(tool, key, str, f"{where}.toolUse") for key in ("toolUseId", "name"))
            transcript.call(RequestedCall(id, name, compact(field(tool, "input", dict, where))))
        elif result := block.get("toolResult"):
            id = field(result, "toolUseId", str, f"{where}.toolResult")
            transcript.result(id, "\n".join(map(_result_text, objects(result, "content"))))
        else:
            text = block.get("text")
            say(text if isinstance(text, str) else "")


def _result_text(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else compact(part.get("json"))


def _usage(answer: ServedAnswer) -> dict[str, int]:
    usage = answer.usage
    return {
        "inputTokens": usage.input - usage.cached,
        "outputTokens": usage.output,
        "totalTokens": usage.input + usage.output,
        "cacheReadInputTokens": usage.cached,
    }
