"""Anthropic's messages: what a request asks and what an answer says, tool calls aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.llm.answer import TokenUsage
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.anthropic_messages.tool_calls import MessagesCalls
from paddock.llm.json_text import count, items, mapping
from paddock.llm.prompt import Prompt, tally, text_in
from paddock.llm.traffic import TrafficFormat


def prompt_of(body: Mapping[str, Any]) -> Prompt:
    """Return the conversation of a request. Results of tools come as messages of the user: the last
    text is what was asked, not what a tool returned."""
    messages = items(body.get("messages"))
    asked = [mapping(one).get("content") for one in messages if mapping(one).get("role") == "user"]
    texts = (text for content in reversed(asked) if (text := text_in(content)))
    return Prompt(
        whole={"system": body.get("system"), "messages": messages},
        system=text_in(body.get("system")),
        last_user=next(texts, ""),
        messages=len(messages),
        images=sum(tally(mapping(one).get("content")) for one in messages),
    )


def gather(gathered: AnswerBuilder, data: Mapping[str, Any]) -> None:
    """Collect one event of a stream."""
    match data.get("type"):
        case "message_start":
            gather_message(gathered, mapping(data.get("message")))
        case "content_block_start":
            gathered.say(mapping(data.get("content_block")).get("text"))
        case "content_block_delta":
            gathered.say(mapping(data.get("delta")).get("text"))
        case "message_delta":
            gathered.stop(mapping(data.get("delta")).get("stop_reason"))
            gathered.count(data.get("usage"))
        case "message_stop":
            gathered.is_over = True
        case "error":
            gathered.fail(data.get("error") or "error")


def gather_message(gathered: AnswerBuilder, message: Mapping[str, Any]) -> None:
    """Collect a whole message, or the frame that a stream fills."""
    usage = mapping(message.get("usage"))
    gathered.name(message.get("id"), message.get("model"), usage.get("service_tier"))
    gathered.stop(message.get("stop_reason"))
    gathered.count(usage)
    gathered.fail(message.get("error"))
    for block in items(message.get("content")):
        if mapping(block).get("type") == "text":
            gathered.say(mapping(block).get("text"))


def usage_of(gathered: AnswerBuilder) -> TokenUsage:
    """Return the tokens. Input tokens do not include those from the cache and those that went to
    it."""
    cached = count(gathered.usage.get("cache_read_input_tokens"))
    cache_written = count(gathered.usage.get("cache_creation_input_tokens"))
    kept = gathered.detail("cache_creation").get("ephemeral_1h_input_tokens")
    details = gathered.detail("output_tokens_details")
    # Twice the speed, for more than twice the price.
    is_fast = gathered.usage.get("speed") not in (None, "standard")
    return TokenUsage(
        input=count(gathered.usage.get("input_tokens")) + cached + cache_written,
        output=count(gathered.usage.get("output_tokens")),
        cached=cached,
        cache_written=cache_written,
        cache_written_1h=min(count(kept), cache_written),
        reasoning=count(details.get("reasoning_tokens") or details.get("thinking_tokens")),
        tier="fast" if is_fast else gathered.tier,
    )


def tools_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the definitions of tools in a request."""
    return items(body.get("tools"))


FORMAT = TrafficFormat(
    messages_key="messages",
    prompt_of=prompt_of,
    tools_of=tools_of,
    collect_event=gather,
    collect_body=gather_message,
    usage_of=usage_of,
    tool_calls=MessagesCalls,
)
