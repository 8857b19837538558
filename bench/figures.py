"""One figure of the bench: a value, what stands beside it, and whether its limit is kept.
Also how samples are taken. Nothing here starts a sandbox or prints.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec


class Limit(msgspec.Struct, frozen=True):
    """The promise: a ceiling or a floor, on the ratio to the peer or on the value itself."""

    bound: float
    is_ratio: bool = False
    is_floor: bool = False

    def text(self, unit: str) -> str:
        sign = ">=" if self.is_floor else "<="
        return f"{sign} {self.bound:g}x" if self.is_ratio else f"{sign} {self.bound:g} {unit}"

    def holds(self, measured: float) -> bool:
        return measured >= self.bound if self.is_floor else measured <= self.bound


class Figure(msgspec.Struct, frozen=True):
    """One measured thing. Without a value it could not be measured, and the note says why."""

    name: str
    title: str
    value: float | None
    unit: str
    n: int = 0
    peer: str | None = None
    peer_value: float | None = None
    limit: Limit | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The value over the peer's; without a peer, over the limit."""
        if self.value is None:
            return None
        if self.peer_value:
            return self.value / self.peer_value
        if self.limit is None or self.limit.is_ratio:
            return None
        return self.value / self.limit.bound

    @property
    def is_reached(self) -> bool | None:
        """Return None where nothing is promised; what failed to be measured is not reached."""
        if self.value is None:
            return False
        if self.limit is None:
            return None
        measured = self.ratio if self.limit.is_ratio else self.value
        return measured is not None and self.limit.holds(measured)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "value": _rounded(self.value),
            "unit": self.unit,
            "n": self.n,
            "peer": self.peer,
            "peer_value": _rounded(self.peer_value),
            "ratio": _rounded(self.ratio),
            "limit": None if self.limit is None else self.limit.text(self.unit),
            "reached": self.is_reached,
            "note": self.note,
        }


def failed(name: str, error: BaseException) -> Figure:
    """The place of a figure that could not be measured."""
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    why = "; ".join(line for line in lines if line) or type(error).__name__
    return Figure(name, name, None, "", note=f"failed: {why[:400]}")


def alternate(count: int, *runs: Callable[[], float], warm_up: int = 1) -> list[list[float]]:
    """Return samples of each run, taken in turns (A B A B), so that noise hits all."""
    for run in runs * warm_up:
        run()
    samples: list[list[float]] = [[] for _ in runs]
    for _ in range(count):
        for run, taken in zip(runs, samples, strict=True):
            taken.append(run())
    return samples


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """The same work as a run that answers how many seconds it took."""

    def run() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return run


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def median_ms(samples: Sequence[float]) -> float:
    return 1000 * statistics.median(samples)


def percentile_ms(samples: Sequence[float], percent: int) -> float:
    """The smallest sample that so many percent do not exceed."""
    ordered = sorted(samples)
    return 1000 * ordered[math.ceil(len(ordered) * percent / 100) - 1]


def spread_note(samples: Sequence[float]) -> str:
    """Return how far the samples lie apart: a wide spread says that the machine was busy."""
    fast, slow = (number(percentile_ms(samples, percent)) for percent in (5, 95))
    return f"p5 {fast}, p95 {slow} ms"


def number(value: float) -> str:
    """Return three digits that matter, and never an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
