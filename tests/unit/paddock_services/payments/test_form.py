from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock_services.payments import form
from paddock_services.payments.errors import Refusal


@for_each(
    ("text", "value"),
    [
        ("", {}),
        ("a=1&b=two+words&c=%C3%A9", {"a": "1", "b": "two words", "c": "é"}),
        ("a[b][c]=1&a[b][d]=2", {"a": {"b": {"c": "1", "d": "2"}}}),
        ("a[]=1&a[]=2", {"a": ["1", "2"]}),
        ("a[1]=y&a[0]=x&a[10]=z", {"a": ["x", "y", "z"]}),
        ("a[0][b]=1&a[0][c]=2&a[1][b]=3", {"a": [{"b": "1", "c": "2"}, {"b": "3"}]}),
        ("a%5Bb%5D=1", {"a": {"b": "1"}}),
        ("a=1&a[b]=2", {"a": {"b": "2"}}),
        ("a[b]=2&a=1", {"a": "1"}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=%ff", {"a": "\N{REPLACEMENT CHARACTER}"}),
    ],
)
def test_brackets_become_nested_values(text: str, value: object) -> None:
    assert form.decode(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "a[b=1",
        "[b]=1",
        "a[b]c=1",
        "a" + "[b]" * (form.MAX_DEPTH + 1) + "=1",
        "&".join(["a=1"] * (form.MAX_PARAMS + 1)),
        "&".join(["a[]=1"] * (form.MAX_ITEMS + 1)),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        form.decode(text)


_KEYS = st.text(st.characters(categories=["L"]), min_size=1, max_size=5)
_VALUES = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda below: (
        st.dictionaries(_KEYS, below, min_size=1, max_size=3)
        | st.lists(below, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def _pairs(value: object, name: str, depth: int = 0) -> list[str]:
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in _pairs(v, f"{name}[{k}]", depth + 1)]
    if isinstance(value, list):
        return [p for n, v in enumerate(value) for p in _pairs(v, f"{name}[{n}]", depth + 1)]
    return [f"{quote(name)}={quote(str(value), safe='')}"]


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_what_was_written_as_a_form_is_read_back(params: dict[str, object]) -> None:
    pairs = [pair for name, value in params.items() for pair in _pairs(value, name)]
    if all(pair.count("%5B") <= form.MAX_DEPTH for pair in pairs):
        assert form.decode("&".join(pairs)) == params


@given(st.text(alphabet="ab[]=&0%+", max_size=60))
def test_no_text_does_anything_else_than_be_read_or_refused(text: str) -> None:
    try:
        assert isinstance(form.decode(text), dict)
    except Refusal as refusal:
        assert refusal.reply.status == 400
