"""OpenAI's responses: what a request asks and what an answer says, tool calls aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.llm.answer import TokenUsage
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.json_text import count, items, mapping
from paddock.llm.openai_responses.tool_calls import ResponsesCalls
from paddock.llm.prompt import Prompt, tally, text_in
from paddock.llm.traffic import TrafficFormat

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


def prompt_of(body: Mapping[str, Any]) -> Prompt:
    """Return the conversation of a request."""
    given = body.get("input")
    turns = items(given) if not isinstance(given, str) else [{"role": "user", "content": given}]
    roles = [(mapping(one).get("role"), mapping(one).get("content")) for one in turns]
    user = next((content for role, content in reversed(roles) if role == "user"), None)
    system = next((text for role, text in roles if role in ("system", "developer")), None)
    return Prompt(
        whole={"instructions": body.get("instructions"), "input": given},
        system=text_in(body.get("instructions")) or text_in(system),
        last_user=text_in(user),
        messages=len(turns),
        images=sum(tally(content) for _, content in roles),
    )


def gather(gathered: AnswerBuilder, data: Mapping[str, Any]) -> None:
    """Collect one event of a stream."""
    kind = data.get("type")
    if kind in ("response.output_text.delta", "response.refusal.delta"):
        gathered.say(data.get("delta"))
    elif kind in _ENDS:
        gather_response(gathered, mapping(data.get("response")), is_streamed=True)
        gathered.is_over = True
    elif kind == "response.created":
        response = mapping(data.get("response"))
        gathered.name(response.get("id"), response.get("model"))
    elif kind == "error":
        gathered.fail(data.get("error") or data.get("message") or "error")


def gather_response(
    gathered: AnswerBuilder, response: Mapping[str, Any], *, is_streamed: bool = False
) -> None:
    """Collect a whole response. After a stream, its text is known already."""
    gathered.name(response.get("id"), response.get("model"), response.get("service_tier"))
    gathered.count(response.get("usage"))
    gathered.fail(response.get("error"))
    gathered.stop(mapping(response.get("incomplete_details")).get("reason"))
    gathered.stop(response.get("status"))
    if is_streamed:
        return
    for item in items(response.get("output")):
        if mapping(item).get("type") == "message":
            for part in items(mapping(item).get("content")):
                gathered.say(mapping(part).get("text") or mapping(part).get("refusal"))


def usage_of(gathered: AnswerBuilder) -> TokenUsage:
    """Return the tokens. Input tokens include those from the cache."""
    read = gathered.detail("input_tokens_details")
    return TokenUsage(
        input=count(gathered.usage.get("input_tokens")),
        output=count(gathered.usage.get("output_tokens")),
        cached=count(read.get("cached_tokens")),
        cache_written=count(read.get("cache_write_tokens")),
        reasoning=count(gathered.detail("output_tokens_details").get("reasoning_tokens")),
        tier=gathered.tier,
    )


def tools_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the definitions of tools in a request."""
    return items(body.get("tools"))


FORMAT = TrafficFormat(
    messages_key="input",
    prompt_of=prompt_of,
    tools_of=tools_of,
    collect_event=gather,
    collect_body=gather_response,
    usage_of=usage_of,
    tool_calls=ResponsesCalls,
)
