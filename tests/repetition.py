"""How often a test repeats itself: a few times, or with `--thorough` as often as promised."""

from __future__ import annotations

import os

VARIABLE = "PADDOCK_THOROUGH"  # Set by the conftest beside this file, for its workers and children.


def is_thorough() -> bool:
    return os.environ.get(VARIABLE) == "1"


def times(default: int, thorough: int) -> int:
    """The number of repetitions in this run. A test that uses it is marked `repeated`."""
    return thorough if is_thorough() else default
