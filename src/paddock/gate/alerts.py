"""What somebody should look at: an attempt that a fence or a rule stopped. Raised, kept, told.

An alert is written to the journal when it is raised. The same one again within a while is counted
with the next, so that an agent in a loop cannot bury the others.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from paddock.model.values import dataclass

EGRESS_DENIED = "egress.denied"  # an attempt to reach what is not allowed
QUIET_S = 10.0
MAX_KEPT = 200  # of one name
_MAX_KNOWN = 1000


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of a run."""

    name: str  # e.g. egress.denied, secret.misplaced
    about: Mapping[str, Any]
    step: int | None = None
    at: float = field(default_factory=time.time)
    times: int = 1  # how often since it was last told


Listener = Callable[[Alert], None]


def _moment(alert: Alert) -> float:
    return alert.at


class Alerts:
    """The alerts of one run."""

    def __init__(self, write: Callable[[Alert], None]) -> None:
        self.listeners: list[Listener] = []
        self._write = write
        self._kept: dict[str, deque[Alert]] = {}  # by name: a flood of one hides no other
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    def all(self) -> list[Alert]:
        return sorted((one for kept in self._kept.values() for one in kept), key=_moment)

    def raised(self, name: str, about: Mapping[str, Any], step: int | None = None) -> None:
        """Writes it down and tells the listeners. Raises JournalBroken."""
        times = self._count((name, repr(sorted(about.items()))))
        if not times:
            return
        alert = Alert(name, about, step, times=times)
        self._kept.setdefault(name, deque(maxlen=MAX_KEPT)).append(alert)
        self._write(alert)
        for listener in self.listeners:
            with contextlib.suppress(Exception):  # of whoever listens: the run goes on
                listener(alert)

    def _count(self, key: tuple[str, str]) -> int:
        now = time.monotonic()
        told_at, missed = self._known.get(key, (-QUIET_S, 0))
        if now - told_at < QUIET_S:
            self._known[key] = (told_at, missed + 1)
            return 0
        if len(self._known) >= _MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[key] = (now, 0)
        return missed + 1
