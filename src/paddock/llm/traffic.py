"""The formats as the door sees them, one entry for each: how a request is described, how an answer
is collected, and how the tool calls in it are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import msgspec

from paddock.llm.answer import TokenUsage
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.formats import ModelApi
from paddock.llm.json_text import Unreadable
from paddock.llm.prompt import Prompt
from paddock.llm.tool_calls import ToolCallReader


def one_object(value: Any) -> dict[str, Any]:
    """Return the body of an answer, which is one object."""
    if not isinstance(value, dict):
        raise Unreadable("the answer has something else where an object belongs")
    return value


class TrafficFormat(msgspec.Struct, frozen=True):
    """One format. The functions never raise for what a request may hold; for answers they raise
    Unreadable."""

    messages_key: str  # of a request, where the conversation is
    prompt_of: Callable[[Mapping[str, Any]], Prompt]
    tools_of: Callable[[Mapping[str, Any]], list[Any]]
    collect_event: Callable[[AnswerBuilder, Mapping[str, Any]], None]
    collect_body: Callable[[AnswerBuilder, Mapping[str, Any]], None]
    usage_of: Callable[[AnswerBuilder], TokenUsage]
    tool_calls: Callable[[], ToolCallReader]
    body_of: Callable[[Any], dict[str, Any]] = one_object


def traffic_format(api: ModelApi) -> TrafficFormat:
    """Return the entry of a format. Each is loaded when it is first used."""
    match api:
        case ModelApi.CHAT:
            from paddock.llm.openai_chat import traffic as openai_chat

            return openai_chat.FORMAT
        case ModelApi.RESPONSES:
            from paddock.llm.openai_responses import traffic as openai_responses

            return openai_responses.FORMAT
        case ModelApi.MESSAGES:
            from paddock.llm.anthropic_messages import traffic as anthropic_messages

            return anthropic_messages.FORMAT
        case ModelApi.GEMINI:
            from paddock.llm.gemini import traffic as gemini

            return gemini.FORMAT
        case ModelApi.CONVERSE:
            from paddock.llm.bedrock import traffic as bedrock

            return bedrock.FORMAT
        case ModelApi.COHERE:
            from paddock.llm.cohere import traffic as cohere

            return cohere.FORMAT
        case _ as never:
            assert_never(never)
