"""Calls of functions, and what a model answered, in lines for people. An agent or a model chose the
words: they go through `plain` and are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.journal.traffic import mapping
from paddock.model.action import Kind
from paddock.model.money import money_in
from paddock.model.printable import printable
from paddock.model.steps import NO_OBJECT, Step

MAX_CALL = 400
_MAX_TEXT = 300  # characters of an answer; the whole is in `paddock show --step`
_MAX_CALLS = 8
_MAX_BODY = 64 << 10  # of an answer that is read for its amount
_NAME = re.compile(r"[\w.:/-]{1,200}")
_READS = ("GET", "HEAD", "OPTIONS")


def call_words(name: object, arguments: Mapping[str, Any]) -> str:
    """Return `refund(20.00 EUR, charge="ch_1")`."""
    money = money_in(arguments)
    left = () if money is None else ("amount", "currency")
    parts = [f"{key}={_value(value)}" for key, value in arguments.items() if key not in left]
    called = name if isinstance(name, str) and _NAME.fullmatch(name) else _value(name)
    return printable(f"{called}({', '.join([*([money] if money else []), *parts])})", MAX_CALL)


def answer_lines(result: Mapping[str, Any]) -> list[str]:
    """Return what a model answered, from the result of its step: what it says, and a line for each
    function that it calls. Nothing for what is no answer of a model."""
    return list(_lines(mapping(result.get("answer"))))


def detail_lines(step: Step) -> list[str]:
    """Return what is told below a step: what a model answered, or the money of a request."""
    if step.kind is Kind.MODEL:
        return answer_lines(step.result)
    if step.kind is not Kind.HTTP:
        return []
    money = request_money(step.arguments, step.result)
    return [] if money is None else [money]


def request_money(
    arguments: Mapping[str, Any], result: Mapping[str, Any] = NO_OBJECT
) -> str | None:
    """Return the money that a request to Stripe or its like moves, `20.00 EUR`: what it says
    itself, or where it names no currency what the answer says."""
    if arguments.get("method") in _READS:
        return None
    amount = money_in(mapping(arguments.get("body")))
    return amount or money_in(_json_object(result.get("body")))


def _json_object(text: Any) -> Mapping[str, Any]:
    if not isinstance(text, str) or len(text) > _MAX_BODY or not text.startswith("{"):
        return {}
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(text := answer.get("text"), str) and text.strip():
        yield f"says {_quoted(' '.join(text[: 4 * _MAX_TEXT].split()))}"
    calls = answer.get("tool_calls")
    calls = calls if isinstance(calls, list) else []
    for call in calls[:_MAX_CALLS]:
        arguments = mapping(call).get("arguments")
        if not isinstance(arguments, Mapping):
            arguments = {"unreadable": arguments}
        yield f"calls {call_words(mapping(call).get('name'), arguments)}"
    if len(calls) > _MAX_CALLS:
        yield f"calls {len(calls) - _MAX_CALLS} more"
    for key in ("error", "problem"):
        if answer.get(key):
            yield f"{key} {_quoted(str(answer[key]))}"


def _quoted(text: str) -> str:
    """Return a text that cannot pass for anything beside it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped, _MAX_TEXT)}"'


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:MAX_CALL]
