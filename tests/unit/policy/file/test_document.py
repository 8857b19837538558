"""YAML as values: what is refused, where it stands, and that nothing explodes. Both readers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.policy.file.document import MAX_NODES, MAX_TEXT_BYTES, TextPosition, read
from paddock.policy.file.writer import emit
from paddock.policy.problems import PolicyError, Problem


@pytest.fixture(params=["libyaml", "python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reader in C, where it is there, and the one that is always there."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not yaml.__with_libyaml__:
        pytest.skip("this PyYAML was built without libyaml")
    return str(request.param)


def problems(text: str) -> list[Problem]:
    with pytest.raises(PolicyError) as caught:
        read(text)
    return caught.value.problems


def test_values_are_json_and_have_their_places(reader: str) -> None:
    text = "a: 1\nb:\n  - x\n  - {c: null, d: true, e: -1.5, f: 'no', g: 1e3}\n"
    document = read(text)
    expected = {"c": None, "d": True, "e": -1.5, "f": "no", "g": 1000.0}
    assert document.value == {"a": 1, "b": ["x", expected]}
    line = text.splitlines()[3]
    assert document.places[("b", 1, "e")] == TextPosition(4, line.index("-1.5") + 1)
    assert document.key_places[("b", 1, "e")] == TextPosition(4, line.index("e: -1.5") + 1)
    assert document.places[()] == TextPosition(1, 1)


@for_each(
    ("text", "line", "column", "hint"),
    [
        ("a: no", 1, 4, 'write false, or "no" for the word'),
        ("x: 1\na: Yes", 2, 4, 'write true, or "Yes" for the word'),
        ("a: on", 1, 4, "write true"),
        ("a: True", 1, 4, "write true"),
        ("on: 1", 1, 1, "write true"),
        ("a: 0755", 1, 4, "plain decimal"),
        ("a: 0x1f", 1, 4, "plain decimal"),
        ("a: 1_000", 1, 4, "plain decimal"),
        ("a: 12:30:45", 1, 4, "plain decimal"),
        ("a: .inf", 1, 4, "plain decimal"),
        ("a: .NaN", 1, 4, "plain decimal"),
        ("a: 1e999", 1, 4, "plain decimal"),
        ("a: NULL", 1, 4, "plain decimal"),
        ("a: 99999999999999999999", 1, 4, "quote it"),
        ("a: 1\nb: 2\na: 3", 3, 1, "keep one"),
        ("1: a", 1, 1, "quote it"),
        ("? [a]\n: b", 1, 3, "quote it"),
        ("a: !!str 1", 1, 4, "leave tags out"),
        ("a: !!python/object/apply:os.system [ls]", 1, 4, "leave tags out"),
        ("a: &x 1\n<<: *x", 2, 1, "write out"),
        ("a: *nowhere", 1, 4, "put &nowhere"),
        ("a: &x [*x]", 1, 8, "put &x"),
        ("a: 1\n--- \nb: 2", 2, 1, "keep one"),
        ("a:\n\tb: 1", 2, 1, "replace the tab"),
        ("a: @b", 1, 4, "in quotes"),
        ("a: `b`", 1, 4, "in quotes"),
        ("a: b: c", 1, 5, "in quotes"),
        ("a: 'b", 1, 6, "close the quote"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_to_write(
    reader: str, text: str, line: int, column: int, hint: str
) -> None:
    found = problems(text)[0]
    assert (found.line, found.column) == (line, column)
    assert hint in (found.hint or "")


def test_all_mistakes_are_told_at_once(reader: str) -> None:
    assert [one.line for one in problems("a: no\nb: 1\nb: 0x2\nc: !x 3")] == [1, 3, 3, 4]


@for_each("text", ["a: [1, 2", "a: {b: 1", "a: |\n x\n\ty", "- a\nb: 1", 'a: "\\q"',
                                  "a: \x01", "a: \ud800", "%YAML 9.9\n---\na: 1"])  # fmt: skip
def test_what_is_no_yaml_is_an_error_with_a_hint(reader: str, text: str) -> None:
    assert all(one.line >= 1 and one.hint for one in problems(text))


def test_aliases_repeat_a_value_and_its_mistakes_are_told_where_they_are_used(reader: str) -> None:
    document = read("a: &x {b: [1]}\nc: *x\n")
    assert document.value == {"a": {"b": [1]}, "c": {"b": [1]}}
    assert document.place(("c", "b", 0)).line == 2


def test_aliases_of_aliases_do_not_explode(reader: str) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert f"more than {MAX_NODES}" in problems("\n".join(lines))[0].message


@for_each("text", ["[" * 5000, "[" * 5000 + "]" * 5000, "{a: " * 5000,
                                  "- " * 3000 + "x"])  # fmt: skip
def test_deep_nesting_is_refused_and_ends_nobody(reader: str, text: str) -> None:
    assert problems(text)


def test_a_text_beyond_the_limit_is_refused_unread(reader: str) -> None:
    assert "at most" in problems("a" * (MAX_TEXT_BYTES + 1))[0].message


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(
        ["no", "1e5", "0755", "~", "null", "a: b", "# x", "- a", "*a", " x ", "1:30"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
                lambda k: k != "<<"
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abc-_. :#", min_size=1, max_size=8), json_values, min_size=1,
                       max_size=5))  # fmt: skip
def test_what_is_written_is_read_back_the_same(value: dict[str, Any]) -> None:
    assert read(emit(value)).value == value


@given(st.text(st.sampled_from("ab:-[]{},\n \t'\"#&*!|>%@`?~0.<"), max_size=60))
def test_no_text_raises_anything_but_a_policy_error(text: str) -> None:
    try:
        read(text)
    except PolicyError as error:
        assert error.problems
