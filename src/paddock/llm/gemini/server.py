"""Gemini as a server: `POST /v1beta/models/MODEL:generateContent`, and the same as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.llm.conversation import (
    InvalidRequest,
    ModelRequest,
    RequestedCall,
    Transcript,
)
from paddock.llm.request_content import compact, event, field, model_of, objects
from paddock.llm.served_answer import Recall, ServedAnswer, ServedFormat, Stop, pieces

_FINISH = {
    Stop.END: "STOP",
    Stop.TOOL: "STOP",
    Stop.SEQUENCE: "STOP",
    Stop.PAUSE: "STOP",
    Stop.LENGTH: "MAX_TOKENS",
    Stop.REFUSAL: "SAFETY",
}


def read(body: Mapping[str, Any], _: Recall) -> ModelRequest:
    transcript = Transcript()
    contents = objects(body, "contents")
    for number, content in enumerate(contents):
        _add(transcript, content, f"contents[{number}]")
    system = body.get("systemInstruction") or body.get("system_instruction")
    tools = objects(body, "tools", is_required=False)
    declared = [
        declaration
        for tool in tools
        for declaration in objects(tool, "functionDeclarations", is_required=False)
    ]
    return ModelRequest(
        model=model_of(body),
        system="" if system is None else _text(system, "systemInstruction"),
        messages=transcript.messages(),
        tools=tuple(field(tool, "name", str, "functionDeclarations") for tool in declared),
        count=len(contents),
        tools_text=compact(tools) if tools else "",
        is_stream=body.get("stream") is True,
        body=body,
    )


def whole(answer: ServedAnswer, asked: ModelRequest) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if answer.thinking is not None:
        parts.append({"text": answer.thinking, "thought": True})
    if answer.text is not None:
        parts.append({"text": answer.text})
    parts += [_call_part(call) for call in answer.calls]
    return _chunk(answer, asked, parts, is_last=True)


def chunks(answer: ServedAnswer, asked: ModelRequest) -> Iterator[dict[str, Any]]:
    """Yield the answers of a stream; each adds to the one before."""
    for piece in pieces(answer.thinking or "", answer.chunk):
        yield _chunk(answer, asked, [{"text": piece, "thought": True}])
    for piece in pieces(answer.text or "", answer.chunk):
        yield _chunk(answer, asked, [{"text": piece}])
    calls = [_call_part(call) for call in answer.calls]
    yield _chunk(answer, asked, calls or [{"text": ""}], is_last=True)


def events(answer: ServedAnswer, asked: ModelRequest) -> Iterator[bytes]:
    for chunk in chunks(answer, asked):
        yield event(chunk, is_named=False)


FORMAT = ServedFormat("gcp.gemini", "", read, whole, events)


def _add(transcript: Transcript, content: Mapping[str, Any], where: str) -> None:
    role = content.get("role") or "user"
    if role not in ("user", "model", "function"):
        raise InvalidRequest("Please use a valid role: user, model.", f"{where}.role")
    say = transcript.assistant if role == "model" else transcript.user
    for part in objects(content, "parts"):
        if call := part.get("functionCall"):
            name = field(call, "name", str, f"{where}.parts.functionCall")
            transcript.call(RequestedCall(_id(call, name), name, compact(call.get("args") or {})))
        elif result := part.get("functionResponse"):
            name = field(result, "name", str, f"{where}.parts.functionResponse")
            transcript.result(_id(result, name), compact(result.get("response") or {}))
        else:
            text = part.get("text")
            say(text if isinstance(text, str) and not part.get("thought") else "")


def _id(holder: Mapping[str, Any], name: str) -> str:
    """Return what joins a call with its result: an id where there is one, else the name."""
    id = holder.get("id")
    return id if isinstance(id, str) and id else name


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in objects(field_object(content, where), "parts"))
    return "\n".join(text for text in texts if isinstance(text, str))


def field_object(value: Any, where: str) -> Mapping[str, Any]:
    """Return a value that must be an object."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{where} is not an object.", where)
    return value


def _call_part(call: RequestedCall) -> dict[str, Any]:
    return {"functionCall": {"name": call.name, "args": json.loads(call.arguments)}}


def _chunk(
    answer: ServedAnswer, asked: ModelRequest, parts: list[dict[str, Any]], *, is_last: bool = False
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    usage: dict[str, Any] = {"promptTokenCount": answer.usage.input}
    if is_last:
        candidate["finishReason"] = _FINISH[answer.stop]
        output = answer.usage.output - answer.usage.reasoning
        usage["candidatesTokenCount"] = output
        if answer.usage.cached:
            usage["cachedContentTokenCount"] = answer.usage.cached
        if answer.usage.reasoning:
            usage["thoughtsTokenCount"] = answer.usage.reasoning
    usage["totalTokenCount"] = answer.usage.input + (answer.usage.output if is_last else 0)
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": asked.model,
        "responseId": answer.id("", 22, "response"),
    }
