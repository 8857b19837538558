"""The gist of a step, as a person wants to read it first: the prompt, the answer and the calls of a
model, the bodies of a request. The rest of what is known comes after it, and
digests and headers last. Texts are as they were: whoever shows them goes through `plain`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.journal.calls import request_money
from paddock.journal.traffic import mapping
from paddock.model.action import Kind
from paddock.model.steps import Step

_MAX_READ = 200_000
_MAX_CALLS = 50
_MAX_EVENTS = 20_000
# What nobody reads first, in this order behind all else.
_LAST = ("parameters", "request", "conversation", "usage", "headers", "trailers", "keyed", "sealed",
         "begun", "bytes", "body_bytes", "body_sha256", "prompt_digest", "sha256")  # fmt: skip

Piece = tuple[str, str]  # what it is, in our words, and its text


def gist_of(step: Step) -> list[Piece]:
    """Return nothing for what neither asks a model nor is a request."""
    if step.kind is Kind.MODEL:
        return [*_question(step.arguments), *_answer(step.result)]
    if step.kind is Kind.HTTP:
        money = request_money(step.arguments, step.result)
        moves = [] if money is None else [("moves", money)]
        return [*moves, *_body("sent", step.arguments), *_got(step.result)]
    return []


def in_order(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same fields, digests and headers last."""
    first = {key: values[key] for key in values if key not in _LAST}
    return {**first, **{key: values[key] for key in _LAST if key in values}}


def laid_out(value: Any) -> str:
    """Return a value as text: JSON over several lines, and of a stream of events what it says in
    all."""
    if isinstance(value, str):
        streamed = text_of_events(value)
        if streamed is not None:
            return streamed
        value = _read(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _question(arguments: Mapping[str, Any]) -> Iterator[Piece]:
    if arguments.get("prompt"):
        count = arguments.get("messages")
        more = f", the last of {count} messages" if type(count) is int and count > 1 else ""
        yield f"prompt{more}", laid_out(arguments["prompt"])


def _answer(result: Mapping[str, Any]) -> Iterator[Piece]:
    answer = result.get("answer")
    if not isinstance(answer, Mapping):
        yield from _got(result)
        return
    if answer.get("text"):
        yield "answer", str(answer["text"])
    for call in _items(answer.get("tool_calls"))[:_MAX_CALLS]:
        yield f"calls {mapping(call).get('name')}", laid_out(mapping(call).get("arguments"))
    if answer.get("error"):
        yield "error", str(answer["error"])


def _got(result: Mapping[str, Any]) -> Iterator[Piece]:
    yield from _body(f"got {result.get('status', '')}".strip(), result)


def _body(what: str, values: Mapping[str, Any]) -> Iterator[Piece]:
    if values.get("body") not in (None, "", {}):
        yield what, laid_out(values["body"])


def _read(text: str) -> Any:
    """Return the object or list that a text of JSON holds, else the text."""
    if len(text) > _MAX_READ or not text.lstrip().startswith(("{", "[")):
        return text
    value = _json_or_none(text)
    return text if value is None else value


# ---- server-sent events ------------------------------------------------------------------------


def text_of_events(text: str) -> str | None:
    """Return the pieces of a stream put together, or None for a text that is no such stream. The
    deltas of the two large model APIs are known; of other streams the data of each event is a
    line."""
    if not text.lstrip().startswith(("event:", "data:", ":")):
        return None
    data = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    if not data:
        return None
    events = [mapping(_json_or_none(line)) for line in data[:_MAX_EVENTS]]
    pieces = "".join(piece for event in events for piece in _pieces(event))
    return pieces or "\n".join(data[:_MAX_EVENTS])


def _pieces(event: Mapping[str, Any]) -> Iterator[str]:
    delta = event.get("delta")
    if isinstance(delta, str):
        yield delta
    yield from _texts(mapping(delta), "text", "thinking", "partial_json")
    for choice in _items(event.get("choices")):
        inner = mapping(mapping(choice).get("delta"))
        yield from _texts(inner, "content", "reasoning_content")
        for call in _items(inner.get("tool_calls")):
            function = mapping(mapping(call).get("function"))
            if isinstance(function.get("name"), str):
                yield f"\n[{function['name']}] "
            yield from _texts(function, "arguments")
    block = mapping(event.get("content_block"))
    if block.get("type") == "tool_use":
        yield f"\n[{block.get('name')}] "


def _texts(values: Mapping[str, Any], *keys: str) -> Iterator[str]:
    return (values[key] for key in keys if isinstance(values.get(key), str))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
