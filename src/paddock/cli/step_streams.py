"""What a stream of server-sent events says in all, for a person who reads it afterwards. The words
of the two large model APIs are known; of other streams the data of each event is a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_MAX_EVENTS = 20_000


def said_by_events(text: str) -> str | None:
    """The pieces put together; None for a text that is no such stream."""
    if not text.lstrip().startswith(("event:", "data:", ":")):
        return None
    data = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    if not data:
        return None
    events = [_event(one) for one in data[:_MAX_EVENTS]]
    pieces = "".join(piece for one in events for piece in _pieces(one))
    return pieces or "\n".join(data[:_MAX_EVENTS])


def _event(data: str) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _pieces(event: Mapping[str, Any]) -> Iterator[str]:
    delta = event.get("delta")
    if isinstance(delta, str):
        yield delta
    elif isinstance(delta, Mapping):
        yield from _texts(delta, ("text", "thinking", "partial_json"))
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        inner = choice.get("delta") if isinstance(choice, Mapping) else None
        if isinstance(inner, Mapping):
            yield from _texts(inner, ("content", "reasoning_content"))
            yield from _called(inner.get("tool_calls"))
    block = event.get("content_block")
    if isinstance(block, Mapping) and block.get("type") == "tool_use":
        yield f"\n[{block.get('name')}] "


def _called(calls: Any) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            if isinstance(function.get("name"), str):
                yield f"\n[{function['name']}] "
            yield from _texts(function, ("arguments",))


def _texts(values: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        if isinstance(values.get(key), str):
            yield values[key]
