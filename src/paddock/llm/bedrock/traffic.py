"""Bedrock's `converse`: what a request asks and what an answer says, tool calls aside.

The events of a stream have no type of their own; the event stream names them, and `event_stream`
makes each an object with its name as the only key, as AWS's clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.llm.answer import TokenUsage
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.bedrock.tool_calls import ConverseCalls
from paddock.llm.json_text import count, items, mapping
from paddock.llm.prompt import Prompt, text_in
from paddock.llm.traffic import TrafficFormat


def prompt_of(body: Mapping[str, Any]) -> Prompt:
    """Return the conversation of a request. Results of tools come as messages of the user."""
    messages = items(body.get("messages"))
    users = [mapping(message) for message in messages if mapping(message).get("role") == "user"]
    texts = (text for message in reversed(users) if (text := text_in(message.get("content"))))
    blocks = [block for message in messages for block in items(mapping(message).get("content"))]
    return Prompt(
        whole={"system": body.get("system"), "messages": messages},
        system=text_in(body.get("system")),
        last_user=next(texts, ""),
        messages=len(messages),
        images=sum("image" in mapping(block) for block in blocks),
    )


def tools_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the definitions of tools in a request."""
    return items(mapping(body.get("toolConfig")).get("tools"))


def collect_event(builder: AnswerBuilder, data: Mapping[str, Any]) -> None:
    """Collect one event of a stream."""
    for name, event in data.items():
        match name:
            case "contentBlockDelta":
                builder.say(mapping(mapping(event).get("delta")).get("text"))
            case "messageStop":
                builder.stop(mapping(event).get("stopReason"))
                builder.is_over = True
            case "metadata":
                builder.count(mapping(event).get("usage"))
            case _ if name.endswith("Exception"):
                builder.fail(event or name)


def collect_body(builder: AnswerBuilder, body: Mapping[str, Any]) -> None:
    """Collect a whole answer."""
    builder.stop(body.get("stopReason"))
    builder.count(body.get("usage"))
    builder.fail(body.get("message") if "output" not in body else None)
    message = mapping(mapping(body.get("output")).get("message"))
    for block in items(message.get("content")):
        builder.say(mapping(block).get("text"))


def usage_of(builder: AnswerBuilder) -> TokenUsage:
    """Return the tokens. Input tokens do not include those from the cache and those that went to
    it."""
    cached = count(builder.usage.get("cacheReadInputTokens"))
    cache_written = count(builder.usage.get("cacheWriteInputTokens"))
    return TokenUsage(
        input=count(builder.usage.get("inputTokens")) + cached + cache_written,
        output=count(builder.usage.get("outputTokens")),
        cached=cached,
        cache_written=cache_written,
    )


FORMAT = TrafficFormat(
    messages_key="messages",
    prompt_of=prompt_of,
    tools_of=tools_of,
    collect_event=collect_event,
    collect_body=collect_body,
    usage_of=usage_of,
    tool_calls=ConverseCalls,
)
