"""What a model answered and what a request moves, in lines for people."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paddock.journal.calls import answer_lines, call_words, detail_lines, request_money
from paddock.llm.formats import ModelApi, Wire
from paddock.llm.reader import AnswerReader
from paddock.model.action import Kind
from paddock.model.events import AnyEvent, Record
from paddock.model.steps import Step
from unit.journal.conftest import proposed, settled

ARGUMENTS = {"amount": 2000, "currency": "eur", "charge": "ch_1"}
CHAT = {
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "Let me\nsee.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {
            "name": "refund", "arguments": json.dumps(ARGUMENTS)}}],
    }}],
}  # fmt: skip
MESSAGES = {
    "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "Let me\nsee."},
        {"type": "tool_use", "id": "c1", "name": "refund", "input": ARGUMENTS},
    ],
}  # fmt: skip


def step_of(kind: Kind, arguments: dict[str, Any], result: Any) -> Step:
    events: list[AnyEvent] = [proposed(1, kind=kind, arguments=arguments), settled(result)]
    return Step(1, [Record(n, n, 1, event) for n, event in enumerate(events)])


@pytest.mark.parametrize(
    ("api", "provider", "body"),
    [(ModelApi.CHAT, "openai", CHAT), (ModelApi.MESSAGES, "anthropic", MESSAGES)],
)
def test_answers_of_both_vendors_are_told_alike(
    api: ModelApi, provider: str, body: dict[str, Any]
) -> None:
    reader = AnswerReader(Wire(api, provider), is_stream=False)
    reader.feed(json.dumps(body).encode())

    assert answer_lines({"answer": reader.finish().as_json()}) == [
        'says "Let me see."',
        'calls refund(20.00 EUR, charge="ch_1")',
    ]


def test_words_of_a_model_cannot_pass_for_others_or_act_on_a_terminal() -> None:
    sly = 'ok"; calls refund(9.00 EUR)\x1b[2J\u202e'
    lines = answer_lines({"answer": {
        "text": sly, "tool_calls": [{"name": "f(); calls g", "arguments": "not json\n"}],
    }})  # fmt: skip

    assert lines == [
        'says "ok\\"; calls refund(9.00 EUR)\\x1b[2J\\u202e"',
        'calls "f(); calls g"(unreadable="not json\\n")',
    ]


def test_long_answers_are_cut_and_say_so() -> None:
    calls = [{"name": f"f{number}", "arguments": {"x": "y" * 5000}} for number in range(20)]
    lines = answer_lines({"answer": {"text": "word " * 5000, "tool_calls": calls}})

    assert all(len(line) < 500 for line in lines)
    assert lines[-1] == "calls 12 more"


@pytest.mark.parametrize("result", [{}, {"answer": "x"}, {"answer": {"text": 3}},
                                    {"answer": {"tool_calls": {"a": 1}}}])  # fmt: skip
def test_what_is_no_answer_has_no_lines(result: dict[str, Any]) -> None:
    assert answer_lines(result) == []


@pytest.mark.parametrize("result", [None, "text", ["x"]])
def test_step_whose_result_is_no_object_has_no_lines(result: Any) -> None:
    assert detail_lines(step_of(Kind.MODEL, {}, result)) == []
    assert detail_lines(step_of(Kind.HTTP, {"method": "POST"}, result)) == []


def test_refund_without_a_currency_takes_it_from_the_answer() -> None:
    asked = {"method": "POST", "body": {"amount": "500", "charge": "ch_1"}}
    answer = {"status": 200, "body": json.dumps({"amount": 500, "currency": "jpy"})}

    assert request_money(asked) is None
    assert request_money(asked, answer) == "500 JPY"
    assert request_money({**asked, "method": "GET"}, answer) is None
    assert detail_lines(step_of(Kind.HTTP, asked, answer)) == ["500 JPY"]
    assert detail_lines(step_of(Kind.EXEC, asked, answer)) == []


def test_call_without_a_currency_is_shown_as_it_is() -> None:
    assert call_words("refund", {"amount": 2000}) == "refund(amount=2000)"
