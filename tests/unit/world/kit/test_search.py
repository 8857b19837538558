"""The grammar of searches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.world.kit import Term, compare, parse_terms
from paddock.world.kit.search import MAX_TERMS


@for_each(
    ("query", "terms"),
    [
        ("crash", [Term("", "", "crash")]),
        ("-crash", [Term("", "", "crash", is_negated=True)]),
        ('"help wanted"', [Term("", "", "help wanted", is_quoted=True)]),
        ("is:open", [Term("is", ":", "open")]),
        ('-label:"a b"', [Term("label", ":", "a b", is_negated=True, is_quoted=True)]),
        ("created>=2026-01-01", [Term("created", ">=", "2026-01-01")]),
        ("status<solved refund", [Term("status", "<", "solved"), Term("", "", "refund")]),
        ("metadata['order']:'7'", [Term("metadata", ":", "7", is_quoted=True, key="order")]),
        ("card.last4:4242", [Term("card.last4", ":", "4242")]),
        (r'name:"O\"Hara"', [Term("name", ":", 'O"Hara', is_quoted=True)]),
        ("fix: crash", [Term("", "", "fix:"), Term("", "", "crash")]),
        ('say "hi', [Term("", "", "say"), Term("", "", '"hi')]),
        ("a:b AND c~d", [Term("a", ":", "b"), Term("", "", "AND"), Term("c", "~", "d")]),
        ("  ", []),
    ],
)
def test_a_query_is_read_as_terms(query: str, terms: list[Term]) -> None:
    assert parse_terms(query) == terms


@given(st.text(max_size=200))
def test_any_text_is_a_query(query: str) -> None:
    assert len(parse_terms(query)) <= MAX_TERMS


def test_a_query_of_backslashes_is_read_at_once() -> None:
    """One that is read in several ways would take until the test's time limit."""
    for query in ('"' + "\\" * 20_000, "a" * 20_000, " " * 20_000 + "x", "a['" + "\\" * 20_000):
        assert len(parse_terms(query)) <= 2


def test_relations() -> None:
    assert [compare(1, sign, 2) for sign in ("<", "<=", ">", ">=", ":", "=")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


def test_a_term_of_an_unknown_field_has_its_text() -> None:
    assert parse_terms("http://a.example")[0].text == "http://a.example"
