"""OpenAI's chat completions: what a request asks and what an answer says, tool calls aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.llm.answer import TokenUsage
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.json_text import count, items, mapping
from paddock.llm.openai_chat.tool_calls import ChatCalls
from paddock.llm.prompt import Prompt, tally, text_in
from paddock.llm.traffic import TrafficFormat

_SYSTEM = ("system", "developer")


def prompt_of(body: Mapping[str, Any]) -> Prompt:
    """Return the conversation of a request."""
    messages = items(body.get("messages"))
    roles = [(mapping(one).get("role"), mapping(one).get("content")) for one in messages]
    system = next((content for role, content in roles if role in _SYSTEM), None)
    user = next((content for role, content in reversed(roles) if role == "user"), None)
    return Prompt(
        whole={"messages": messages},
        system=text_in(system),
        last_user=text_in(user),
        messages=len(messages),
        images=sum(tally(content) for _, content in roles),
    )


def gather(gathered: AnswerBuilder, data: Mapping[str, Any]) -> None:
    """Collect one chunk of a stream, or a whole completion."""
    gathered.name(data.get("id"), data.get("model"), data.get("service_tier"))
    gathered.fail(data.get("error"))
    gathered.count(data.get("usage"))
    for place, one in enumerate(items(data.get("choices"))):
        choice = mapping(one)
        index = choice.get("index")
        voice = index if type(index) is int and index >= 0 else place
        said = mapping(choice.get("delta") or choice.get("message"))
        gathered.say(said.get("content"), voice)
        gathered.say(said.get("refusal"), voice)
        gathered.stop(choice.get("finish_reason"))
        gathered.is_over |= bool(choice.get("finish_reason"))


def usage_of(gathered: AnswerBuilder) -> TokenUsage:
    """Return the tokens. Prompt tokens include those from the cache."""
    read = gathered.detail("prompt_tokens_details")
    return TokenUsage(
        input=count(gathered.usage.get("prompt_tokens")),
        output=count(gathered.usage.get("completion_tokens")),
        cached=count(read.get("cached_tokens")),
        cache_written=count(read.get("cache_write_tokens")),
        reasoning=count(gathered.detail("completion_tokens_details").get("reasoning_tokens")),
        tier=gathered.tier,
    )


def tools_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the definitions of tools in a request."""
    return [*items(body.get("tools")), *items(body.get("functions"))]


FORMAT = TrafficFormat(
    messages_key="messages",
    prompt_of=prompt_of,
    tools_of=tools_of,
    collect_event=gather,
    collect_body=gather,
    usage_of=usage_of,
    tool_calls=ChatCalls,
)
