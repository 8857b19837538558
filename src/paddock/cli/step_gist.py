"""What a step said to whom and what came back, as a person wants to read it: the prompt, the answer
and the calls of a model, the bodies of a request. The rest of what is known comes after it, and
digests and headers last. Texts are as they were: whoever shows them goes through `plain`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.cli.step_streams import said_by_events
from paddock.journal.calls import request_money
from paddock.journal.traffic import mapping

_MAX_READ = 200_000
_MAX_CALLS = 50
# What nobody reads first, in this order behind all else.
_LAST = ("parameters", "request", "conversation", "usage", "headers", "trailers", "keyed", "sealed",
         "begun", "bytes", "body_bytes", "body_sha256", "prompt_digest", "sha256")  # fmt: skip

Piece = tuple[str, str]  # what it is, in our words, and its text


def gist_of(proposed: Mapping[str, Any], settled: Mapping[str, Any]) -> list[Piece]:
    """Nothing for what neither asks a model nor is a request."""
    arguments, result = mapping(proposed.get("arguments")), mapping(settled.get("result"))
    if proposed.get("kind") == "model":
        return [*_asked(arguments), *_answered(result)]
    if proposed.get("kind") == "http":
        money = request_money(arguments, result)
        moves = [] if money is None else [("moves", money)]
        return [*moves, *_body("sent", arguments), *_got(result)]
    return []


def in_order(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields, digests and headers last."""
    first = {key: values[key] for key in values if key not in _LAST}
    return {**first, **{key: values[key] for key in _LAST if key in values}}


def laid_out(value: Any) -> str:
    """A text; of JSON over several lines, of a stream of events what it says in all."""
    if isinstance(value, str):
        said = said_by_events(value)
        if said is not None:
            return said
        value = _read(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _asked(arguments: Mapping[str, Any]) -> Iterator[Piece]:
    if arguments.get("prompt"):
        count = arguments.get("messages")
        more = f", the last of {count} messages" if type(count) is int and count > 1 else ""
        yield f"prompt{more}", laid_out(arguments["prompt"])


def _answered(result: Mapping[str, Any]) -> Iterator[Piece]:
    answer = result.get("answer")
    if not isinstance(answer, Mapping):
        yield from _got(result)
        return
    if answer.get("text"):
        yield "answer", str(answer["text"])
    calls = answer.get("tool_calls")
    for call in calls[:_MAX_CALLS] if isinstance(calls, list) else ():
        one = mapping(call)
        yield f"calls {one.get('name')}", laid_out(one.get("arguments"))
    if answer.get("error"):
        yield "error", str(answer["error"])


def _got(result: Mapping[str, Any]) -> Iterator[Piece]:
    yield from _body(f"got {result.get('status', '')}".strip(), result)


def _body(what: str, values: Mapping[str, Any]) -> Iterator[Piece]:
    if values.get("body") not in (None, "", {}):
        yield what, laid_out(values["body"])


def _read(text: str) -> Any:
    if len(text) > _MAX_READ or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
