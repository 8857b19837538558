"""Output items of OpenAI's responses: which of them are calls for the agent, and the message that
stands in for one that was refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable
from typing import Any

from paddock.llm.answer import ToolCall
from paddock.llm.json_text import Unreadable, arguments_of, clean, dump
from paddock.llm.tool_calls import call_of, refusal_text

# Done by the vendor's servers while they answer. An ending that is not listed here is taken for a
# call: a kind of call that is invented later must not pass unseen.
_BY_SERVER = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "tool_search_call",
        "web_search_call",
    }
)
_CALL_ENDINGS = ("_call", "_request")
_NOT_ARGUMENTS = frozenset({"id", "call_id", "type", "status"})


def is_call(item: dict[str, Any]) -> bool:
    """Return whether the agent is asked to do something, or to agree to something."""
    kind = item.get("type")
    return isinstance(kind, str) and kind.endswith(_CALL_ENDINGS) and kind not in _BY_SERVER


def identity(item: dict[str, Any]) -> str:
    """Return the id that all mentions of a call in one answer share."""
    found = item.get("call_id") or item.get("id")
    if not isinstance(found, str) or len(found) > 256:
        raise Unreadable("a tool call has no id")
    return found


def essence(item: dict[str, Any]) -> bytes:
    """Return a digest of everything that two mentions of a call must agree in: all but its
    progress."""
    rest = {key: value for key, value in item.items() if key not in ("status", "id")}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).digest()


def call_in(key: Hashable, item: dict[str, Any]) -> ToolCall:
    """Return the call of a finished item. Calls of tools that the vendor defines are named after
    their kind, and their arguments are the item itself."""
    kind = str(item["type"])
    name = item.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 256:
        if kind in ("function_call", "custom_tool_call", "mcp_approval_request"):
            raise Unreadable("a tool call has no name")
        return _of_vendor(key, kind, item)
    field = "input" if kind == "custom_tool_call" else "arguments"
    text = item.get(field)
    if not isinstance(text, str):
        raise Unreadable("the arguments of a tool call are no text")
    return call_of(key, identity(item), name, text, is_free_text=field == "input")


def text_field(item: dict[str, Any]) -> str:
    """Return the arguments of an item as their pieces are streamed; empty where they are no
    text."""
    text = item.get("input" if item.get("type") == "custom_tool_call" else "arguments")
    return text if isinstance(text, str) else ""


def stand_in(call_id: str, name: str, why: str) -> dict[str, Any]:
    """Return the message that says that a call was refused."""
    part = {"type": "output_text", "text": refusal_text(name, why), "annotations": []}
    return {
        "id": f"msg_{call_id}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def opening_events(message: dict[str, Any], output_index: int) -> list[dict[str, Any]]:
    """Return the events that stream such a message, up to and without its end."""
    part = message["content"][0]
    place = {"item_id": message["id"], "output_index": output_index, "content_index": 0}
    started = {**message, "status": "in_progress", "content": []}
    return [
        {"type": "response.output_item.added", "output_index": output_index, "item": started},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": part["text"], "logprobs": []},
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def closing_event(message: dict[str, Any], output_index: int) -> dict[str, Any]:
    """Return the event that ends such a message."""
    return {"type": "response.output_item.done", "output_index": output_index, "item": message}


def _of_vendor(key: Hashable, kind: str, item: dict[str, Any]) -> ToolCall:
    rest = {name: value for name, value in item.items() if name not in _NOT_ARGUMENTS}
    arguments, is_readable = arguments_of(dump(rest).decode())
    return ToolCall(key, clean(identity(item)), kind.removesuffix("_call"), arguments, is_readable)
