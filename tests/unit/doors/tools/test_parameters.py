"""The schema of a function, and arguments that are read by it."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cases import for_each
from paddock.doors.tools.errors import InvalidArguments
from paddock.doors.tools.parameters import Parameters
from paddock.model.errors import InvalidInput


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Place:
    street: str
    number: int = 1


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Customer(pydantic.BaseModel):
    name: str
    age: int = 3


class Broken:
    """A type that JSON cannot fill."""


def parameters(function: Callable[..., Any], **about: str) -> Parameters:
    return Parameters.of(function, about)


def called(function: Callable[..., Any], raw: Any) -> Any:
    """What the function gives for these arguments, the whole way."""
    found = parameters(function)
    call = found.call(found.read(raw))
    return function(*call.args, **call.kwargs)


def test_schema_says_type_default_and_words_and_forbids_the_rest() -> None:
    def f(a: int, b: str = "x", c: Annotated[bool, "Whether."] = False) -> None: ...

    schema = parameters(f, a="The first.").schema
    assert schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "string", "default": "x"},
            "c": {"type": "boolean", "default": False, "description": "Whether."},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


def test_objects_inside_arguments_are_closed_too() -> None:
    def f(place: Place, row: Row) -> None: ...

    inner = parameters(f).schema["$defs"]
    assert [inner[name]["additionalProperties"] for name in ("Place", "Row")] == [False, False]


def test_function_without_parameters_takes_an_empty_object_only() -> None:
    def f() -> int:
        return 4

    schema = parameters(f).schema
    assert schema["properties"] == {} and schema["additionalProperties"] is False
    assert called(f, "") == called(f, "{}") == called(f, {}) == 4
    with pytest.raises(InvalidArguments, match="x: Extra"):
        called(f, {"x": 1})


VALUES: list[tuple[Any, Any, Any]] = [
    (str, "a", "a"),
    (int, 7, 7),
    (float, 1.5, 1.5),
    (float, 2, 2.0),
    (bool, True, True),
    (list, [1, "a"], [1, "a"]),
    (list[int], [1, 2], [1, 2]),
    (dict, {"a": [1]}, {"a": [1]}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (Optional[int], None, None),  # noqa: UP045
    (int | None, 3, 3),
    (Union[int, str], "a", "a"),  # noqa: UP007
    (Literal["a", "b"], "b", "b"),
    (Colour, "red", Colour.RED),
    (Place, {"street": "s", "number": 2}, Place("s", 2)),
    (list[Place], [{"street": "s"}], [Place("s")]),
    (Row, {"id": 1}, {"id": 1}),
    (list[Row], [{"id": 1, "note": "n"}], [{"id": 1, "note": "n"}]),
    (Row | None, {"id": 2}, {"id": 2}),
    (Customer, {"name": "n"}, Customer(name="n")),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1], {1}),
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID(int=0x12345678123456781234567812345678)),  # noqa: E501
    (Path, "/a", Path("/a")),
    (Any, {"deep": [{"x": None}]}, {"deep": [{"x": None}]}),
]  # fmt: skip


@for_each(("kind", "given_value", "expected"), VALUES, ids=str)
def test_argument_of_each_type_arrives_as_that_type(
    kind: Any, given_value: Any, expected: Any
) -> None:
    def f(x):  # type: ignore[no-untyped-def]
        return x

    f.__annotations__["x"] = kind
    assert called(f, {"x": given_value}) == expected
    assert called(f, json.dumps({"x": given_value})) == expected
    Draft202012Validator(parameters(f).schema).validate({"x": given_value})


WRONG: list[tuple[Any, Any]] = [
    (int, "5"), (int, True), (int, 1.5), (int, None), (str, 5), (bool, 1), (bool, "true"),
    (float, "1"), (float, float("inf")), (float, float("nan")), (list[int], ["1"]), (list, "a"),
    (Literal["a"], "A"), (Colour, "RED"), (Place, {"street": "s", "more": 1}),
    (Place, {"street": 1}), (Row, {"id": 1, "other": 1}), (Row, {}), (Customer, {"name": 1}),
    (dict[str, int], {"a": "1"}),
]  # fmt: skip


@for_each(("kind", "value"), WRONG, ids=str)
def test_argument_of_another_type_is_refused(kind: Any, value: Any) -> None:
    def f(x):  # type: ignore[no-untyped-def]
        return x

    f.__annotations__["x"] = kind
    with pytest.raises(InvalidArguments):
        parameters(f).read({"x": value})


def test_missing_and_unknown_arguments_are_all_named_without_their_values() -> None:
    def f(amount: int, to: str) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        parameters(f).read({"amount": "s3cret-value", "too": "x"})
    text = str(caught.value)
    assert "amount:" in text and "to: Field required" in text and "too: Extra" in text
    assert "s3cret" not in text


def test_parameters_may_be_called_anything() -> None:
    def f(
        name: str, arguments: dict[str, Any], context: int, gate: int, function: int, args: int,
        kwargs: int, model_config: int, schema: str, json: int, copy: int, _private: int,
        title: str, call: str, raw: int, __dunder__: int = 1,
    ) -> dict[str, Any]:  # fmt: skip
        return dict(locals())

    given_values = {
        "name": "n", "arguments": {"name": 1}, "context": 1, "gate": 2, "function": 3, "args": 4,
        "kwargs": 5, "model_config": 6, "schema": "s", "json": 7, "copy": 8, "_private": 9,
        "title": "t", "call": "c", "raw": 10,
    }  # fmt: skip
    assert called(f, given_values) == {**given_values, "__dunder__": 1}
    assert set(parameters(f).schema["properties"]) == {*given_values, "__dunder__"}


def test_positional_only_parameters_are_filled_by_name() -> None:
    def f(a: int, b: int = 2, /, c: int = 3, *, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    assert called(f, {"a": 1}) == (1, 2, 3, 4)
    assert called(f, {"a": 1, "d": 9, "b": 8}) == (1, 8, 3, 9)


def test_defaults_are_part_of_what_is_decided_on() -> None:
    def f(mode: str = "update", tags: list[str] = []) -> None: ...  # noqa: B006

    assert parameters(f).read({}) == {"mode": "update", "tags": []}


def test_function_never_gets_its_own_mutable_default() -> None:
    def f(tags: list[str] = []) -> list[str]:  # noqa: B006
        tags.append("x")
        return tags

    assert called(f, {}) == ["x"]
    assert called(f, {}) == ["x"]


def test_default_that_json_cannot_say_is_left_to_the_function() -> None:
    missing = object()

    def f(a: int, b: Any = missing) -> bool:
        return b is missing

    found = parameters(f)
    assert found.read({"a": 1}) == {"a": 1}
    assert called(f, {"a": 1}) is True
    assert called(f, {"a": 1, "b": 2}) is False


def test_none_as_default_of_a_type_without_none_is_allowed() -> None:
    def f(limit: int = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return limit

    assert called(f, {}) is None
    assert called(f, {"limit": 3}) == 3


def test_parameter_that_json_cannot_fill_is_not_offered_when_it_has_a_default() -> None:
    def f(a: int, client: Broken | None = None) -> Any:
        return client

    assert set(parameters(f).schema["properties"]) == {"a"}
    assert called(f, {"a": 1}) is None
    with pytest.raises(InvalidArguments, match="client: Extra"):
        parameters(f).read({"a": 1, "client": None})


def test_what_a_partial_has_fixed_can_neither_be_seen_nor_changed() -> None:
    def send(text: str, account: str) -> str:
        return f"{account}:{text}"

    fixed = functools.partial(send, account="s3cret")
    assert "s3cret" not in json.dumps(parameters(fixed).schema)
    assert called(fixed, {"text": "hi"}) == "s3cret:hi"
    with pytest.raises(InvalidArguments, match="account: Extra"):
        parameters(fixed).read({"text": "hi", "account": "other"})


def takes_broken(x: Broken) -> None: ...
def takes_secret(x: pydantic.SecretStr) -> None: ...
def takes_secret_inside(x: list[pydantic.SecretStr]) -> None: ...
def takes_function(x: Callable[[int], int]) -> None: ...
def takes_any_number(*args: int) -> None: ...
def takes_any_names(**kwargs: int) -> None: ...


@for_each(
    "function",
    [
        takes_broken,
        takes_secret,
        takes_secret_inside,
        takes_function,
        takes_any_number,
        takes_any_names,
        Broken,
        7,
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_function_that_an_agent_cannot_call_is_refused_when_it_is_made_a_tool(
    function: Any,
) -> None:
    with pytest.raises(InvalidInput):
        parameters(function)


def test_type_hint_that_cannot_be_resolved_is_named() -> None:
    def f(x: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidInput, match="NoSuchType"):
        parameters(f)


@for_each(
    "raw",
    ["{", "[]", "null", '"a"', '{"x": NaN}', '{"x": 1,}', "\ud800", '{"x": "\\ud800"}', 5, b"{}"],
)
def test_text_that_is_no_object_is_refused(raw: Any) -> None:
    def f(x: Any) -> None: ...

    with pytest.raises(InvalidArguments):
        parameters(f).read(raw)


def test_arguments_that_are_too_large_are_refused_before_they_are_parsed() -> None:
    def f(x: str) -> None: ...

    with pytest.raises(InvalidArguments, match="larger than"):
        parameters(f).read("{" * (5 << 20))
    with pytest.raises(InvalidArguments, match="larger than"):
        parameters(f).read({"x": "é" * (3 << 20)})


def test_arguments_that_are_too_deep_or_go_round_are_refused() -> None:
    def f(x: Any) -> None: ...

    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(InvalidArguments):
        parameters(f).read({"x": ring})
    with pytest.raises(InvalidArguments):
        parameters(f).read('{"x":' + "[" * 100_000 + "]" * 100_000 + "}")


def test_two_spellings_of_one_key_are_one_argument() -> None:
    def f(amount: int) -> int:
        return amount

    assert parameters(f).read('{"amount": 1, "amount": 9}') == {"amount": 9}
    assert called(f, '{"amount": 1, "amount": 9}') == 9


def test_arguments_in_another_form_are_not_what_was_decided_on() -> None:
    def f(amount: int, mode: str = "update") -> None: ...

    found = parameters(f)
    with pytest.raises(InvalidArguments, match="not complete"):
        found.call({"amount": 1})
    with pytest.raises(InvalidArguments):
        found.call({"amount": 1, "mode": "x", "more": 1})


@given(st.lists(st.text("abcdefgh", min_size=1), unique=True, max_size=20))
def test_set_is_the_same_in_any_order(items: list[str]) -> None:
    def f(x: set[str]) -> set[str]:
        return x

    assert called(f, {"x": items}) == set(items)


class Counter(pydantic.BaseModel):
    """Reads each value as another one."""

    value: int

    @pydantic.field_validator("value")
    @classmethod
    def more(cls, value: int) -> int:
        return value + 1


def test_type_that_reads_its_own_words_differently_is_refused() -> None:
    def f(x: Counter) -> None: ...

    with pytest.raises(InvalidArguments, match="differently"):
        parameters(f).read({"x": {"value": 1}})


@given(
    st.fixed_dictionaries(
        {
            "n": st.integers(-(2**60), 2**60),
            "t": st.text(st.characters(exclude_categories=["Cs"])),
            "f": st.floats(allow_nan=False, allow_infinity=False),
            "any": st.recursive(
                st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("ab\u2028é"),
                lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
                max_leaves=10,
            ),
        }
    )
)
def test_what_is_read_is_what_the_function_gets_and_reads_again_as_the_same(
    raw: dict[str, Any],
) -> None:
    def f(n: int, t: str, f: float, any: Any) -> dict[str, Any]:
        return {"n": n, "t": t, "f": f, "any": any}

    found = parameters(f)
    form = found.read(raw)
    assert form == raw
    assert found.read(form) == form == found.read(json.dumps(form))
    call = found.call(form)
    assert f(*call.args, **call.kwargs) == raw


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXT, st.lists))
def test_schema_and_reader_agree_on_what_is_an_argument(value: Any) -> None:
    def f(x: list[int] | str | None = None) -> None: ...

    found = parameters(f)
    try:
        found.read({"x": value})
        is_read = True
    except InvalidArguments:
        is_read = False
    assert is_read == Draft202012Validator(found.schema).is_valid({"x": value})
