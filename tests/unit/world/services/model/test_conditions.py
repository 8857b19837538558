"""What a `match` holds for, and what templates are filled with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import for_each
from unit.world.services.model.asking import CALL, USER, Got, Say, Talk, results, said, user

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("find", "refund")]


def matches(say: Say, match: Any, messages: Any = USER, **more: Any) -> bool:
    model = say({"rules": [{"match": match, "answer": "yes"}], "otherwise": "no"})
    return model.chat(messages, **more).text == "yes"


@for_each(
    ("match", "is_match"),
    [
        ({"user": "REFUND"}, True),
        ({"user": ["refund", "a-1"]}, True),
        ({"user": ["refund", "A-2"]}, False),
        ({"user": {"contains": "order"}}, True),
        ({"user": {"regex": "order A-[0-9]+"}}, True),
        ({"user": {"regex": "ORDER"}}, False),
        ({"user": {"regex": "(?i)ORDER", "contains": "nothing"}}, False),
        ({"user": "order", "turn": 2}, False),
        ({"turn": 1}, True),
        ({"turn": [2, 1]}, True),
        ({"model": "gpt-*"}, True),
        ({"model": ["claude-*", "gpt-x"]}, True),
        ({"model": "gpt"}, False),
        ({"tools": "find"}, True),
        ({"tools": ["find", "refund"]}, True),
        ({"tools": ["find", "delete"]}, False),
        ({"messages": 1}, True),
        ({"messages": {"at_least": 2}}, False),
        ({"messages": {"at_most": 1}}, True),
        ({"system": "anything"}, False),
        ({"tool_result": "find"}, False),
        ({}, True),
    ],
)
def test_match_of_a_first_request(say: Say, match: Any, is_match: bool) -> None:
    assert matches(say, match, tools=TOOLS) is is_match


def conversation(say: Say, result: str = '{"state": "paid"}') -> list[Any]:
    asked = say({"otherwise": {"tool_calls": [CALL, {"name": "other"}]}}).chat(USER)
    system = {"role": "developer", "content": "You are a clerk."}
    return [system, user(USER), said(asked), *results(asked, result, "other result")]


@for_each(
    ("match", "is_match"),
    [
        ({"tool_result": "find"}, True),
        ({"tool_result": "fi*"}, True),
        ({"tool_result": {"contains": "OTHER RESULT"}}, True),
        ({"tool_result": {"name": "find", "contains": "other result"}}, False),
        ({"tool_result": {"name": "find", "regex": '"state": "(un)?paid"'}}, True),
        ({"tool_result": {"name": "refund"}}, False),
        ({"user": "refund"}, False),
        ({"user": "refund", "tool_result": "find"}, True),
        ({"system": "clerk"}, True),
        ({"system": {"regex": "^You"}}, True),
        ({"turn": 2, "messages": 4}, True),
    ],
)
def test_match_of_a_request_with_tool_results(say: Say, match: Any, is_match: bool) -> None:
    assert matches(say, match, conversation(say)) is is_match


def test_result_is_new_only_until_the_next_answer(say: Say) -> None:
    history = [*conversation(say), {"role": "assistant", "content": "ok"}, user("thanks")]
    assert not matches(say, {"tool_result": "find"}, history)
    assert matches(say, {"user": "thanks", "turn": 3}, history)


def test_same_conversation_matches_the_same_in_all_formats(say: Say) -> None:
    match = {
        "user": "refund", "system": "clerk", "turn": 2, "tools": ["find"],
        "tool_result": {"name": "find", "contains": "paid"},
    }  # fmt: skip
    model = say({"rules": [{"match": match, "answer": "{{results.find.state}} yes"}]})
    tools = [{"name": "find", "input_schema": {"type": "object"}}]
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {"id": 1}}
    block = {"type": "tool_result", "tool_use_id": "t1", "cache_control": {"type": "ephemeral"},
             "content": [{"type": "text", "text": '{"state": "paid"}'}]}  # fmt: skip
    assistant = [{"type": "thinking", "thinking": "hm", "signature": "s"}, use]
    told = [
        user(USER),
        {"role": "assistant", "content": assistant},
        {"role": "user", "content": [block]},
    ]
    got = model.messages(told, tools=tools, system=[{"type": "text", "text": "A clerk."}])
    assert got.json["content"][0]["text"] == "paid yes"
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": USER}]},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"state": "paid"}'},
    ]
    named = [{"type": "function", "name": "find", "parameters": {}}]
    got = model.responses(items, tools=named, instructions="A clerk.")
    assert got.json["output"][0]["content"][0]["text"] == "paid yes"


def filled(say: Say, arguments: Any, match: Any = None, messages: Any = USER) -> Got:
    entry = {
        "match": match or {},
        "answer": {"tool_calls": [{"name": "x", "arguments": arguments}]},
    }
    return say({"rules": [entry]}).chat(messages)


def test_templates_are_filled_from_the_request(say: Say) -> None:
    result = json.dumps({"id": "A-1", "n": 5, "items": [{"sku": "s"}], "ok": True, "none": None})
    arguments = {
        "n": "{{tool_result.n}}",
        "id": "{{ results.find.id }}",
        "sku": ["{{results.find.items.0.sku}}"],
        "items": "{{results.find.items}}",
        "flags": {"ok": "{{results.find.ok}}", "none": "{{results.find.none}}"},
        "text": "n={{results.find.n}} of {{results.find.items}}",
        "order": "{{match.order}}",
        "first": "{{match.1}}",
        "turn": "{{turn}}",
        "about": "{{model}}, {{messages}} messages",
        "user": "{{user}}",
        "plain": "{ {user} }",
        "number": 7,
    }
    match = {"user": {"regex": r"order (?P<order>\S+)\."}, "tool_result": "find"}
    asked = say({"otherwise": {"tool_calls": [CALL]}}).chat(USER)
    history = [user(USER), said(asked), *results(asked, result)]
    assert filled(say, arguments, match, history).calls == [
        ("x", {
            "n": 5, "id": "A-1", "sku": ["s"], "items": [{"sku": "s"}],
            "flags": {"ok": True, "none": None}, "text": 'n=5 of [{"sku": "s"}]',
            "order": "A-1", "first": "A-1", "turn": 2, "about": "gpt-x, 3 messages",
            "user": USER, "plain": "{ {user} }", "number": 7,
        }),
    ]  # fmt: skip


def test_what_is_filled_in_is_not_filled_again(say: Say) -> None:
    assert filled(say, {"a": "{{user}}"}, None, "{{model}} {{counter.x}}").calls == [
        ("x", {"a": "{{model}} {{counter.x}}"})
    ]


def test_counter_goes_on_in_new_places_and_stands_still_when_asked_again(say: Say) -> None:
    model = say({"rules": [{"match": {}, "answer": "{{counter.a}} {{counter.a}} {{counter.b}}"}]})
    assert model.chat("first").text == "1 1 1"
    assert model.chat("second").text == "2 2 2"
    assert model.chat("first").text == "1 1 1"


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{tool_result}}", "there is no such tool result"),
        ("{{results.find.id}}", "there is no such tool result"),
    ],
)
def test_template_without_a_result_says_so(say: Say, template: str, complaint: str) -> None:
    got = filled(say, {"a": template})
    assert got.status == 400
    assert f"rules[0]: {template}: {complaint}" in got.error["message"]


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ('{"state": 1, "n": 2}', "there is no id; there are state, n"),
        ("[1, 2]", "there is no id; there is [1, 2]"),
        ("not json", "the tool result is not JSON: 'not json'"),
        ("[" * 5000, "the tool result is not JSON"),
        ('{"id": NaN}', "the tool result is not JSON"),
        ('{"id": "\\ud800"}', "the tool result is not JSON"),
    ],
)
def test_template_of_a_field_that_is_not_there_says_what_is(
    say: Say, result: str, complaint: str
) -> None:
    got = filled(say, {"a": "{{results.find.id}}"}, None, conversation(say, result))
    assert got.status == 400 and complaint in got.error["message"]


def test_raw_answer_keeps_its_braces(say: Say) -> None:
    model = say({"otherwise": {"text": "{{ .Values.name }} {{user}}", "raw": True}})
    assert model.chat(USER).text == "{{ .Values.name }} {{user}}"


def test_arguments_that_are_no_json_reach_openai_and_are_refused_for_anthropic(say: Say) -> None:
    model = say({"otherwise": {"tool_calls": [{"name": "find", "arguments": '{"id": '}]}})
    call = said(model.chat(USER))["tool_calls"][0]
    assert call["function"]["arguments"] == '{"id": '
    got = model.messages(USER)
    assert got.status == 400 and "no JSON object" in got.error["message"]


def test_whole_result_can_be_passed_on_as_arguments(say: Say) -> None:
    history = conversation(say, '{"id": "A-1"}')
    entry = {"name": "refund", "arguments": "{{results.find}}"}
    model: Talk = say({"otherwise": {"tool_calls": [entry]}})
    assert model.chat(history).calls == [("refund", {"id": "A-1"})]
