"""The laws of sizes and durations: what is printed can be read, and what is refused is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.model.sizes import (
    MAX_DURATION,
    MAX_SIZE,
    format_size,
    parse_duration,
    parse_size,
)

BINARY = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
DECIMAL = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
NOT_A_QUANTITY: list[Any] = [
    None, True, False, "", "  ", "MiB", "-1", "-1MiB", "1 2", "1e9", "0x10", "1,5GiB", "1.GiB",
    ".5GiB", "1MiBB", "5 parsecs", "nan", "inf", [], {}, b"1MiB", float("nan"), float("inf"),
    float("-inf"), 0, 0.0, "0", "0MiB", "0.0s", -1, -0.5, 10**400, "9" * 400,
]  # fmt: skip
whole = st.integers(min_value=1, max_value=1000)


@given(st.integers(min_value=1, max_value=MAX_SIZE))
def test_size_that_was_printed_reads_back_as_nearly_the_same(size: int) -> None:
    assert parse_size(format_size(size), "x") == pytest.approx(size, rel=0.0005, abs=1)


@given(whole, st.sampled_from([*BINARY.items(), *DECIMAL.items()]), st.sampled_from(["", " "]))
def test_size_is_its_number_times_its_unit(number: int, unit: tuple[str, int], space: str) -> None:
    assert parse_size(f"{number}{space}{unit[0]}", "x") == number * unit[1]


@given(st.integers(min_value=1, max_value=MAX_SIZE))
def test_whole_number_of_bytes_is_taken_exactly(size: int) -> None:
    assert parse_size(size, "x") == parse_size(str(size), "x") == size


@given(whole, st.sampled_from(list(SECONDS.items())))
def test_duration_is_its_number_times_its_unit(number: int, unit: tuple[str, float]) -> None:
    assert parse_duration(f"{number}{unit[0]}", "x") == pytest.approx(number * unit[1])


@for_each(
    ("text", "size"),
    [("512MiB", 512 << 20), ("512mib", 512 << 20), ("1.5GiB", 3 << 29), ("4096", 4096),
     (" 1 GB ", 10**9), ("10b", 10), ("2k", 2000), (1.0, 1)],
)  # fmt: skip
def test_sizes_as_people_write_them(text: Any, size: int) -> None:
    assert parse_size(text, "x") == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30", 30.0), ("10m", 600.0), ("1.5H", 5400.0), (0.5, 0.5), ("1d", 86400.0)],
)
def test_durations_as_people_write_them(text: Any, seconds: float) -> None:
    assert parse_duration(text, "x") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (900, "900B"), (1024, "1KiB"), (512 << 20, "512MiB"), (3 << 29, "1.5GiB"),
     (1 << 40, "1TiB")],
)  # fmt: skip
def test_sizes_are_printed_short(size: int, text: str) -> None:
    assert format_size(size) == text


@for_each("value", NOT_A_QUANTITY)
@for_each("parse", [parse_size, parse_duration])
def test_what_is_no_quantity_is_refused_by_name(parse: Any, value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^limits\.thing: ") as caught:
        parse(value, "limits.thing")
    assert repr(value) in str(caught.value)


@given(st.text() | st.integers() | st.floats() | st.binary() | st.none())
@example(10**400)
@example("9" * 300 + "TiB")
@example("9" * 400)
@example(0.5)
@example("0.0001KiB")
def test_anything_is_a_size_of_at_least_one_byte_or_is_refused(value: Any) -> None:
    try:
        size = parse_size(value, "thing")
    except InvalidInput as error:
        assert str(error).startswith("thing: ")
        return
    assert isinstance(size, int)
    assert 1 <= size <= MAX_SIZE


@given(st.text() | st.integers() | st.floats() | st.binary() | st.none())
@example(10**400)
@example("9" * 307 + "d")
def test_anything_is_a_finite_positive_duration_or_is_refused(value: Any) -> None:
    try:
        seconds = parse_duration(value, "thing")
    except InvalidInput as error:
        assert str(error).startswith("thing: ")
        return
    assert 0 < seconds <= MAX_DURATION
