"""The rate at which a scenario passes, with its confidence interval. Pure arithmetic."""

from __future__ import annotations

import math

import msgspec

_Z = 1.959963984540054  # 95 % of a normal distribution lie within


class PassRate(msgspec.Struct, frozen=True):
    """So many of so many passed; the true rate lies between `low` and `high`, 95 times of 100."""

    passed: int
    runs: int
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.passed / self.runs if self.runs else 0.0

    def __str__(self) -> str:
        return f"{self.passed} of {self.runs} ({100 * self.low:.0f}-{100 * self.high:.0f} %)"


def rate_of(passed: int, runs: int) -> PassRate:
    """Return the rate with Wilson's interval, which also holds for few runs and for rates near 0
    and 1."""
    if not runs:
        return PassRate(0, 0, 0.0, 1.0)
    share, z2 = passed / runs, _Z * _Z
    middle = share + z2 / (2 * runs)
    width = _Z * math.sqrt(share * (1 - share) / runs + z2 / (4 * runs * runs))
    scale = 1 + z2 / runs
    low = 0.0 if passed == 0 else (middle - width) / scale
    high = 1.0 if passed == runs else (middle + width) / scale
    return PassRate(passed, runs, max(0.0, low), min(1.0, high))


def runs_to_show(least: float) -> int:
    """Return the number of runs that shows the rate if every one of them passes."""
    return max(1, math.ceil(least * _Z * _Z / (1 - least)))
