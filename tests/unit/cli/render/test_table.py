"""Tables for people and for pipes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.cli.render.table import age, table

cells = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=12)


def test_columns_are_aligned_and_lines_end_without_blanks() -> None:
    text = table(("ID", "AGE", "NOTE"), [("abc", 5, ""), ("a", 12345, "x y")])
    assert text.split("\n") == ["ID   AGE    NOTE", "abc  5", "a    12345  x y"]


def test_table_without_rows_is_its_header() -> None:
    assert table(("A", "B"), []) == "A  B"


@given(st.lists(st.tuples(cells, cells, cells), max_size=6))
def test_every_column_begins_at_the_same_place_in_every_line(
    rows: list[tuple[str, str, str]],
) -> None:
    header = ("FIRST", "SECOND", "THIRD")
    lines = table(header, rows).split("\n")
    assert len(lines) == len(rows) + 1
    starts = [lines[0].index(name) for name in header]
    for line, row in zip(lines[1:], rows, strict=True):
        for start, cell in zip(starts, row, strict=True):
            assert line.ljust(200)[start : start + len(cell)] == cell
        assert line == line.rstrip()


@given(st.lists(st.tuples(cells, cells, cells), max_size=6), st.integers(1, 60))
def test_no_line_is_wider_than_the_width(rows: list[tuple[str, str, str]], width: int) -> None:
    header = ("FIRST", "SECOND", "THIRD")
    text = table(header, rows, width=width, flexible=("SECOND",), spared=("THIRD",))
    assert max(map(len, text.split("\n"))) <= width


def test_flexible_column_gives_way_before_another_is_left_out() -> None:
    rows = [("run", "c" * 40, "note")]
    header = ("ID", "CALL", "NOTE")
    wide = table(header, rows, width=51, flexible=("CALL",), spared=("NOTE",))
    assert wide.split("\n")[1] == f"run  {'c' * 40}  note"
    narrow = table(header, rows, width=30, flexible=("CALL",), spared=("NOTE",))
    assert narrow.split("\n")[1] == f"run  {'c' * 16}...  note"
    narrowest = table(header, rows, width=25, flexible=("CALL",), spared=("NOTE",))
    assert narrowest.split("\n") == ["ID   CALL", f"run  {'c' * 17}..."]


def test_call_that_is_too_long_keeps_its_path_and_its_amount() -> None:
    call = "POST payments.internal.example.com/v1/refunds 20.00 EUR"
    text = table(("ID", "CALL"), [("a", call)], width=40, with_ends=("CALL",))
    row = text.split("\n")[1]
    assert row.startswith("a   POST") and row.endswith("/refunds 20.00 EUR") and len(row) <= 40


def test_row_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises((ValueError, IndexError)):
        table(("A", "B"), [("1",)])


@for_each(
    ("seconds", "text"),
    [(0, "0s"), (0.9, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"),
     (86399, "23h"), (86400, "1d"), (864000, "10d")],
)  # fmt: skip
def test_age_is_one_number_and_one_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text
