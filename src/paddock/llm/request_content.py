"""Takes apart the bodies of requests, which an agent wrote. Wrong shapes are Unreadable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paddock.llm.conversation import InvalidRequest

_TEXT_FIELDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}


def text_of(content: Any, where: str) -> str:
    """Return the text of a message; for parts that are no text, only their kind."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise InvalidRequest(f"{where} is neither a text nor a list of parts.", where)
    return "\n".join(part_text(part, where) for part in content)


def part_text(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = field(part, "type", str, where)
    name = _TEXT_FIELDS.get(kind)
    return f"[{kind[:40]}]" if name is None else field(part, name, str, where)


def field(value: Any, name: str, kind: type[Any], where: str) -> Any:
    """Return a field that must be there, of that type. Raises InvalidRequest."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{where} is not an object.", where)
    found = value.get(name)
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
        missing = "is missing" if found is None else "has the wrong type"
        raise InvalidRequest(
            f"{where}.{name} {missing}.".lstrip("."), f"{where}.{name}".lstrip(".")
        )
    return found


def objects(body: Mapping[str, Any], name: str, *, is_required: bool = True) -> list[Any]:
    """Return a list of objects. Raises InvalidRequest."""
    found = body.get(name)
    if found is None and not is_required:
        return []
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise InvalidRequest(f"{name} is not a list of objects.", name)
    return found


def model_of(body: Mapping[str, Any]) -> str:
    found = field(body, "model", str, "")
    if not found or len(found) > 200:
        raise InvalidRequest("model is not the name of a model.", "model")
    return str(found)


# Made once: `json.dumps` makes one each time that it is told how to write.
compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def event(data: Mapping[str, Any], *, is_named: bool) -> bytes:
    """Return the bytes of one event of a stream. OpenAI's older format has no names."""
    head = f"event: {data['type']}\n" if is_named else ""
    return f"{head}data: {compact(data)}\n\n".encode()
