"""A request to a model as the arguments of an action: who is asked, how, with which tools, and as
much of the prompt as rules and people need. A conversation is sent again with every turn, so only
its last question and its digest are here; all of it is kept by `journal.conversations`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from paddock.journal.canonical import MAX_INTEGER, canonical
from paddock.llm.formats import Wire
from paddock.llm.json_text import cut, mapping, text_or_none
from paddock.llm.traffic import traffic_format
from paddock.model.errors import InvalidInput

MAX_PROMPT_TEXT = 8 << 10  # bytes, of the system prompt and of the last question each
MAX_TOOLS = 128
MAX_DEFINITION = 2 << 10  # bytes of a tool's definition; of a larger one the digest must do
MAX_DEFINITIONS = 32 << 10  # of all tools together
_MAX_PARAMETER = 256

_PARAMETERS = (
    "background",
    "effort",
    "frequency_penalty",
    "function_call",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_tool_calls",
    "n",
    "output_config",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "speed",
    "stop",
    "stop_sequences",
    "store",
    "temperature",
    "thinking",
    "tool_choice",
    "top_k",
    "top_p",
    "truncation",
    "verbosity",
)


def describe_request(wire: Wire, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a `model` action. Never raises for what a body may hold."""
    traffic = traffic_format(wire.api)
    prompt = traffic.prompt_of(body)
    return {
        "provider": wire.provider,
        "api": str(wire.api),
        "model": text_or_none(body.get("model")) or text_or_none(wire.model),
        "stream": body.get("stream") is True if wire.is_stream is None else wire.is_stream,
        "parameters": _parameters(body),
        "tools": _tools(traffic.tools_of(body)),
        "messages": prompt.messages,
        "images": prompt.images,
        "system": cut(prompt.system, MAX_PROMPT_TEXT),
        "prompt": cut(prompt.last_user, MAX_PROMPT_TEXT),
        "prompt_digest": digest_of(prompt.whole),
    }


def without_definitions(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools without their definitions, which are the same with every turn and stored
    elsewhere."""
    return [{key: tool[key] for key in ("name", "digest")} for tool in tools]


def digest_of(value: Any) -> str:
    """Return the SHA-256 of the canonical form of a JSON value."""
    return hashlib.sha256(_spelled(value)).hexdigest()


def _spelled(value: Any) -> bytes:
    try:
        return canonical(value)
    except (InvalidInput, RecursionError):
        pass
    try:
        # Numbers and texts that canonical JSON does not have still make one digest.
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr).encode()
    except (ValueError, TypeError, RecursionError):
        return b""


def _parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: _scalar(body[name]) for name in _PARAMETERS if body.get(name) is not None}
    return {name: value for name, value in found.items() if value is not None}


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, _MAX_PARAMETER)
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_INTEGER):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return cut(_spelled(value)[:4096].decode("utf-8", "ignore"), _MAX_PARAMETER)


def _tools(definitions: list[Any]) -> list[dict[str, Any]]:
    room = MAX_DEFINITIONS
    found: list[dict[str, Any]] = []
    for definition in definitions[:MAX_TOOLS]:
        spelled = _spelled(definition)
        tool: dict[str, Any] = {
            "name": _tool_name(mapping(definition)),
            "digest": hashlib.sha256(spelled).hexdigest(),
        }
        if len(spelled) <= min(MAX_DEFINITION, room):
            room -= len(spelled)
            tool["definition"] = definition
        found.append(tool)
    return found


def _tool_name(definition: Mapping[str, Any]) -> str | None:
    """Tools that the vendor defines have no name but their type."""
    inner = mapping(
        definition.get("function") or definition.get("custom") or definition.get("toolSpec")
    )
    name = definition.get("name") or inner.get("name") or definition.get("server_label")
    return text_or_none(name or definition.get("type"))
