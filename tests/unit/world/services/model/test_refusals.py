"""The scripted model refuses what the real services refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paddock.llm.bedrock.event_stream import AwsEventSource
from unit.world.services.model.asking import USER, talk, user

SCRIPT = {"rules": [{"match": {"user": "refund"}, "answer": "Done."}]}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {}}}
GEMINI = "/v1beta/models/gemini-x:{}"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"tool_choice": "always", "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "lose"}}, "tools": [TOOL]},
            "tool_choice",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
            "response_format.json_schema.schema",
        ),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.name"),
    ],
)
def test_chat_completion_that_openai_refuses_is_refused(
    tmp_path: Path, more: dict[str, Any], param: str
) -> None:
    got = talk(tmp_path, SCRIPT).chat(USER, **more)
    assert (got.status, got.error["param"]) == (400, param)


def test_response_that_openai_refuses_is_refused(tmp_path: Path) -> None:
    said = talk(tmp_path, SCRIPT)
    assert said.responses(USER, temperature=3).error["param"] == "temperature"
    got = said.responses(USER, text={"format": {"type": "json_schema", "name": "a"}})
    assert got.error["param"] == "text.format.schema"


def test_requests_that_openai_takes_are_answered(tmp_path: Path) -> None:
    chosen = {"type": "function", "function": {"name": "find"}}
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    got = talk(tmp_path, SCRIPT).chat(
        USER, temperature=2, tools=[TOOL], tool_choice=chosen, response_format=schema
    )
    assert got.text == "Done."


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 100}, "max_tokens": 5000}, "1024"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2000},
            "max_tokens",
        ),
        ({"thinking": {"type": "enabled"}}, "budget_tokens"),
    ],
)
def test_thinking_budget_that_anthropic_refuses_is_refused(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    got = talk(tmp_path, SCRIPT).messages(USER, **more)
    assert got.status == 400
    assert words in got.error["message"]


def test_empty_text_block_is_refused_as_anthropic_does(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": USER}, {"type": "text", "text": ""}]
    got = talk(tmp_path, SCRIPT).messages([user(blocks)])  # type: ignore[arg-type]
    assert got.status == 400
    assert "non-empty" in got.error["message"]


def test_request_without_a_version_is_refused_as_anthropic_does(tmp_path: Path) -> None:
    body = {"model": "c", "max_tokens": 9, "messages": [user(USER)]}
    got = talk(tmp_path, SCRIPT).send("POST", "/v1/messages", json.dumps(body).encode())
    assert got.status == 400
    assert "anthropic-version" in got.error["message"]


def test_gemini_is_answered_whole_as_events_and_as_an_array(tmp_path: Path) -> None:
    said = talk(tmp_path, SCRIPT)
    body = {"contents": [{"role": "user", "parts": [{"text": USER}]}]}
    whole = said.post(GEMINI.format("generateContent"), body).json
    assert whole["candidates"][0]["content"]["parts"] == [{"text": "Done."}]
    assert whole["modelVersion"] == "gemini-x"
    array = said.post(GEMINI.format("streamGenerateContent"), body).json
    texts = [part["text"] for chunk in array for part in chunk["candidates"][0]["content"]["parts"]]
    assert "".join(texts) == "Done."


def test_gemini_hears_of_errors_in_googles_words(tmp_path: Path) -> None:
    script = {"rules": [{"match": {"user": "refund"}, "answer": {"error": 429}}]}
    said = talk(tmp_path, script)
    body = {"contents": [{"role": "user", "parts": [{"text": USER}]}]}
    got = said.post(GEMINI.format("generateContent"), body)
    assert (got.status, got.error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert said.post(GEMINI.format("generateContent"), {"contents": []}).status == 400


def test_converse_is_answered_whole_and_as_an_event_stream(tmp_path: Path) -> None:
    said = talk(tmp_path, SCRIPT)
    body = {"messages": [{"role": "user", "content": [{"text": USER}]}]}
    whole = said.post("/model/nova/converse", body).json
    assert whole["output"]["message"]["content"] == [{"text": "Done."}]
    got = said.post("/model/nova/converse-stream", body)
    assert got.headers["content-type"] == "application/vnd.amazon.eventstream"
    source = AwsEventSource()
    names = [source.read(raw).name for raw in source.feed(got.body)]
    assert names[0] == "messageStart"
    assert names[-2:] == ["messageStop", "metadata"]


def test_converse_hears_of_errors_in_amazons_words(tmp_path: Path) -> None:
    got = talk(tmp_path, SCRIPT).post("/model/nova/converse", {"messages": [{"role": "x"}]})
    assert got.status == 400
    assert got.headers["x-amzn-errortype"] == "ValidationException"
