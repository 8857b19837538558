"""Tables for people and for pipes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.cli.table import age, table

cells = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=12)


def test_columns_are_aligned_and_lines_end_without_blanks() -> None:
    text = table(("ID", "AGE", "NOTE"), [("abc", 5, ""), ("a", 12345, "x y")])
    assert text.split("\n") == ["ID   AGE    NOTE", "abc  5", "a    12345  x y"]


def test_table_without_rows_is_its_header() -> None:
    assert table(("A", "B"), []) == "A  B"


@settings(deadline=None)
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


def test_row_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises((ValueError, IndexError)):
        table(("A", "B"), [("1",)])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.9, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"),
     (86399, "23h"), (86400, "1d"), (864000, "10d")],
)  # fmt: skip
def test_age_is_one_number_and_one_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text
