"""Values against schemas: what fits, what is made up, and that hard ones end."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock_services.openapi import formats, patterns
from paddock_services.openapi.document import Document
from paddock_services.openapi.generation import Source, ValueFitter
from paddock_services.openapi.schemas import Schemas
from paddock_services.openapi.validation import SchemaChecker


def shapes(**schemas: Any) -> Schemas:
    return Schemas(Document({"openapi": "3.1.0", "paths": {}, "components": {"schemas": schemas}}))


def numbers() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-20, 20),
            "maximum": st.integers(21, 60),
            "multipleOf": st.sampled_from([1, 2, 5]),
            "default": st.integers(-5, 5),
        },
    )


def texts() -> st.SearchStrategy[dict[str, Any]]:
    plain = st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"minLength": st.integers(0, 5), "maxLength": st.integers(5, 9)},
    )
    known = [
        {"type": "string", "format": name}
        for name in ("date-time", "date", "email", "uuid", "uri", "ipv4", "ipv6", "hostname")
    ]
    patterns = [
        {"type": "string", "pattern": text}
        for text in (r"^[A-Z]{2}-\d{3,5}$", r"^(a|b)+c?$", r"^[^\s@]+@x$", "x", r"^\w+\.\w{2}$")
    ]
    enums = st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True).map(
        lambda values: {"type": "string", "enum": values}
    )
    return st.one_of(plain, st.sampled_from(known + patterns), enums)


def schemas() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        numbers(), texts(), st.sampled_from([{"type": "boolean"}, {"type": "null"}, True, {}])
    )
    return st.recursive(leaves, _nested, max_leaves=8)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "c"])
    objects = st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=3, unique=True),
        },
        optional={"additionalProperties": inner},
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner, "minItems": st.integers(0, 2)}
    )
    choices = st.lists(inner, min_size=1, max_size=3).map(lambda nodes: {"anyOf": nodes})
    return st.one_of(objects, lists, choices)


def values() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(-70, 70), st.floats(-9, 9), st.text(max_size=9)
    )
    names = st.sampled_from(["a", "b", "c", "d"])
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
        max_leaves=8,
    )


def judged(node: Any, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(node).is_valid(value))


def without_formats(node: Any) -> Any:
    """The other validator knows formats otherwise."""
    if isinstance(node, list):
        return [without_formats(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {key: without_formats(one) for key, one in node.items() if key != "format"}


@given(schemas().map(without_formats), values())
def test_checker_agrees_with_a_known_validator(node: Any, value: Any) -> None:
    assert SchemaChecker(shapes()).is_valid(node, value) == judged(node, value)


@given(schemas(), st.booleans())
def test_made_up_value_is_valid(node: Any, is_rich: bool) -> None:
    made = ValueFitter(shapes()).fit(node, source=Source("k", is_rich=is_rich))
    assert judged(node, made), made
    assert made == ValueFitter(shapes()).fit(node, source=Source("k", is_rich=is_rich))


@given(schemas(), values())
def test_fitted_value_is_valid(node: Any, value: Any) -> None:
    assert judged(node, ValueFitter(shapes()).fit(node, value))


@given(schemas(), values())
def test_valid_value_is_kept_as_it_is(node: Any, value: Any) -> None:
    fitter = ValueFitter(shapes())
    if fitter.checker.is_valid(node, value) and isinstance(value, str | int | list):
        assert fitter.fit(node, value) == value


def test_pattern_that_would_backtrack_for_ever_is_answered() -> None:
    for text in (r"^(a+)+$", r"^(a|a)*$", r"^(.*a){25}$", r"^([a-zA-Z]+)*$"):
        assert not patterns.matches(text, "a" * 50_000 + "!")


def test_pattern_beyond_linear_time_is_not_tried() -> None:
    assert patterns.matches(r"^(?=a)b$", "zzz")
    assert patterns.matches(r"(a)\1", "zzz")


@pytest.mark.parametrize(
    "text", [r"^cus_[A-Za-z0-9]{14}$", r"^\d{3}-\d{2}$", "^[a-f0-9]{40}$", r"^(foo|bar)-\w+$"]
)
def test_pattern_gives_another_text_for_each_turn(text: str) -> None:
    made = {patterns.example_of(text, 7919 * turn) for turn in range(20)}
    assert None not in made and len(made) > 1
    assert all(patterns.matches(text, one) for one in made if one)


@pytest.mark.parametrize(
    "text", ["a{100000000}", "(((a{99}){99}){99}){99}", "(" * 500 + ")" * 500, "["]
)
def test_pattern_for_which_no_text_can_be_made_gives_none(text: str) -> None:
    patterns.example_of(text)  # it ends, with or without a text


def test_choices_within_choices_are_given_up_in_the_end() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {}}
    reference = {"$ref": "#/components/schemas/A"}
    node["oneOf"] = [
        {"properties": {"x": reference}},
        {"properties": {"x": reference}},
        {"required": ["never"]},
    ]
    value: Any = {}
    for _ in range(60):
        value = {"x": value}
    made = shapes(A=node)
    found = made.document.at("#/components/schemas/A")
    assert not SchemaChecker(made).is_valid(found, value)
    ValueFitter(made).fit(found, value)


@for_each(
    ("name", "text", "is_valid"),
    [
        ("date-time", "2026-01-01T00:00:00Z", True),
        ("date-time", "2026-01-01T00:00:00.123+02:00", True),
        ("date-time", "2026-13-01T00:00:00Z", False),
        ("date-time", "2026-01-01", False),
        ("date-time", "٢٠٢٦-01-01T00:00:00Z", False),
        ("date", "2026-02-29", False),
        ("email", "a@b", True),
        ("email", "a" * 5_000 + "@b", False),
        ("uuid", "{00000000-0000-0000-0000-00000000000}", False),
        ("ipv4", "1.2.3.256", False),
        ("uri", "not a uri", False),
        ("made-up", "anything", True),
    ],
)
def test_format_is_checked(name: str, text: str, is_valid: bool) -> None:
    assert formats.is_valid(name, text) is is_valid
