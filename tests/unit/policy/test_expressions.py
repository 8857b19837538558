"""Expressions: what is refused when a file is loaded, and that no argument makes one run away."""

from __future__ import annotations

from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.policy.expressions import (
    LOOSEST,
    MAX_SOURCE,
    ExpressionError,
    Scope,
    compile_expression,
    is_panic,
)

NAMES = frozenset({"args", "action", "context"})


def value_of(source: str, **arguments: Any) -> Any:
    expression = compile_expression(source, NAMES)
    return expression.evaluate(Scope({"args": arguments}.__getitem__, expression.keys))


@for_each(
    ("source", "arguments", "expected"),
    [
        ("args.a > 1 && args.b == 'x'", {"a": 2, "b": "x"}, True),
        ("has(args.a) && args.a == 1", {}, False),
        ("args['a'] == 1", {"a": 1}, True),
        ("size(args.l) == 2", {"l": [1, 2]}, True),
        ("args.l.all(x, x > 0)", {"l": [1, 2]}, True),
        ("args.l.exists(x, args.m.exists(y, x == y))", {"l": [1, 2], "m": [2]}, True),
        ("args.s.matches('(?i)^drop ')", {"s": "DROP TABLE"}, True),
        ("args.matches == 1", {"matches": 1}, True),
        ("'args.x' == 'args.x' // args.y", {}, True),
        ("type(args.a) == string", {"a": "x"}, True),
        ("timestamp(args.t).getFullYear() == 2024", {"t": "2024-05-01T00:00:00Z"}, True),
        ("args.a.b.c == 1", {"a": {"b": {"c": 1}}}, True),
        ("args.l.map(args_, args_ + 1)[0] == 2", {"l": [1]}, True),
    ],
)
def test_expressions_give_what_the_language_says(
    source: str, arguments: dict[str, Any], expected: bool
) -> None:
    assert value_of(source, **arguments) is expected


@for_each(
    ("source", "words"),
    [
        ("", "ends too early"),
        ("args.a == 1 and args.b == 2", "write && for and"),
        ("args.a == 1 OR args.b == 2", "write || for or"),
        ("not has(args.a)", "write ! for not"),
        ("not(args.a)", "write ! for not"),
        ("not has(args.a) or true", "write ! for not"),
        ("args.b == 'not' and\n args.a or true", "write && for and"),
        ("args.a not in [1]", "write !(a in b) for not in"),
        ("args.a = 1", "write == for ="),
        ("args.a === 1", "write == for ==="),
        ("args.a <> 1", "write != for <>"),
        ("args.a & args.b", "write && for &"),
        ("args.a =~ 'x'", "matches("),
        ("'and = or' +", "it is CEL"),
        ("args.a == None", "write null"),
        ("len(args.a) > 1", "write size(x)"),
        ("args.a.startswith('x')", "write startsWith"),
        ("amount > 5", "an argument is args.amount"),
        ("1 +", "at character 4"),
        ("args.a ==\n  == 1", "at 2:"),
        ("nope.a == 1", "no name nope"),
        ("args.a == nope", "no name nope"),
        ("args.a.frobnicate()", "no function frobnicate"),
        ("open('/etc/passwd')", "no function open"),
        ("args.s.matches(args.p)", "must be a text in the rule"),
        ("args.s.matches('a' + args.p)", "must be a text in the rule"),
        ("matches(args.s, args.p)", "must be a text in the rule"),
        ("args.s.matches('a(')", "is not valid"),
        ("args.s.matches('(a{500}){500}')", "repeats too often"),
        ("args.l.map(x, x.map(y, y.map(z, z)))", "inside each other"),
        (" && ".join(["args.l.all(x, x > 0)"] * 7), "inside each other"),
        ("args.l.all(args, args > 0)", "names its variable args"),
        ("args.a == '" + "x" * MAX_SOURCE + "'", "longer than"),
        ("(" * 500 + "true" + ")" * 500, "ecursion"),
    ],
)
def test_what_cannot_be_used_is_refused_when_it_is_compiled(source: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_expression(source, NAMES)
    assert words in str(caught.value)


@pytest.mark.parametrize("source", ["1" + "+1" * 1000, "!" * 2000 + "true", "-" * 2000 + "1",
                                    "args" + ".b" * 1000, "true" + "||true" * 300])  # fmt: skip
def test_the_longest_expressions_end_nobody(source: str) -> None:
    expression = compile_expression(source, NAMES)
    try:
        expression.evaluate(Scope({"args": {"b": {}}}.__getitem__))
    except ExpressionError as error:
        assert str(error)


def test_only_the_arguments_that_are_read_are_handed_over() -> None:
    expression = compile_expression("args.a == 1 && has(args.b)", NAMES)
    assert expression.keys == {"a", "b"}
    huge = {"a": 1, "b": 2, "unread": ["x"] * 100_000}
    assert expression.holds(Scope({"args": huge}.__getitem__, expression.keys))


@pytest.mark.parametrize(
    "source", ["size(args) > 1", "args['a'] == 1", "args == args", "'a' in args"]
)
def test_whoever_may_read_any_argument_gets_them_all(source: str) -> None:
    assert compile_expression(source, NAMES).keys is None


@pytest.mark.parametrize(
    ("source", "limit"),
    [("args.l == 1", LOOSEST.nodes), ("args.l.all(x, x == 1)", 1000),
     ("args.l.all(x, args.l.all(y, x == y))", 100)],
)  # fmt: skip
def test_the_more_loops_the_fewer_values(source: str, limit: int) -> None:
    value_of(source, l=[1] * (limit - 3))
    with pytest.raises(ExpressionError, match="too large"):
        value_of(source, l=[1] * (limit + 1))


@for_each(
    "value",
    [1 << 63, -(1 << 63) - 1, float("nan"), float("inf"), b"x", {1: 2}, object(), {1, 2},
     {"k": [1 << 63]}, [float("nan")], "\ud800", {"\ud800": 1}],
)  # fmt: skip
def test_what_is_no_json_is_not_handed_over(value: Any) -> None:
    with pytest.raises(ExpressionError):
        value_of("args.v == 1", v=value)


def test_nesting_and_length_are_bounded() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = {"k": deep}
    with pytest.raises(ExpressionError, match="deeper"):
        value_of("args.v == 1", v=deep)
    with pytest.raises(ExpressionError, match="too large"):
        value_of("args.v == 'x'", v=["x" * 600_000, "y" * 600_000])


def test_a_text_beyond_the_bound_is_not_handed_over_alone_either() -> None:
    with pytest.raises(ExpressionError, match="too large"):
        value_of("args.v == 'x'", v="x" * (LOOSEST.characters + 1))


def test_overflow_and_division_are_errors_and_not_numbers() -> None:
    for source in ("args.n + 1 > 0", "args.n * 2 > 0", "args.n / 0 > 0", "args.n % 0 > 0"):
        with pytest.raises(ExpressionError):
            value_of(source, n=(1 << 63) - 1)


def test_only_a_panic_of_the_evaluator_is_taken_for_one() -> None:
    panic = type("PanicException", (BaseException,), {})
    assert is_panic(panic())
    assert not is_panic(KeyboardInterrupt())
