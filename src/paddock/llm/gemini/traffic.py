"""Gemini: what a request asks and what an answer says, tool calls aside.

A request has `contents`, each with a role and `parts`; an answer has `candidates`, each with one
content. A stream is a sequence of whole answers, of which each adds to the one before: as
server-sent events, or without `alt=sse` as one JSON array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.llm.answer import TokenUsage
from paddock.llm.answer_builder import AnswerBuilder
from paddock.llm.gemini.tool_calls import CHUNKS, GeminiCalls
from paddock.llm.json_text import Unreadable, count, items, mapping
from paddock.llm.prompt import Prompt, text_in
from paddock.llm.tool_calls import MAX_CALLS, objects_in
from paddock.llm.traffic import TrafficFormat, one_object


def prompt_of(body: Mapping[str, Any]) -> Prompt:
    """Return the conversation of a request. Results of tools come as contents of the user: the last
    text is what was asked, not what a tool returned."""
    contents = _contents(body.get("contents"))
    system = body.get("systemInstruction") or body.get("system_instruction")
    questions = (
        text
        for content in reversed(contents)
        if mapping(content).get("role") in ("user", None) and (text := _text(content))
    )
    return Prompt(
        whole={"systemInstruction": system, "contents": contents},
        system=system if isinstance(system, str) else _text(system),
        last_user=next(questions, ""),
        messages=len(contents),
        images=sum(_is_image(part) for content in contents for part in _parts(content)),
    )


def tools_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the declared functions, and the vendor's own tools."""
    tools: list[Any] = []
    for tool in items(body.get("tools")):
        declared = mapping(tool).get("functionDeclarations") or mapping(tool).get(
            "function_declarations"
        )
        own = [{"type": key} for key in mapping(tool) if not key.startswith("function")]
        tools += [*items(declared), *own]
    return tools


def collect(builder: AnswerBuilder, data: Mapping[str, Any]) -> None:
    """Collect a whole answer, or one of a stream."""
    for chunk in [data, *items(data.get(CHUNKS))]:
        _collect(builder, mapping(chunk))


def _collect(builder: AnswerBuilder, data: Mapping[str, Any]) -> None:
    builder.name(data.get("responseId"), data.get("modelVersion"))
    builder.count(data.get("usageMetadata"))
    builder.fail(data.get("error"))
    blocked = mapping(data.get("promptFeedback")).get("blockReason")
    builder.stop(blocked)
    builder.is_over |= bool(blocked)
    for position, candidate in enumerate(items(data.get("candidates"))):
        index = mapping(candidate).get("index")
        voice = index if type(index) is int and index >= 0 else position
        for part in _parts(mapping(candidate).get("content")):
            if not mapping(part).get("thought"):
                builder.say(mapping(part).get("text"), voice)
        builder.stop(mapping(candidate).get("finishReason"))
        builder.is_over |= bool(mapping(candidate).get("finishReason"))


def usage_of(builder: AnswerBuilder) -> TokenUsage:
    """Return the tokens. The prompt includes what came from the cache; what was thought is counted
    beside the candidates."""
    usage = builder.usage
    thoughts = count(usage.get("thoughtsTokenCount"))
    return TokenUsage(
        input=count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount")),
        output=count(usage.get("candidatesTokenCount")) + thoughts,
        cached=count(usage.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )


def body_of(value: Any) -> dict[str, Any]:
    """Return an answer that is not streamed as events as one object."""
    if not isinstance(value, list):
        return one_object(value)
    if len(value) > 16 * MAX_CALLS:
        raise Unreadable("the answer has too many parts")
    return {CHUNKS: objects_in({CHUNKS: value}, CHUNKS)}


def _contents(value: Any) -> list[Any]:
    """Return the contents; one alone, or its text, may stand for a list."""
    if isinstance(value, str):
        return [{"role": "user", "parts": [{"text": value}]}]
    return [value] if isinstance(value, dict) else items(value)


def _parts(content: Any) -> list[Any]:
    parts = mapping(content).get("parts")
    return [parts] if isinstance(parts, dict) else items(parts)


def _text(content: Any) -> str:
    return text_in(_parts(content))


def _is_image(part: Any) -> bool:
    data = mapping(
        mapping(part).get("inlineData")
        or mapping(part).get("inline_data")
        or mapping(part).get("fileData")
    )
    kind = data.get("mimeType") or data.get("mime_type")
    return isinstance(kind, str) and kind.startswith("image/")


FORMAT = TrafficFormat(
    messages_key="contents",
    prompt_of=prompt_of,
    tools_of=tools_of,
    collect_event=collect,
    collect_body=collect,
    usage_of=usage_of,
    tool_calls=GeminiCalls,
    body_of=body_of,
)
