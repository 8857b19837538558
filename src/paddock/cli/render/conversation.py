"""A request to a model as lines for people. Every word in it may be an agent's: texts stand
behind a bar, go through `plain`, and have a bounded length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from paddock.model.printable import printable

_MAX_LINES = 200  # of one part of a message
MAX_TEXT = 20_000
_TEXTS = ("text", "content", "output", "thinking", "refusal")
_APART = frozenset({"messages", "input", "system", "instructions"})


def conversation_lines(request: Mapping[str, Any]) -> Iterator[str]:
    """Yield the system prompt, then every message, oldest first, then the other parameters."""
    for key in ("system", "instructions"):
        if request.get(key):
            yield key
            yield from _part(request[key])
    messages = request.get("messages", request.get("input"))
    for number, message in enumerate(messages if isinstance(messages, list) else [messages], 1):
        if message is not None:
            yield f"{number}. {_role(message)}"
            yield from _message(message)
    rest = {key: request[key] for key in request if key not in _APART}
    yield f"asked with {printable(json.dumps(rest, ensure_ascii=False), MAX_TEXT)}"


def _role(message: Any) -> str:
    if not isinstance(message, Mapping):
        return "text"
    return printable(message.get("role") or message.get("type") or "message", 40)


def _message(message: Any) -> Iterator[str]:
    if not isinstance(message, Mapping):
        yield from _part(message)
        return
    content = message.get("content")
    yield from _part([] if content is None else content)
    rest = {key: message[key] for key in message if key not in ("role", "content")}
    if rest:
        yield from text_lines(json.dumps(rest, ensure_ascii=False))


def _part(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _part(item)
    elif isinstance(part, str):
        yield from text_lines(part)
    elif isinstance(part, Mapping) and (text := _only_text(part)) is not None:
        yield from text_lines(text)
    else:
        yield from text_lines(json.dumps(part, ensure_ascii=False))


def _only_text(part: Mapping[str, Any]) -> str | None:
    """Return the text of a part that has nothing else, or None."""
    if not part.keys() <= {"type", *_TEXTS}:
        return None
    texts = [part[key] for key in _TEXTS if isinstance(part.get(key), str)]
    return texts[0] if len(texts) == 1 else None


def text_lines(text: str) -> Iterator[str]:
    """Yield a text of any length; what is left out is said."""
    lines = text[:MAX_TEXT].split("\n")
    yield from barred(lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES or len(text) > MAX_TEXT:
        yield f"    (it has {len(text)} characters: --json)"


def barred(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of others behind a bar, so that none can pass for one of ours."""
    return (f"    | {printable(line, MAX_TEXT)}" for line in lines)
