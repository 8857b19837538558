"""Rates and their intervals, against published values and by their laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.run.scenarios.rates import rate_of, runs_to_show

COUNTS = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("passed", "runs", "low", "high"),
    [  # Wilson's interval, as R's prop.test(correct=FALSE) gives it
        (5, 10, 0.2366, 0.7634),
        (1, 10, 0.0179, 0.4042),
        (10, 10, 0.7225, 1.0),
        (0, 10, 0.0, 0.2775),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_the_interval_is_wilsons(passed: int, runs: int, low: float, high: float) -> None:
    rate = rate_of(passed, runs)
    assert (round(rate.low, 4), round(rate.high, 4)) == (low, high)


@given(COUNTS)
def test_the_share_lies_within_the_interval(counts: tuple[int, int]) -> None:
    rate = rate_of(*counts)
    assert 0 <= rate.low <= rate.share <= rate.high <= 1


@given(COUNTS)
def test_failures_are_the_mirror_of_passes(counts: tuple[int, int]) -> None:
    passed, runs = counts
    rate, mirrored = rate_of(passed, runs), rate_of(runs - passed, runs)
    assert rate.low == pytest.approx(1 - mirrored.high)


def test_no_runs_show_nothing() -> None:
    rate = rate_of(0, 0)
    assert (rate.low, rate.high) == (0.0, 1.0)


@given(st.floats(0.01, 0.999))
def test_so_many_runs_can_show_a_rate_and_one_less_cannot(least: float) -> None:
    needed = runs_to_show(least)
    assert rate_of(needed, needed).low >= least - 1e-9
    assert needed == 1 or rate_of(needed - 1, needed - 1).low < least + 1e-9
