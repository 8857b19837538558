"""What a person sees cannot be forged by who chose the words."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import for_each
from paddock.gate.approvals import Approval
from paddock.gate.approvals.question_text import (
    MAX_ARGUMENTS,
    MAX_LINES,
    context_lines,
    question_lines,
    time_left,
)
from paddock.model.printable import printable

CONTENT: dict[str, Any] = {
    "kind": "tool", "name": "send", "arguments": {}, "effect": "write", "is_reversible": False,
    "decided_by": "rule-1", "why": "Because.", "rules": ["rule-1"], "preview": None, "context": {},
}  # fmt: skip
ONE = Approval("0123abcd", "run-1", "bot", 7, CONTENT, "", "", 0.0, 0.0, "pending")
ANY = st.text(max_size=300)


def shown(width: int = 60, **content: Any) -> list[str]:
    return question_lines(replace(ONE, content={**CONTENT, **content}), width)


def cells(line: str) -> int:
    marks = ("Mn", "Me")
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in line)
    return len(line) + wide - sum(unicodedata.category(one) in marks for one in line)


@given(ANY, ANY, ANY, ANY, ANY, st.integers(10, 200))
def test_no_text_acts_on_the_terminal_or_leaves_its_place(
    name: str, key: str, value: str, why: str, predicted: str, width: int
) -> None:
    lines = shown(
        width, name=name, arguments={key: value}, why=why, preview={predicted: [predicted]}
    )
    for line in lines:
        assert line.isprintable(), repr(line)
        assert cells(line) <= max(width, 40)
    # Our own labels stand as often as we write them, whatever the agent wrote.
    starts = [line[:11].strip() for line in lines if line.startswith("  ") and line[2] != " "]
    assert starts == ["effect", "asked by", "rule", "why", "arguments", "predicted"]


@for_each(
    ("text", "seen"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b", "\\x9b"),
        ("\u202e", "\\u202e"),
        ("a\tb\nc", "a\\tb\\nc"),
        ("\ud800", "\\ud800"),
        ("\u3164\u2800", "\\u3164\\u2800"),
        ("\U000e0041", "\\ue0041"),
        ("Grüße, 漢字", "Grüße, 漢字"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, seen: str) -> None:
    assert printable(text) == seen


def test_long_text_is_cut_and_says_how_much_is_missing() -> None:
    assert printable("x" * 30, 10) == "x" * 10 + " (... 20 more characters)"


def test_long_values_and_many_arguments_are_cut_with_a_note() -> None:
    text = "\n".join(shown(80, arguments={"body": "y" * 5000}))
    assert "more characters)" in text
    assert text.count("y") < 2100
    lines = shown(80, arguments={"body": "line\n" * 300})
    assert sum("| line" in line for line in lines) <= MAX_LINES
    assert any(line.startswith("    (... ") and line.endswith(" more lines)") for line in lines)
    lines = shown(80, arguments={f"a{number}": number for number in range(100)})
    assert f"    ({100 - MAX_ARGUMENTS} more arguments)" in lines


def test_what_cannot_be_undone_stands_out_and_a_read_does_not() -> None:
    assert "  effect     write, CANNOT be undone" in shown()
    assert "  effect     write, can be undone" in shown(is_reversible=True)
    assert "  effect     read" in shown(effect="read")


def test_text_and_number_look_different() -> None:
    assert "    n = 5" in shown(arguments={"n": 5})
    assert '    n = "5"' in shown(arguments={"n": "5"})


def test_prediction_is_shown_or_said_to_be_missing() -> None:
    assert any("no dry run" in line for line in shown())
    assert '    | {"balance": 5}' in shown(preview={"balance": 5})


def test_context_is_shown_apart() -> None:
    one = replace(ONE, content={**CONTENT, "context": {"model": "m-1"}})
    assert context_lines(one) == ["  context", '    model = "m-1"']
    assert context_lines(ONE) == []


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (90, "90s"), (900, "15m"), (7200, "2h"), (5400, "90m")]
)
def test_time_left_is_short(seconds: float, text: str) -> None:
    assert time_left(seconds) == text


@pytest.mark.parametrize("arguments", [
    {"amount": 2000, "currency": "eur"},
    {"method": "POST", "body": {"amount": "2000", "currency": "eur"}},
])  # fmt: skip
def test_amount_is_shown_as_money_beside_the_arguments(arguments: dict[str, Any]) -> None:
    lines = shown(80, arguments=arguments)

    assert "  money      20.00 EUR, if the amount counts the smallest unit" in lines
    assert any("2000" in line for line in lines)
    assert not any("money" in line for line in shown(arguments={"amount": 2000}))
