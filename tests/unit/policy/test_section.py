"""The language of section definitions: what is read, what is reported, and the schema."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from paddock.model.errors import InvalidInput
from paddock.policy.section import (
    INVALID,
    ByType,
    Cursor,
    Key,
    ListOf,
    MapOf,
    Section,
    all_sections,
    as_given,
    builder,
    choice,
    parse_section,
    text,
    whole_number,
)


def _build_pair(cursor: Cursor, low: int, high: int) -> tuple[int, int]:
    if high < low:
        cursor.report("ends before it begins", "swap them")
    return low, high


PAIR = Section(
    "Two numbers.",
    _build_pair,
    {
        "from": Key(whole_number(0, 9), missing="write from: 1", into="low"),
        "to": Key(whole_number(0, 9), missing="write to: 2", into="high"),
    },
)
WHOLE = Section(
    "Everything.",
    as_given,
    {
        "name": Key(text(), may_be_empty=True),
        "pair": Key(PAIR),
        "pairs": Key(ListOf(PAIR, most=2, least=1)),
        "by_name": Key(MapOf(PAIR)),
        "short": Key(ByType(choice("none"), mapping=PAIR)),
    },
    unknown_hints={"pear": "write pair"},
)


def read(value: Any) -> tuple[Any, list[tuple[str, str]]]:
    cursor = Cursor(root=WHOLE)
    result = WHOLE.read(value, cursor)
    return result, [(".".join(map(str, one.path)), one.message) for one in cursor.mistakes]


def test_a_section_gives_its_builder_the_values_that_are_there() -> None:
    value = {
        "name": None,
        "pair": {"from": 1, "to": 2},
        "by_name": {"a": {"from": 0, "to": 0}},
        "short": "none",
    }
    assert read(value) == ({"pair": (1, 2), "by_name": {"a": (0, 0)}, "short": "none"}, [])


def test_every_mistake_is_reported_at_its_place_and_nothing_is_built() -> None:
    value = {"name": 3, "pair": {"from": 10}, "pairs": [], "short": "some", "by_name": {"a": 1}}
    result, mistakes = read(value)
    assert result is INVALID
    assert mistakes == [
        ("name", "3 is not text"),
        ("pair.from", "10 is out of range"),
        ("pair.to", "this key is missing"),
        ("pairs", "an empty list"),
        ("short", "'some' is not known here"),
        ("by_name.a", "1 is not a mapping"),
    ]


def test_parts_that_do_not_fit_are_reported_without_stopping_what_is_around_them() -> None:
    result, mistakes = read({"pairs": [{"from": 2, "to": 1}, {"from": 1, "to": 2}]})
    assert result == {"pairs": [(2, 1), (1, 2)]}
    assert mistakes == [("pairs.0", "ends before it begins")]


@pytest.mark.parametrize(
    ("key", "hint"),
    [("nmae", "did you mean name?"), ("from", "it belongs under pair or short"),
     ("pear", "write pair")],
)  # fmt: skip
def test_an_unknown_key_is_refused_with_what_was_meant(key: str, hint: str) -> None:
    cursor = Cursor(root=WHOLE)
    assert WHOLE.read({key: 1}, cursor) is INVALID
    assert [(one.message, one.hint, one.of_key) for one in cursor.mistakes] == [
        ("unknown key", hint, True)
    ]


def test_a_python_caller_gets_the_first_mistake_with_its_path() -> None:
    assert parse_section(PAIR, {"from": 1, "to": 2}, "pair") == (1, 2)
    with pytest.raises(InvalidInput) as caught:
        parse_section(WHOLE, {"pairs": [{"from": "1", "to": 2}]}, "whole")
    assert caught.value.message == "whole.pairs[0].from: '1' is not a whole number"


def test_the_schema_accepts_and_refuses_what_the_definition_does() -> None:
    schema = WHOLE.json_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for value in (
        {"name": None, "pairs": [{"from": 1, "to": 2}]},
        {"short": {"from": 1, "to": 2}},
        {"by_name": {"a": {"from": 1, "to": 2}}},
        {"pair": {"from": 1}},
        {"pair": {"from": 1, "to": 10}},
        {"short": "some"},
        {"pairs": []},
        {"other": 1},
    ):
        assert validator.is_valid(value) == (not read(value)[1]), value


def test_all_sections_are_found_inside_lists_maps_and_alternatives() -> None:
    assert [section.description for section in all_sections(WHOLE)] == [
        "Everything.", *["Two numbers."] * 4]  # fmt: skip


def test_a_builder_without_checks_is_a_function_of_the_values() -> None:
    form = Section("A sum.", builder(lambda a, b=1: a + b), {
        "a": Key(whole_number(0, 9), missing="write a"), "b": Key(whole_number(0, 9))})  # fmt: skip
    assert parse_section(form, {"a": 2}) == 3
