"""Cohere's chat: what a request asks and what an answer says, tool calls aside.

Requests are like those of OpenAI's chat completions; answers and events are Cohere's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.llm.answer import TokenUsage
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.cohere.tool_calls import CohereCalls
from paddock.llm.json_text import count, items, mapping
from paddock.llm.openai_chat.traffic import prompt_of, tools_of
from paddock.llm.traffic import TrafficFormat


def collect_event(builder: AnswerBuilder, data: Mapping[str, Any]) -> None:
    """Collect one event of a stream."""
    message = mapping(mapping(data.get("delta")).get("message"))
    match data.get("type"):
        case "message-start":
            builder.name(data.get("id"), None)
        case "content-start" | "content-delta":
            builder.say(mapping(message.get("content")).get("text"))
        case "message-end":
            _end(builder, mapping(data.get("delta")))


def collect_body(builder: AnswerBuilder, body: Mapping[str, Any]) -> None:
    """Collect a whole answer."""
    builder.name(body.get("id"), None)
    message = body.get("message")
    if isinstance(message, str):
        builder.fail(message)
    for block in items(mapping(message).get("content")):
        builder.say(mapping(block).get("text"))
    _end(builder, body)


def _end(builder: AnswerBuilder, ending: Mapping[str, Any]) -> None:
    builder.stop(ending.get("finish_reason"))
    builder.fail(ending.get("error"))
    builder.count(ending.get("usage"))
    builder.is_over = True


def usage_of(builder: AnswerBuilder) -> TokenUsage:
    """Return the billed tokens, which are those that cost something."""
    billed = builder.detail("billed_units") or builder.detail("tokens")
    return TokenUsage(
        input=count(_whole(billed.get("input_tokens"))),
        output=count(_whole(billed.get("output_tokens"))),
    )


def _whole(value: Any) -> Any:
    """Return a count that may be written as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


FORMAT = TrafficFormat(
    messages_key="messages",
    prompt_of=prompt_of,
    tools_of=tools_of,
    collect_event=collect_event,
    collect_body=collect_body,
    usage_of=usage_of,
    tool_calls=CohereCalls,
)
