"""OpenAI's responses: `POST /v1/responses`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
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

_INCOMPLETE = {Stop.LENGTH: "max_output_tokens", Stop.REFUSAL: "content_filter"}
_NOT_KEPT_HERE = ("conversation", "background", "prompt")
# What a response repeats of its request, and what it says when the request does not.
_ECHOED: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


def read(body: Mapping[str, Any], recall: Recall) -> ModelRequest:
    model = model_of(body)
    for word in _NOT_KEPT_HERE:
        if body.get(word):
            raise InvalidRequest(f"The scripted model does not know {word}: leave it out.", word)
    transcript = Transcript(_earlier(body, recall))
    system = [text_of(body.get("instructions"), "instructions")]
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    count = 0
    for item in objects({"input": items}, "input"):
        if item.get("role") in ("system", "developer"):
            system.append(text_of(item.get("content"), "input.content"))
        else:
            count += 1
            _add(transcript, item)
    messages = transcript.messages()
    check_calls(messages, is_adjacent=False)
    tools = objects(body, "tools", is_required=False)
    names = tuple(str(tool.get("name") or tool.get("type")) for tool in tools)
    check_temperature(body)
    check_tool_choice(body, names)
    output = body.get("text")
    check_schema(output.get("format") if isinstance(output, Mapping) else None, "text.format")
    return ModelRequest(
        model=model,
        system="\n".join(text for text in system if text),
        messages=messages,
        tools=names,
        count=count,
        tools_text=compact(tools) if tools else "",
        is_stream=body.get("stream") is True,
        body=body,
    )


def whole(answer: ServedAnswer, asked: ModelRequest) -> dict[str, Any]:
    reason = _INCOMPLETE.get(answer.stop)
    usage = answer.usage
    return {
        **_begun(answer, asked),
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "completed_at": None if reason else answer.created,
        "output": list(_items(answer)),
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
    }


def events(answer: ServedAnswer, asked: ModelRequest) -> Iterator[bytes]:
    numbers = count()
    for kind, fields in _spoken(answer, asked):
        data = {"type": f"response.{kind}", "sequence_number": next(numbers), **fields}
        yield event(data, is_named=True)


FORMAT = ServedFormat("openai", "call_", read, whole, events, keeps=True)


def _earlier(body: Mapping[str, Any], recall: Recall) -> Any:
    previous = body.get("previous_response_id")
    if previous is None:
        return ()
    messages = recall(previous) if isinstance(previous, str) else None
    if messages is None:
        shown = str(previous)[:80]
        raise InvalidRequest(f"There is no response with the id {shown!r}.", "previous_response_id")
    return messages


def _add(transcript: Transcript, item: Mapping[str, Any]) -> None:
    kind = item.get("type") or "message"
    if kind == "message":
        role = field(item, "role", str, "input")
        if role not in ("user", "assistant"):
            raise InvalidRequest(f"input.role is not a role: {role[:40]!r}.", "input.role")
        say = transcript.user if role == "user" else transcript.assistant
        say(text_of(item.get("content"), "input.content"))
    elif kind == "reasoning":
        transcript.assistant("")
    elif isinstance(kind, str) and kind.endswith("_output"):
        output = item.get("output")
        is_text = isinstance(output, str | list)
        text = text_of(output, "input.output") if is_text else compact(output)
        transcript.result(field(item, "call_id", str, "input"), text)
    elif "call_id" in item:
        given = item.get("arguments", item.get("input", item.get("action")))
        arguments = given if isinstance(given, str) else compact(given)
        name = str(item.get("name") or kind)
        transcript.call(RequestedCall(field(item, "call_id", str, "input"), name, arguments))


def _begun(answer: ServedAnswer, asked: ModelRequest) -> dict[str, Any]:
    """Return a response that has no output yet."""
    given = {key: asked.body.get(key) for key in _ECHOED}
    return {
        "id": answer.id("resp_", 32),
        "object": "response",
        "created_at": answer.created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": asked.model,
        "output": [],
        "usage": None,
        **{key: _ECHOED[key] if value is None else value for key, value in given.items()},
    }


def _items(answer: ServedAnswer) -> Iterator[dict[str, Any]]:
    if answer.thinking is not None:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        yield {"id": answer.id("rs_", 32), "type": "reasoning", "summary": summary}
    status = "incomplete" if answer.stop in _INCOMPLETE else "completed"
    if answer.text is not None:
        yield {
            "id": answer.id("msg_", 32),
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [_text_part(answer.text)],
        }
    for number, call in enumerate(answer.calls):
        yield {
            "id": answer.id("fc_", 32, str(number)),
            "type": "function_call",
            "status": status,
            "name": call.name,
            "arguments": call.arguments,
            "call_id": call.id,
        }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _spoken(answer: ServedAnswer, asked: ModelRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = _begun(answer, asked)
    yield "created", {"response": begun}
    yield "in_progress", {"response": begun}
    for index, item in enumerate(_items(answer)):
        here = {"item_id": item["id"], "output_index": index}
        match item["type"]:
            case "reasoning":
                opening, parts = {**item, "summary": []}, _thought(answer, here)
            case "message":
                opening = {**item, "status": "in_progress", "content": []}
                parts = _said(answer, here)
            case _:
                opening = {**item, "status": "in_progress", "arguments": ""}
                parts = _called(answer, item["arguments"], here)
        yield "output_item.added", {"output_index": index, "item": opening}
        yield from parts
        yield "output_item.done", {"output_index": index, "item": item}
    end = "incomplete" if answer.stop in _INCOMPLETE else "completed"
    yield end, {"response": whole(answer, asked)}


def _thought(answer: ServedAnswer, item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    text, here = answer.thinking or "", {**item, "summary_index": 0}
    yield "reasoning_summary_part.added", {**here, "part": {"type": "summary_text", "text": ""}}
    for piece in pieces(text, answer.chunk):
        yield "reasoning_summary_text.delta", {**here, "delta": piece}
    yield "reasoning_summary_text.done", {**here, "text": text}
    yield "reasoning_summary_part.done", {**here, "part": {"type": "summary_text", "text": text}}


def _said(answer: ServedAnswer, item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    text, here = answer.text or "", {**item, "content_index": 0}
    yield "content_part.added", {**here, "part": _text_part("")}
    for piece in pieces(text, answer.chunk):
        yield "output_text.delta", {**here, "delta": piece, "logprobs": []}
    yield "output_text.done", {**here, "text": text, "logprobs": []}
    yield "content_part.done", {**here, "part": _text_part(text)}


def _called(
    answer: ServedAnswer, arguments: str, here: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in pieces(arguments, answer.chunk):
        yield "function_call_arguments.delta", {**here, "delta": piece}
    yield "function_call_arguments.done", {**here, "arguments": arguments}
